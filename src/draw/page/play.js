// Play: animates blocks that move from the left panel to the right one, stage by stage.
//
// Both panels have the same borders, so all blocks move in the same direction; blocks of the same destination start
// together.  Time is counted in steps: the first step shows the cells that stay, the others the stages of the plan.
// The time determines everything on the screen.

const STEP_SECONDS = 1.6, SPREAD = .55; // departures are spread over this fraction of a step

const smooth = x => x * x * (3 - 2 * x);

function steps(scene, slice) {
  const list = [], origins = scene.origins[slice].map((o, i) => ({o, i}));
  const stays = origins.filter(({o}) => o[4] === KIND.stays);
  if (stays.length) list.push({name: 'what stays', moving: stays});
  for (let k = 0; k < scene.stages; k++) {
    const moving = origins.filter(({o}) => o[4] !== KIND.stays && o[6] >> k & 1);
    if (moving.length) list.push({name: scene.stages > 1 ? `stage ${k + 1} of ${scene.stages}` : 'what moves', moving, inPlace: k > 0});
  }
  return list;
}

// Groups the blocks by destination, in ascending order.
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
  const {scene} = view, {button, range, caption} = controls;
  const flight = shape('svg', {class: 'flight', 'aria-hidden': 'true'});
  const state = {time: null, parts: [], frame: 0, since: 0};
  view.holder.append(flight);

  // The position of a panel's drawing in the holder, and its scale.
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
    show(state.time);
  }

  function show(time) {
    state.time = time;
    const from = place(view.panels[0]), to = place(view.panels[1]), there = new Set();
    for (const {g, cells, leaves, arrives, inPlace} of state.parts) {
      const share = time === null ? 1 : Math.min(1, Math.max(0, (time - leaves) / (arrives - leaves))), x = inPlace ? 1 : smooth(share);
      g.classList.toggle('absent', share <= 0 || share >= 1);
      g.setAttribute('transform', `translate(${from.x + (to.x - from.x) * x} ${from.y + (to.y - from.y) * x}) scale(${from.scale + (to.scale - from.scale) * x})`);
      g.setAttribute('opacity', inPlace ? smooth(share) : 1);
      // A cell that arrives in several stages is shown after the first of them.
      for (const e of cells) {
        if (share >= 1) there.add(e);
        e.classList.toggle('absent', !there.has(e));
      }
    }
    range.value = String(Math.round((time ?? state.steps.length) * 1000));
    const at = time === null ? null : state.steps[Math.min(state.steps.length - 1, Math.floor(time))];
    caption.textContent = at ? at.name : '';
  }

  function tick(now) {
    const seconds = (now - state.since) / 1000, time = state.begin + seconds / STEP_SECONDS;
    if (time >= state.steps.length) return stop(null);
    show(matchMedia('(prefers-reduced-motion: reduce)').matches ? Math.floor(time) + .999 : time);
    state.frame = requestAnimationFrame(tick);
  }

  function stop(time) {
    cancelAnimationFrame(state.frame);
    state.frame = 0;
    button.textContent = '\u25b6 Play';
    show(time);
  }

  function toggle() {
    if (state.frame) return stop(state.time);
    state.begin = state.time ?? 0;
    state.since = performance.now();
    button.textContent = '\u23f8 Pause';
    show(state.begin);
    state.frame = requestAnimationFrame(tick);
  }

  button.addEventListener('click', toggle);
  range.addEventListener('input', () => {
    const time = Number(range.value) / 1000;
    stop(time >= state.steps.length ? null : time);
  });
  addEventListener('resize', () => show(state.time));
  return {build, toggle};
}
