// Play: blocks travel from the left panel to the right one, stage by stage.
//
// Both panels have the same borders, so all blocks go the same way; those of one destination leave together.  A time is
// a number of steps: first what stays, then each stage of the plan.  Everything on the screen follows from the time.

const STEP_SECONDS = 1.6, STAGE_SECONDS = 3.2; // of a step; with several stages there is something to read
const SPREAD = .55; // of a step, over which departures are spread

const smooth = x => x * x * (3 - 2 * x);

// What happens in a stage, in words and bytes.
function stageWords({what, moved, between_nodes: between}) {
  const crossing = !between ? '' : between === moved ? ', all of it between nodes' : `, ${bytes(between)} of it between nodes`;
  return `${what}: ${bytes(moved)}${crossing}`;
}

function steps(scene, slice) {
  const list = [], origins = scene.origins[slice].map((o, i) => ({o, i})), several = scene.stages.length > 1;
  const stays = origins.filter(({o}) => o[4] === KIND.stays);
  if (stays.length) list.push({name: 'what stays', words: `${bytes(scene.totals.local)} stay on their ranks`, moving: stays, stage: null});
  scene.stages.forEach((stage, k) => {
    const moving = origins.filter(({o}) => o[4] !== KIND.stays && o[6] >> k & 1);
    if (several) list.push({name: `stage ${k + 1} of ${scene.stages.length}`, words: stageWords(stage), moving, inPlace: k > 0, stage: k});
    else if (moving.length) list.push({name: 'what moves', words: `${bytes(stage.moved)} move between ranks`, moving, stage: null});
  });
  return list;
}

// One group of blocks for each destination, in the order of the destinations.
function groups(scene, moving) {
  const by = new Map();
  for (const m of moving) {
    const to = firstOf(scene.sides[1].holders[m.o[5]]);
    if (!by.has(to)) by.set(to, []);
    by.get(to).push(m);
  }
  return [...by.entries()].sort(([a], [b]) => a - b).map(([, list]) => list);
}

function makePlay(view, controls) {
  const {scene} = view, {button, range, caption, list} = controls, several = scene.stages.length > 1;
  const flight = shape('svg', {class: 'flight', 'aria-hidden': 'true'});
  const state = {time: null, parts: [], frame: 0, since: 0, until: 0};
  view.holder.append(flight);

  // Where a panel's drawing lies in the holder, and its scale.
  function place(panel) {
    const outer = view.holder.getBoundingClientRect(), inner = panel.getBoundingClientRect();
    const scale = inner.width / panel.viewBox.baseVal.width;
    return {x: inner.x - outer.x + LEFT * scale, y: inner.y - outer.y + TOP * scale, scale};
  }

  function build() {
    state.steps = steps(scene, view.slice);
    range.max = String(state.steps.length * 1000);
    flight.replaceChildren();
    state.parts = state.steps.flatMap(({moving, inPlace}, s) => groups(scene, moving).map((list, i, all) => {
      const g = shape('g', {class: 'absent'});
      for (const {o} of list) g.append(shape('rect', {...box(scene, o), fill: originColour(scene, o), stroke: 'var(--edge)', 'stroke-width': .6}));
      flight.append(g);
      const leaves = s + SPREAD * i / all.length;
      const cells = list.map(({i: number}) => [...view.panels[1].querySelectorAll(`[data-origin="${number}"]`)]).flat();
      return {g, cells, leaves, arrives: leaves + 1 - SPREAD, inPlace};
    }));
    if (several) list.replaceChildren(...state.steps.map(({name, words}, s) => {
      const step = make('button', {type: 'button', class: 'step'}, make('b', {}, name), ` ${words}`);
      step.addEventListener('click', () => play(s, s + 1));
      return make('li', {}, step);
    }));
    show(state.time);
  }

  function show(time) {
    state.time = time;
    const from = place(view.panels[0]), to = place(view.panels[1]), there = new Map();
    for (const {g, cells, leaves, arrives, inPlace} of state.parts) {
      const share = time === null ? 1 : Math.min(1, Math.max(0, (time - leaves) / (arrives - leaves))), x = inPlace ? 1 : smooth(share);
      g.classList.toggle('absent', share <= 0 || share >= 1);
      g.setAttribute('transform', `translate(${from.x + (to.x - from.x) * x} ${from.y + (to.y - from.y) * x}) scale(${from.scale + (to.scale - from.scale) * x})`);
      g.setAttribute('opacity', inPlace ? smooth(share) : 1);
      for (const e of cells) {
        const [done, all] = there.get(e) ?? [0, 0];
        there.set(e, [done + (share >= 1), all + 1]);
      }
    }
    // A cell to which several stages bring something is the fuller the more of them are over.
    for (const [e, [done, all]] of there) {
      e.classList.toggle('absent', !done);
      e.style.opacity = done && done < all ? String(done / all) : '';
    }
    range.value = String(Math.round((time ?? state.steps.length) * 1000));
    const at = time === null ? null : state.steps[Math.min(state.steps.length - 1, Math.floor(time))];
    caption.textContent = at ? at.name : '';
    [...list.children].forEach((item, s) => item.toggleAttribute('aria-current', at === state.steps[s]));
    view.matrix?.show(at?.stage ?? null);
  }

  function tick(now) {
    const seconds = (now - state.since) / 1000, time = state.begin + seconds / (several ? STAGE_SECONDS : STEP_SECONDS);
    if (time >= state.until) return stop(state.until < state.steps.length ? state.until - .001 : null);
    show(matchMedia('(prefers-reduced-motion: reduce)').matches ? Math.floor(time) + .999 : time);
    state.frame = requestAnimationFrame(tick);
  }

  function stop(time) {
    cancelAnimationFrame(state.frame);
    state.frame = 0;
    button.textContent = '\u25b6 Play';
    show(time);
  }

  function play(begin, until) {
    cancelAnimationFrame(state.frame);
    state.begin = begin;
    state.until = until;
    state.since = performance.now();
    button.textContent = '\u23f8 Pause';
    show(begin);
    state.frame = requestAnimationFrame(tick);
  }

  const toggle = () => state.frame ? stop(state.time) : play(state.time ?? 0, state.steps.length);

  button.addEventListener('click', toggle);
  range.addEventListener('input', () => {
    const time = Number(range.value) / 1000;
    stop(time >= state.steps.length ? null : time);
  });
  addEventListener('resize', () => show(state.time));
  return {build, toggle};
}
