// Focus: highlights the rank under the mouse, chosen by a key, or pinned, and shows what it sends, receives and keeps.

const current = view => view.pinned ?? view.hover;

// The ranks that the arrow keys step through: those that are listed.
const ranksOf = view => view.scene.ranks.map(r => r.rank);

// Should a cell be highlighted?  Before the move: cells that the rank holds.  After it: cells that it holds or sent.
function isLit(view, e, rank) {
  const {scene, slice} = view, {side, held, origin} = e.dataset;
  if (held !== undefined) {
    const h = scene.sides[side].held[slice][held];
    return holds(scene.sides[side].holders[h[4]], rank);
  }
  const o = scene.origins[slice][origin];
  return holds(scene.sides[1].holders[o[5]], rank) || sends(scene, o, rank);
}

function frameOwn(view, number, rank) {
  const {scene, slice} = view, side = scene.sides[number], frames = [];
  for (const h of side.held[slice])
    if (holds(side.holders[h[4]], rank)) frames.push(shape('rect', {class: 'frame', ...box(scene, h)}));
  view.frames[number].replaceChildren(...frames);
}

// Frames the cells that the rank will receive, in the panel before the move.
function frameIncoming(view, rank) {
  const {scene, slice} = view;
  if (!scene.origins) return;
  for (const o of scene.origins[slice])
    if (o[4] !== KIND.stays && holds(scene.sides[1].holders[o[5]], rank))
      view.frames[0].append(shape('rect', {class: 'frame incoming', 'stroke-dasharray': '5 4', 'stroke-opacity': .75, ...box(scene, o)}));
}

function showFocus(view) {
  const rank = current(view), on = rank !== null;
  view.holder.classList.toggle('focus', on);
  for (const e of view.cells) e.classList.toggle('lit', on && isLit(view, e, rank));
  for (const e of view.holder.querySelectorAll('[data-holders]')) {
    const number = view.panels.indexOf(e.ownerSVGElement);
    e.classList.toggle('own', on && holds(view.scene.sides[number].holders[e.dataset.holders], rank));
  }
  view.panels.forEach((_, number) => on ? frameOwn(view, number, rank) : view.frames[number].replaceChildren());
  if (on) frameIncoming(view, rank);
  view.matrix?.focus(rank);
  tellStory(view, rank);
}

// ---- the text about a rank ----

const fact = (what, much, who) => make('span', {}, `${what} `, make('b', {}, much), who ? ` ${who}` : '');

function peers(list, total, own) {
  const others = list.map(([peer]) => peer).filter(peer => peer !== own), few = others.slice(0, 6);
  return few.join(', ') + (total > few.length ? `, .. (${total.toLocaleString('en')})` : '');
}

function facts(view, rank) {
  const {scene} = view, r = listed(scene, rank), one = scene.sides.length === 1;
  const held = (before, after) => one ? [fact('holds', bytes(before))] : [fact('before', bytes(before)), fact('after', bytes(after))];
  const moved = ({sent, received, kept}, to = '', from = '') => sent === undefined ? []
    : [fact('sends', bytes(sent), to), fact('receives', bytes(received), from), fact('keeps', bytes(kept))];
  if (r) return [...held(r.places[0][0], r.places[1]?.[0]),
                 ...moved(r, r.nto ? `to ${peers(r.to, r.nto, rank)}` : '', r.nfrom ? `from ${peers(r.from, r.nfrom, rank)}` : '')];
  const sums = sumsOf(scene, rank);
  if (sums) return [...held(sums.before, sums.after), ...moved(sums)];
  const known = scene.every || scene.ranks.length === (scene.totals?.ranks ?? scene.sides[0].nranks);
  return [make('span', {}, known ? `not a rank of ${one ? 'the layout' : 'either layout'}` : `bytes are listed for ${scene.ranks.length} ranks only`)];
}

// The coordinates on the mesh; on both meshes if names or values differ.
function whereabouts(scene, rank) {
  const all = scene.sides.map((_, i) => spell(coordinates(scene, i, rank)));
  return all.length === 2 && all[0] !== all[1] ? all.filter(Boolean).join(', then ') : all[0] || '';
}

function tellStory(view, rank) {
  const {story, number, scene} = view;
  if (document.activeElement !== number) number.value = rank ?? '';
  if (rank === null) {
    story.replaceChildren(make('div', {class: 'who'}, 'Point at a block, or choose a rank with the arrow keys.'),
      make('div', {class: 'facts'}, make('span', {}, 'Click or press Enter to pin it, Escape to release it.')));
    return;
  }
  const where = whereabouts(scene, rank);
  story.replaceChildren(make('div', {class: 'who'}, make('b', {}, `rank ${rank}`), where ? ` at ${where}` : '',
    view.pinned === null ? '' : make('span', {class: 'pin'}, '  pinned'), view.tip ? ` \u2014 ${view.tip}` : ''),
    make('div', {class: 'facts'}, ...facts(view, rank)));
}

// ---- mouse and keys ----

function rankAt(view, target) {
  const e = target.closest?.('[data-held],[data-origin]');
  if (!e) return null;
  const {side, held, origin} = e.dataset, {scene, slice} = view;
  view.tip = e.querySelector('title')?.textContent ?? '';
  const h = held !== undefined ? scene.sides[side].held[slice][held][4] : scene.origins[slice][origin][5];
  return firstOf(scene.sides[side].holders[h]);
}

function setHover(view, rank) {
  if (rank === null) view.tip = '';
  if (view.hover === rank && view.pinned !== null) return;
  view.hover = rank;
  showFocus(view);
}

function pin(view, rank) {
  view.pinned = rank;
  if (rank === null) view.hover = null;
  showFocus(view);
}

function step(view, by) {
  const list = ranksOf(view), at = list.indexOf(current(view));
  const next = at < 0 ? (by > 0 ? 0 : list.length - 1) : Math.min(list.length - 1, Math.max(0, at + by));
  view.tip = '';
  if (view.pinned !== null) view.pinned = list[next];
  view.hover = list[next];
  showFocus(view);
}

function onKey(view, event) {
  const keys = {
    ArrowRight: () => step(view, 1), ArrowDown: () => step(view, 1), ArrowLeft: () => step(view, -1), ArrowUp: () => step(view, -1),
    Home: () => step(view, -Infinity), End: () => step(view, Infinity),
    Enter: () => pin(view, view.pinned === null ? view.hover : null), ' ': () => pin(view, view.pinned === null ? view.hover : null),
    Escape: () => pin(view, null), PageUp: () => turn(view, 1), PageDown: () => turn(view, -1), p: () => view.play?.toggle(),
  };
  if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
}

function listen(view) {
  const {holder} = view;
  holder.addEventListener('mouseover', event => setHover(view, rankAt(view, event.target)));
  holder.addEventListener('mouseleave', () => setHover(view, null));
  holder.addEventListener('click', event => {
    const rank = rankAt(view, event.target);
    pin(view, rank === view.pinned ? null : rank);
  });
  holder.addEventListener('keydown', event => onKey(view, event));
  view.number.addEventListener('input', () => {
    const rank = view.number.value === '' ? null : Number(view.number.value);
    view.tip = '';
    pin(view, Number.isInteger(rank) && rank >= 0 ? rank : null);
  });
}
