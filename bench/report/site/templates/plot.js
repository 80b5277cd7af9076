"use strict";
// Elements and charts: an SVG per chart, with axes, a legend and a pointer that shows values.
const el = (name, attributes = {}, ...parts) => {
  const element = name.startsWith("svg:") ? document.createElementNS("http://www.w3.org/2000/svg", name.slice(4)) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== false && value !== undefined && value !== null) element.setAttribute(key, value);
  }
  element.append(...parts.flat().filter(part => part !== null && part !== undefined && part !== ""));
  return element;
};
const embedded = id => { const node = document.getElementById(id); return node ? JSON.parse(node.textContent) : null; };
const format = (value, digits = 2) => value === null || value === undefined || Number.isNaN(value) ? "–" : Number(value).toFixed(digits).replace("-", "−");
const COLOURS = ["#1f84c8", "#de8f05", "#029e73", "#d55e00", "#c265af", "#a87544", "#8c8c8c", "#38a3dd", "#b59a00", "#7c6fd0", "#d6418a", "#3f9b3f", "#6d8ba8"];
const DASH = "5 4"; // of what is not ours

function ticks(low, high, count = 5) {
  const raw = (high - low || 1) / count, size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(m => m * size).find(s => s >= raw);
  const result = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) result.push(Number(at.toPrecision(12)));
  return result;
}

