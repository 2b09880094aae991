// Scene: questions about the data of a page.  Rectangles are [r0, c0, r1, c1, ...] in numbers of borders.

const KIND = {stays: 1, moves: 2, reduced: 3};

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];

// One digit behind the point, rounded as printf rounds in the other pictures: a tie goes to the even digit.
function tenths(x) {
  const low = Math.floor(x * 10), rest = x * 10 - low;
  return ((rest > .5 || (rest === .5 && low % 2) ? low + 1 : low) / 10).toFixed(1);
}

// The number of the unit in which n is printed.
function unitOf(n) {
  let u = 0;
  for (; n >= 1024 && u < 6; u++) n /= 1024;
  return u;
}

// "129.0 MiB"
function bytes(n) {
  const u = unitOf(n);
  return u ? `${tenths(n / 1024 ** u)} ${UNITS[u]}` : `${n} B`;
}

// "129" of a unit that is named elsewhere, for a small cell
function amountIn(n, unit) {
  const x = n / 1024 ** unit;
  return !unit || x >= 99.95 ? String(Math.round(x)) : x < .05 ? '<0.1' : tenths(x).replace('.0', '');
}

const plural = (n, word) => `${n.toLocaleString('en')} ${word}${n === 1 ? '' : 's'}`;

// Does a set of holders, runs of [first, step, count], have this rank?
function holds(holders, rank) {
  return holders.ranks.some(([first, step, count]) =>
    rank >= first && rank <= first + step * (count - 1) && (rank - first) % step === 0);
}

const firstOf = holders => holders.ranks.length ? holders.ranks[0][0] : -1;

// The listed rank, if it is one.
const listed = (scene, rank) => scene.ranks.find(r => r.rank === rank);

// ---- every rank ----

// Values of a column: words in base 36, in units; "distance*length" repeats values from so far back.
function valuesOf([unit, words]) {
  const values = [];
  for (const word of words.trim().split(' ')) {
    const [first, length] = word.split('*').map(digits => parseInt(digits, 36));
    if (length === undefined) values.push(first * unit);
    else for (let k = 0; k < length; k++) values.push(values[values.length - first]);
  }
  return values;
}

// The columns by name, and the place of each rank in them; made when first asked for.
function readEvery(scene) {
  const columns = Object.fromEntries(Object.entries(scene.every).map(([name, column]) => [name, valuesOf(column)]));
  const place = new Map();
  let rank = 0;
  columns.steps.forEach((step, i) => place.set(rank += step, i));
  return {columns, place};
}

// {before, after, sent, received, kept} of any rank; null if the page does not say.
function sumsOf(scene, rank) {
  if (!scene.every) return null;
  scene.read ??= readEvery(scene);
  const at = scene.read.place.get(rank);
  return at === undefined ? null : Object.fromEntries(Object.entries(scene.read.columns).map(([name, list]) => [name, list[at]]));
}

// [["dp", 1], ["tp", 0]] of a rank on the mesh of a side; null if the page does not know.
function coordinates(scene, side, rank) {
  const {axes, consecutive, first_rank, nranks} = scene.sides[side];
  const known = listed(scene, rank);
  if (known && known.places[side].length > 1) return axes.map(([name], i) => [name, known.places[side][i + 1]]);
  if (!consecutive || rank < first_rank || rank >= first_rank + nranks || !axes.length) return null;
  let rest = rank - first_rank;
  const at = [];
  for (let i = axes.length - 1; i >= 0; i--) {
    at.unshift([axes[i][0], rest % axes[i][1]]);
    rest = Math.floor(rest / axes[i][1]);
  }
  return at;
}

const spell = at => at ? at.map(([name, k]) => `${name}=${k}`).join(' ') : '';

// Is the rank among the sources of an origin rectangle?
function sends(scene, origin, rank) {
  return origin[4] === KIND.reduced ? holds(scene.sides[0].holders[origin[7]], rank) : origin[7].includes(rank);
}

// "rank 1: stays", "0 to 3", "sum of ranks 0-3 to 0"
function originTip(scene, origin) {
  const to = scene.sides[1].holders[origin[5]].label;
  if (origin[4] === KIND.stays) return `rank ${to}: stays`;
  if (origin[4] === KIND.reduced) return `${scene.sides[0].op} of ranks ${scene.sides[0].holders[origin[7]].label} to ${to}`;
  return `${origin[7].join(',')}${origin[8] > origin[7].length ? ',..' : ''} to ${to}`;
}

function heldTip(side, held) {
  const {label, count} = side.holders[held[4]];
  if (side.op) return `ranks ${label}, to be combined by ${side.op}`;
  return `${count === 1 ? 'rank' : 'ranks'} ${label}`;
}

// Colours of origins are those of their sources; a reduction has the colour of the contributions.
const originColour = (scene, origin) =>
  origin[4] === KIND.reduced ? scene.sides[0].holders[origin[7]].colour : origin[9];

function isDark(colour) {
  const [r, g, b] = [1, 3, 5].map(i => parseInt(colour.slice(i, i + 2), 16));
  return 299 * r + 587 * g + 114 * b < 140000;
}
