// Matrix: shows the bytes from each listed rank to each other, with numbers if they fit, and a scale.

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

function amount(most, much, kept, x, y) {
  const dark = kept || much > .5 * most;
  return shape('text', {class: 'amount', x, y, fill: dark ? 'var(--paper)' : 'var(--ink)'}, shortBytes(much));
}

function matrixCells(scene, side, g) {
  const ranks = scene.ranks, most = Math.max(1, ...ranks.flatMap(r => r.to.filter(([p]) => p !== r.rank).map(([, b]) => b)));
  const place = new Map(ranks.map((r, i) => [r.rank, i])), cells = [];
  for (const r of ranks) {
    const row = new Map(r.to);
    for (const {rank: to} of ranks) {
      const kept = to === r.rank, much = row.get(to) ?? 0;
      const x = MARGIN + place.get(to) * side, y = MARGIN + place.get(r.rank) * side;
      const e = shape('rect', {class: `cell ${!much ? 'nothing' : kept ? 'kept' : 'sent'}`, 'data-source': r.rank, 'data-destination': to,
        x: x + .5, y: y + .5, width: side - 1, height: side - 1, rx: Math.min(3, side / 6)},
        shape('title', {}, kept ? `${to} keeps ${bytes(much)}` : `${r.rank} to ${to}: ${bytes(much)}`));
      if (much && !kept) e.style.fill = mixed(much / most);
      g.append(e);
      cells.push(e);
      if (much && side >= 30) g.append(amount(most, much, kept, x + side / 2, y + side / 2));
    }
  }
  return {cells, most};
}

function matrixScale(most) {
  return make('div', {class: 'scale'}, '0', make('span', {class: 'bar'}), make('span', {}, `${bytes(most)} moves`),
    make('span', {}, make('span', {class: 'swatch'}), 'stays on its rank'));
}

function buildMatrix(view) {
  const {scene} = view, n = scene.ranks.length;
  if (!scene.totals || !n) return null;
  const side = Math.max(7, Math.min(44, Math.floor(MATRIX_ROOM / n))), all = MARGIN + n * side + 4;
  const g = shape('g'), svg = shape('svg', {class: 'matrix', viewBox: `0 0 ${all} ${all}`, width: all, height: all, role: 'img',
    'aria-label': 'bytes from each rank to each other'}, g);
  g.append(shape('text', {class: 'tick', x: MARGIN, y: 8}, 'to rank'),
           shape('text', {class: 'tick', transform: `translate(8 ${MARGIN}) rotate(-90)`, 'text-anchor': 'end'}, 'from rank'));
  numbersAlong(scene.ranks, side, g);
  const {cells, most} = matrixCells(scene, side, g);
  const section = make('section', {}, make('h2', {}, 'Bytes from rank to rank'), svg, matrixScale(most));
  if (n < scene.totals.ranks) section.append(make('div', {class: 'scale'}, `${n} of ${scene.totals.ranks.toLocaleString('en')} ranks`));
  svg.addEventListener('mouseover', event => setHover(view, event.target.dataset.source ? Number(event.target.dataset.source) : null));
  svg.addEventListener('mouseleave', () => setHover(view, null));
  svg.addEventListener('click', event => event.target.dataset.source && pin(view, Number(event.target.dataset.source)));
  const focus = rank => {
    svg.classList.toggle('focus', rank !== null);
    for (const e of cells) e.classList.toggle('lit', Number(e.dataset.source) === rank || Number(e.dataset.destination) === rank);
  };
  return {section, focus};
}

function buildTotals(scene) {
  const t = scene.totals, body = make('tbody');
  const row = (what, n, more) => body.append(make('tr', {}, make('td', {}, what), make('td', {class: 'n'}, n), make('td', {class: 'n'}, more)));
  const size = (what, n) => row(what, n.toLocaleString('en'), bytes(n));
  row('ranks', t.ranks.toLocaleString('en'), '');
  size('tensor', t.tensor);
  size('moves between ranks', t.moved);
  size('the least possible', t.least);
  size('copied within a rank', t.local);
  if (t.between_nodes) size('between nodes', t.between_nodes);
  size('most that a rank sends', t.max_send);
  size('most that a rank receives', t.max_recv);
  row('messages', t.messages.toLocaleString('en'), '');
  row('stages', scene.stages, '');
  size('scratch of a rank', t.scratch);
  row('fingerprint', t.fingerprint, '');
  return make('section', {}, make('h2', {}, 'Totals'), make('table', {class: 'totals'}, body));
}
