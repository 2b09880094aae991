// Elements: functions that create HTML and SVG elements.

function make(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

function shape(tag, attributes = {}, ...children) {
  const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

// Attributes of the rectangle between borders r0, c0 and r1, c1.
function box(scene, [r0, c0, r1, c1]) {
  const {rows: {places: y}, columns: {places: x}} = scene;
  return {x: x[c0], y: y[r0], width: x[c1] - x[c0], height: y[r1] - y[r0]};
}
