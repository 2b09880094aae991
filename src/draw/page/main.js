// Main: puts the page together.

function legend(scene) {
  const list = make('div', {class: 'legend'});
  const swatch = (colour, text) => {
    const i = make('i');
    i.style.background = colour;
    return make('span', {}, i, text);
  };
  for (const {name, entries} of scene.legend)
    list.append(make('span', {}, make('b', {}, name), ...entries.map(([label, colour]) => swatch(colour, label))));
  const kinds = new Set((scene.origins ?? []).flat().map(o => o[4]));
  if (scene.origins && scene.legend.length) list.append(make('span', {}, 'colour: the rank that held it before'));
  if (kinds.has(KIND.stays)) list.append(make('span', {}, make('span', {}, make('i', {class: 'pale'}), 'faded: stays on its rank')));
  if (scene.sides[0].op)
    list.append(make('span', {}, make('span', {}, make('i', {class: 'hatched'}), `hatched: ${scene.sides[0].op} of several ranks`)));
  return list;
}

// ---- slices of a third dim ----

const drawnSlices = scene => scene.slices.at.slice(0, -1).map((_, i) => i).filter(i => i !== scene.slices.gap);

function turn(view, by) {
  const all = drawnSlices(view.scene), at = Math.min(all.length - 1, Math.max(0, all.indexOf(view.slice) + by));
  view.slice = all[at];
  if (view.slider) {
    const {at: borders, dim} = view.scene.slices, [lo, hi] = [borders[view.slice], borders[view.slice + 1] - 1];
    view.slider.value = String(at);
    view.slider.nextSibling.textContent = lo === hi ? `index ${lo}` : `indices ${lo} to ${hi}`;
    view.slider.setAttribute('aria-valuetext', `dim ${dim}, ${view.slider.nextSibling.textContent}`);
  }
  drawPanels(view);
}

function sliceControl(view) {
  const all = drawnSlices(view.scene);
  if (all.length < 2) return [];
  view.slider = make('input', {type: 'range', min: 0, max: all.length - 1, value: 0, class: 'slices'});
  view.slider.addEventListener('input', () => turn(view, Number(view.slider.value) - all.indexOf(view.slice)));
  return [make('label', {class: 'grow'}, `dim ${view.scene.slices.dim}`, view.slider, make('output'))];
}

// ---- tools ----

function themeButton() {
  const root = document.documentElement, dark = () => root.dataset.theme
    ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  const button = make('button', {type: 'button', class: 'theme'}), name = () => button.textContent = dark() ? '\u2600 Light' : '\u263e Dark';
  button.addEventListener('click', () => {
    root.dataset.theme = dark() ? 'light' : 'dark';
    name();
  });
  name();
  return button;
}

function playControls(view) {
  if (!view.scene.origins?.some(list => list.length)) return [];
  const button = make('button', {type: 'button', class: 'play'}, '\u25b6 Play');
  const range = make('input', {type: 'range', min: 0, max: 1000, value: 1000, class: 'time', 'aria-label': 'time'}), caption = make('output');
  view.controls = {button, range, caption, list: make('ol', {class: 'steps'})};
  return [make('label', {class: 'grow'}, button, range, caption)];
}

function draw(root, scene) {
  const view = {scene, slice: 0, hover: null, pinned: null, tip: '', cells: [], frames: [],
                story: make('div', {class: 'story', 'aria-live': 'polite'}),
                number: make('input', {type: 'number', min: 0, class: 'rank', 'aria-label': 'rank'})};
  view.holder = buildPanels(view);
  view.matrix = buildMatrix(view);
  root.classList.add('reshard');
  root.replaceChildren(make('h1', {}, scene.heading),
    make('div', {class: 'tools'}, ...playControls(view), ...sliceControl(view), make('label', {}, 'rank', view.number), themeButton()),
    ...(view.controls && scene.stages.length > 1 ? [view.controls.list] : []), view.holder, legend(scene), make('ul', {class: 'notes'}, ...scene.notes.map(note => make('li', {}, note))), view.story);
  if (scene.totals) root.append(make('div', {class: 'tables'}, buildTotals(scene), ...(view.matrix ? [view.matrix.section] : [])));
  if (view.controls) view.play = makePlay(view, view.controls);
  turn(view, 0);
  listen(view);
}
