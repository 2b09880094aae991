// Matrix: bytes from each listed rank to each other, with numbers where they have room, and a scale.

const MATRIX_ROOM = 400, MARGIN = 42;

function mixed(share) {
  return `color-mix(in oklab, var(--hot) ${Math.round(100 * (.08 + .92 * share))}%, var(--cold))`;
}

function numbersAlong(ranks, side, g) {
  const digits = String(ranks.at(-1).rank).length, down = Math.ceil(12 / side), across = Math.ceil((4 + 6 * digits) / side);
  ranks.forEach(({rank}, i) => {
    const middle = MARGIN + i * side + side / 2;
    if (i % down === 0) g.append(shape('text', {class: 'tick', x: MARGIN - 6, y: middle, 'text-anchor': 'end'}, rank));
    if (i % across === 0) g.append(shape('text', {class: 'tick', x: middle, y: MARGIN - 9, 'text-anchor': 'middle'}, rank));
  });
}

function amount(most, unit, much, kept, x, y) {
  const dark = kept || much > .5 * most;
  return shape('text', {class: 'amount', x, y, fill: dark ? 'var(--paper)' : 'var(--ink)'}, amountIn(much, unit));
}

// Bytes from rank to rank as Map of destination by source; in one stage of the plan, or in all of them (null).
function sentIn(scene, stage) {
  const rows = new Map(scene.ranks.map(r => [r.rank, new Map(stage === null ? r.to : [])]));
  if (stage !== null)
    for (const {rank, arrivals} of scene.ranks)
      for (const [k, source, n] of arrivals ?? []) if (k === stage) rows.get(source).set(rank, n);
  return rows;
}

// The most that one rank sends to another, the unit in which cells are printed, and whether a rank keeps something.
function scaleOf(scene) {
  const entries = scene.ranks.flatMap(r => r.to.map(([to, n]) => ({kept: to === r.rank, n})));
  const most = list => list.reduce((so_far, {n}) => Math.max(so_far, n), 0);
  return {most: Math.max(1, most(entries.filter(e => !e.kept))), unit: unitOf(most(entries)), kept: entries.some(e => e.kept)};
}

function matrixCells(scene, side, {most, unit}, stage, g) {
  const ranks = scene.ranks, rows = sentIn(scene, stage), cells = [];
  ranks.forEach(({rank: from}, i) => ranks.forEach(({rank: to}, k) => {
    const kept = to === from, much = rows.get(from).get(to) ?? 0, x = MARGIN + k * side, y = MARGIN + i * side;
    const e = shape('rect', {class: `cell ${!much ? 'nothing' : kept ? 'kept' : 'sent'}`, 'data-source': from, 'data-destination': to,
      x: x + .5, y: y + .5, width: side - 1, height: side - 1, rx: Math.min(3, side / 6)},
      shape('title', {}, kept ? `rank ${to} keeps ${bytes(much)}` : `rank ${from} to rank ${to}: ${bytes(much)}`));
    if (much && !kept) e.style.fill = mixed(much / most);
    g.append(e);
    cells.push(e);
    if (much && side >= 30) g.append(amount(most, unit, much, kept, x + side / 2, y + side / 2));
  }));
  return cells;
}

function matrixScale({most, kept}) {
  return make('div', {class: 'scale'}, '0 B', make('span', {class: 'bar'}), make('span', {}, `${bytes(most)} move`),
    ...(kept ? [make('span', {}, make('span', {class: 'swatch'}), 'stays on its rank')] : []));
}

function buildMatrix(view) {
  const {scene} = view, n = scene.ranks.length;
  if (!scene.totals || !n) return null;
  const side = Math.max(7, Math.min(44, Math.floor(MATRIX_ROOM / n))), all = MARGIN + n * side + 4, scale = scaleOf(scene);
  const g = shape('g'), body = shape('g'), svg = shape('svg', {class: 'matrix', viewBox: `0 0 ${all} ${all}`, width: all, height: all, role: 'img',
    'aria-label': 'bytes from each rank to each other'}, g, body);
  g.append(shape('text', {class: 'tick', x: MARGIN, y: 8}, 'to rank'),
           shape('text', {class: 'tick', transform: `translate(8 ${MARGIN}) rotate(-90)`, 'text-anchor': 'end'}, 'from rank'));
  numbersAlong(scene.ranks, side, g);
  const unit = side >= 30 ? `${scale.unit ? UNITS[scale.unit] : 'Bytes'} from rank to rank` : 'Bytes from rank to rank';
  const title = make('h2'), section = make('section', {}, title, svg, matrixScale(scale));
  let cells = [], shown;
  // What moves in one stage of the plan, or in all of them (null).
  const show = stage => {
    if (stage === shown) return;
    shown = stage;
    title.textContent = stage === null ? unit : `${unit} in stage ${stage + 1}`;
    body.replaceChildren();
    cells = matrixCells(scene, side, scale, stage, body);
    focus(current(view));
  };
  if (n < scene.totals.ranks) section.append(make('div', {class: 'scale'}, `${n} of ${scene.totals.ranks.toLocaleString('en')} ranks`));
  svg.addEventListener('mouseover', event => setHover(view, event.target.dataset.source ? Number(event.target.dataset.source) : null));
  svg.addEventListener('mouseleave', () => setHover(view, null));
  svg.addEventListener('click', event => event.target.dataset.source && pin(view, Number(event.target.dataset.source)));
  const focus = rank => {
    svg.classList.toggle('focus', rank !== null);
    for (const e of cells) e.classList.toggle('lit', Number(e.dataset.source) === rank || Number(e.dataset.destination) === rank);
  };
  show(null);
  return {section, focus, show};
}

function buildTotals(scene) {
  const t = scene.totals, body = make('tbody');
  const row = (what, n, more) => body.append(make('tr', {}, make('td', {}, what), make('td', {class: 'n'}, n), make('td', {class: 'n'}, more)));
  const size = (what, n) => row(what, `${n.toLocaleString('en')} B`, n >= 1024 ? bytes(n) : '');
  row('ranks', t.ranks.toLocaleString('en'), '');
  size('tensor', t.tensor);
  size('moves between ranks', t.moved);
  size('least possible', t.least);
  size('copied within a rank', t.local);
  if (t.between_nodes) size('between nodes', t.between_nodes);
  size('most a rank sends', t.max_send);
  size('most a rank receives', t.max_recv);
  row('messages', t.messages.toLocaleString('en'), '');
  row('stages', scene.stages.length, '');
  size('scratch of a rank', t.scratch);
  row('fingerprint', t.fingerprint, '');
  return make('section', {}, make('h2', {}, 'Totals'), make('table', {class: 'totals'}, body));
}