// series: [{name, points: [[x, y, link?, label?, mark?]], line: bool}]
function chart(container, series, { x = "", y = "", diagonal = false, height = 300, digits = 2 } = {}) {
  const shown = series.filter(each => each.points.length);
  // One colour per family: a line of ours and the log of the same method share theirs.
  const families = [...new Set(shown.map(each => each.family ?? each.name))];
  for (const each of shown) each.colour ??= COLOURS[families.indexOf(each.family ?? each.name) % COLOURS.length];
  container.replaceChildren();
  if (!shown.length) return;
  const width = Math.max(300, Math.min(720, container.clientWidth || 600));
  const [left, right, top, bottom] = [48, 12, 10, 40];
  const every = shown.flatMap(each => each.points);
  const span = (values, pad) => {
    const low = Math.min(...values), high = Math.max(...values), room = (high - low || Math.abs(high) || 1) * pad;
    return [low - room, high + room];
  };
  let [x0, x1] = span(every.map(p => p[0]), 0.03), [y0, y1] = span(every.map(p => p[1]), 0.06);
  if (diagonal) { x0 = y0 = Math.min(x0, y0); x1 = y1 = Math.max(x1, y1); }
  const px = v => left + (v - x0) / (x1 - x0) * (width - left - right);
  const py = v => height - bottom - (v - y0) / (y1 - y0) * (height - top - bottom);
  const svg = el("svg:svg", { viewBox: `0 0 ${width} ${height}`, role: "group", tabindex: 0, class: "plot",
    "aria-label": `${y} against ${x}: ${shown.map(each => each.name).join(", ")}. Arrow keys read the values.` });
  for (const v of ticks(y0, y1)) svg.append(
    el("svg:line", { x1: left, x2: width - right, y1: py(v), y2: py(v), class: "rule" }),
    el("svg:text", { x: left - 6, y: py(v) + 4, "text-anchor": "end" }, String(v)));
  for (const v of ticks(x0, x1, width / 110)) svg.append(
    el("svg:line", { x1: px(v), x2: px(v), y1: height - bottom, y2: height - bottom + 4, class: "rule" }),
    el("svg:text", { x: px(v), y: height - bottom + 17, "text-anchor": "middle" }, String(v)));
  svg.append(el("svg:text", { x: width - right, y: height - 6, "text-anchor": "end", class: "axis" }, x),);
  if (diagonal) svg.append(el("svg:line", { x1: px(x0), y1: py(x0), x2: px(x1), y2: py(x1), class: "diagonal" }));
  const marks = [];
  shown.forEach((each, index) => {
    const colour = each.colour, group = el("svg:g", { "data-line": index });
    svg.append(group);
    if (each.line !== false) {
      const path = each.points.map((p, i) => `${i === 0 ? "M" : "L"}${px(p[0])} ${py(p[1])}`).join("");
      group.append(el("svg:path", { d: path, fill: "none", stroke: colour, "stroke-width": 1.8, "stroke-dasharray": each.dash ? DASH : "" }));
    }
    for (const p of each.points) {
      const dot = each.line === false || each.points.length < 40
        ? el("svg:circle", { cx: px(p[0]), cy: py(p[1]), r: each.line === false ? 4 : 2.2, fill: p[4] === "hollow" ? "var(--page)" : colour, stroke: colour }) : null;
      if (dot && p[2]) { const link = el("svg:a", { href: p[2], tabindex: -1, "aria-label": p[3] || each.name }, dot); group.append(link); }
      else if (dot) group.append(dot);
      marks.push({ index, x: px(p[0]), y: py(p[1]), text: `${p[3] || each.name}: ${format(p[0], digits === 0 || Number.isInteger(p[0]) ? 0 : digits)}, ${format(p[1], digits)}` });
    }
  });
  const tip = el("output", { class: "tip", hidden: "" });
  const ring = el("svg:circle", { r: 6, class: "ring", visibility: "hidden" });
  svg.append(ring);
  let at = -1;
  const show = mark => {
    tip.hidden = false; tip.textContent = mark.text;
    const scale = svg.clientWidth / width || 1;
    tip.style.left = `${Math.min(mark.x * scale, Math.max(0, svg.clientWidth - 190))}px`; tip.style.top = `${mark.y * scale + 10}px`;
    ring.setAttribute("cx", mark.x); ring.setAttribute("cy", mark.y); ring.setAttribute("visibility", "visible");
  };
  svg.addEventListener("pointermove", event => {
    const box = svg.getBoundingClientRect(), scale = width / box.width;
    const [mx, my] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    show(marks.reduce((best, mark) => Math.hypot(mark.x - mx, mark.y - my) < Math.hypot(best.x - mx, best.y - my) ? mark : best));
  });
  svg.addEventListener("pointerleave", () => { tip.hidden = true; ring.setAttribute("visibility", "hidden"); });
  svg.addEventListener("keydown", event => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) { event.preventDefault(); at = (at + step + marks.length) % marks.length; show(marks[at]); }
  });
  const named = shown.length > 1 || !y || shown.some(each => each.dash); // what is not ours always has a name
  const alone = button => {
    const index = button.getAttribute("aria-pressed") === "true" ? "" : button.dataset.index;
    for (const other of legend.querySelectorAll("button")) other.setAttribute("aria-pressed", String(other.dataset.index === index));
    for (const group of svg.querySelectorAll("[data-line]")) group.style.opacity = index === "" || group.dataset.line === index ? 1 : 0.08;
  };
  const legend = el("p", { class: "legend" }, y ? el("b", {}, y) : "", ...(named ? shown.map((each, index) =>
    el("button", { type: "button", "aria-pressed": "false", "data-index": index, onclick: event => alone(event.currentTarget) },
      el("svg:svg", { viewBox: "0 0 18 4", width: 18, height: 4 }, el("svg:line", { x1: 0, x2: 18, y1: 2, y2: 2, stroke: each.colour, "stroke-width": 3, "stroke-dasharray": each.dash ? "4 3" : "" })), each.name)) : []));
  container.append(legend, el("div", { class: "plotted" }, svg, tip));
}

function bars(container, values, { x = "", y = "" } = {}) {
  if (!values.length) return;
  const low = Math.min(...values), size = Math.max((Math.max(...values) - low) / 12, 0.5);
  const counts = new Array(Math.max(1, Math.ceil((Math.max(...values) - low) / size))).fill(0);
  for (const v of values) counts[Math.min(Math.floor((v - low) / size), counts.length - 1)]++;
  const points = counts.map((n, bin) => [low + (bin + 0.5) * size, n]);
  chart(container, [{ name: y, points: [[low, 0], ...points.flatMap(([at, n]) => [[at - size / 2, n], [at + size / 2, n]]), [points.at(-1)[0] + size / 2, 0]] }], { x, y, height: 220, digits: 1 });
}
