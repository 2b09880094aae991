// Panels: both sides of the scene, one slice at a time.

const LEFT = 44, TOP = 20, EDGE = 2;
const LETTER = 8.2; // width of a letter of a label
const FINE = 300; // boxes in a panel: with more, lines are thin

const patterns = () => shape('defs', {},
  shape('pattern', {id: 'reshard-hatch', width: 8, height: 8, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)'},
    shape('path', {d: 'M2 0V8', stroke: '#fff', 'stroke-opacity': .5, 'stroke-width': 3})),
  shape('pattern', {id: 'reshard-dots', width: 6, height: 6, patternUnits: 'userSpaceOnUse'},
    shape('circle', {cx: 3, cy: 3, r: .9, fill: '#8b939c', 'fill-opacity': .8})));

// At the cuts of this side.
function ticks(side) {
  const g = shape('g', {class: 'ticks'});
  for (const [place, index] of side.ticks.rows) g.append(shape('text', {class: 'tick', x: -5, y: place, 'text-anchor': 'end'}, index));
  for (const [place, index] of side.ticks.columns) g.append(shape('text', {class: 'tick', x: place, y: -9, 'text-anchor': 'middle'}, index));
  return g;
}

// Dotted ground where repeats are left out; "x 4096" if no part goes through it.  Parts cover the ground, origins do not.
function gaps(scene, held, origins) {
  const g = shape('g'), {rows, columns} = scene;
  const last = [rows.places.length - 1, columns.places.length - 1];
  const put = (direction, rect) => {
    const {times, gap} = direction;
    const b = box(scene, rect), over = held.some(h => direction === rows ? h[0] <= gap && h[2] > gap : h[1] <= gap && h[3] > gap);
    if (!over || origins) g.append(shape('rect', {class: 'gap', ...b}));
    if (over) return;
    const x = b.x + b.width / 2, y = b.y + b.height / 2, text = times ? `x ${times}` : '...';
    g.append(shape('rect', {class: 'plate', x: x - 4 - text.length * LETTER / 2, y: y - 9, width: 8 + text.length * LETTER, height: 18, rx: 9}),
             shape('text', {class: 'times', x, y}, text));
  };
  if (rows.gap >= 0) put(rows, [rows.gap, 0, rows.gap + 1, last[1]]);
  if (columns.gap >= 0) put(columns, [0, columns.gap, last[0], columns.gap + 1]);
  return g;
}

// Boxes of one size have all a label or none; where plates would hide much of small boxes, each set of holders has one.
function labels(scene, side, held, plain) {
  const g = shape('g'), crowded = new Set(), labelled = new Set();
  const items = held.map(h => ({h, b: box(scene, h), text: side.holders[h[4]].label}));
  const size = b => `${b.width}x${b.height}`, hides = (b, text) => 3 * (8 + text.length * LETTER) * 18 > b.width * b.height;
  for (const {b, text} of items) if (text.length * LETTER > b.width - 2 || b.height < 15) crowded.add(size(b));
  const fitting = items.filter(({b}) => !crowded.has(size(b))), dense = !plain && fitting.some(({b, text}) => hides(b, text));
  for (const {h, b, text} of fitting) {
    if (dense && labelled.has(h[4])) continue;
    labelled.add(h[4]);
    const x = b.x + b.width / 2, y = b.y + b.height / 2, long = side.op ? `${side.op} ${text}` : text;
    const shown = long.length * LETTER > b.width - 2 ? text : long;
    const tone = plain ? (isDark(side.holders[h[4]].colour) ? ' light' : ' dark') : '';
    if (!plain) g.append(shape('rect', {class: 'plate', 'data-holders': h[4], x: x - 4 - shown.length * LETTER / 2, y: y - 9,
                                        width: 8 + shown.length * LETTER, height: 18, rx: 9}));
    g.append(shape('text', {class: `label${tone}`, 'data-holders': h[4], x, y}, shown));
  }
  return g;
}

function cell(view, b, attributes, tip) {
  const e = shape('rect', {...b, ...attributes}, shape('title', {}, tip));
  view.cells.push(e);
  return e;
}

function hatched(view, b, index) {
  const e = shape('rect', {...b, class: 'hatch', ...index});
  view.cells.push(e);
  return e;
}

function drawHeld(view, number, g) {
  const {scene} = view, side = scene.sides[number];
  scene.sides[number].held[view.slice].forEach((h, i) => {
    const b = box(scene, h), index = {'data-side': number, 'data-held': i};
    g.append(cell(view, b, {class: 'cell held', fill: side.holders[h[4]].colour, ...index}, heldTip(side, h)));
    if (side.op) g.append(hatched(view, b, index));
  });
}

function drawOrigins(view, g) {
  const {scene} = view;
  const names = ['', 'stays', 'moves', 'reduced'];
  scene.origins[view.slice].forEach((o, i) => {
    const b = box(scene, o), index = {'data-side': 1, 'data-origin': i};
    g.append(cell(view, b, {class: `cell origin ${names[o[4]]}`, fill: originColour(scene, o), ...index}, originTip(scene, o)));
    if (o[4] === KIND.reduced) g.append(hatched(view, b, index));
  });
  for (const h of scene.sides[1].held[view.slice]) g.append(shape('rect', {class: 'outline', ...box(scene, h)}));
}

function drawPanel(view, number) {
  const {scene} = view, panel = view.panels[number], side = scene.sides[number];
  const held = side.held[view.slice], g = shape('g', {class: side.held[view.slice].length > FINE ? 'fine' : ''});
  const width = scene.columns.places.at(-1), height = scene.rows.places.at(-1);
  panel.setAttribute('viewBox', `${-LEFT} ${-TOP} ${width + LEFT + 14} ${height + TOP + EDGE}`);
  g.append(shape('rect', {class: 'ground', width, height}), ticks(side), gaps(scene, held, number === 1));
  if (number === 1) drawOrigins(view, g);
  else drawHeld(view, 0, g);
  g.append(labels(scene, side, held, number === 0 && !side.op), view.frames[number] = shape('g'));
  panel.replaceChildren(...(number ? [g] : [patterns(), g]));
}

function drawPanels(view) {
  view.cells = [];
  view.panels.forEach((_, number) => drawPanel(view, number));
  showFocus(view);
  view.play?.build();
}

function buildPanels(view) {
  const {scene} = view;
  view.panels = scene.sides.map((side, i) =>
    shape('svg', {class: 'panel', role: 'img', 'aria-label': `${scene.sides.length === 1 ? 'layout' : i ? 'after' : 'before'}: ${side.text}`}));
  const figures = scene.sides.map((side, i) => make('figure', {}, make('figcaption', {}, side.text), view.panels[i]));
  const holder = make('div', {class: 'panels', tabindex: 0, role: 'group',
    'aria-label': 'Picture. Arrow keys choose a rank, Enter pins it, Escape lets it go.'}, ...figures);
  if (figures.length === 1) holder.classList.add('single');
  else figures[1].before(make('div', {class: 'arrow'}, make('div', {}, scene.totals.moved ? bytes(scene.totals.moved) : 'nothing'),
    shape('svg', {viewBox: '0 0 76 16'}, shape('path', {d: 'M2 8H72M65 3L73 8L65 13'})), make('div', {}, 'moves')));
  return holder;
}
