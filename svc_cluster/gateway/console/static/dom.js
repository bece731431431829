// Elements are made here and nowhere else. Text goes in as text, so that no name, header or body
// can become markup, and the page's policy refuses what would be.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function drawn(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

// A table with a caption. `columns`: [heading, isNumber]; `rows`: arrays of what stands in a cell.
export function table(caption, columns, rows) {
  const head = columns.map(([text, isNumber]) =>
    make("th", { scope: "col", class: isNumber ? "number" : null }, text));
  const body = rows.map((row) => make("tr", {}, row.map((cell, at) =>
    make("td", { class: columns[at][1] ? "number" : null }, cell))));
  return make("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": caption },
    make("table", {}, make("caption", {}, caption),
      make("thead", {}, make("tr", {}, head)), make("tbody", {}, body)));
}

export function labelled(text, field, isBeside = false) {
  return make("label", { class: isBeside ? "beside" : null },
    ...(isBeside ? [field, text] : [text, field]));
}

// A line of values over time, with what it shows said in words.
export function spark(values, said) {
  const most = Math.max(1, ...values);
  const step = values.length > 1 ? 100 / (values.length - 1) : 0;
  const points = values.map((value, at) =>
    `${(at * step).toFixed(2)},${(19 - (18 * value) / most).toFixed(2)}`);
  return drawn("svg",
    { class: "spark", viewBox: "0 0 100 20", preserveAspectRatio: "none", role: "img", "aria-label": said },
    drawn("polyline", { points: points.join(" ") }));
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(count) {
  let unit = 0;
  let left = count;
  while (left >= 1024 && unit < UNITS.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? left : left.toFixed(1)} ${UNITS[unit]}`;
}

// A stream may have any number for a time: one that is no date is told as the number that it is.
export function time(milliseconds) {
  const date = new Date(Number(milliseconds));
  return Number.isNaN(date.getTime()) ? String(milliseconds) : date.toISOString().replace("T", " ");
}

// Work that is not begun again before it is done: its button is off meanwhile, and gets back the
// focus that this takes from it.
export async function alone(button, work) {
  if (button.disabled) return;
  const hadFocus = document.activeElement === button;
  button.disabled = true;
  try {
    await work();
  } finally {
    button.disabled = false;
    if (hadFocus && document.activeElement === document.body) button.focus();
  }
}

// What the reader is told in passing, aloud where they listen.
export function tell(text, isBad = false) {
  const told = document.getElementById("told");
  told.className = isBad ? "bad" : "";
  told.textContent = text;
  clearTimeout(tell.timer);
  if (text && !isBad) tell.timer = setTimeout(() => tell(""), 6000);
}
