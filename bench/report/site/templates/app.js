// A box fades at the edge behind which more follows.
const fade = box => {
  box.classList.toggle("right", box.scrollWidth - box.clientWidth - box.scrollLeft > 2);
  box.classList.toggle("down", box.scrollHeight - box.clientHeight - box.scrollTop > 2);
};
const sizes = new ResizeObserver(entries => entries.forEach(entry => fade(entry.target)));
const watch = part => part.querySelectorAll(".scroll").forEach(box => {
  sizes.observe(box);
  box.addEventListener("scroll", () => fade(box), { passive: true });
});
watch(document);
// Tables that sort, filter and hide columns; search; theme; copying.
for (const table of document.querySelectorAll("table.sortable")) sortable(table);
function sortable(table) {
  const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  heads.forEach((head, column) => head.querySelector("button")?.addEventListener("click", () => {
    const rising = head.getAttribute("aria-sort") === "descending";
    heads.forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", rising ? "ascending" : "descending");
    const key = row => {
      const cell = row.cells[column], text = cell.dataset.v ?? cell.textContent.trim(), number = Number(text.replace("\u2212", "-").replace("<", ""));
      return number === -1e300 || ["", "\u2013"].includes(text) ? null : isNaN(number) ? text : number;
    };
    const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
    const missing = (a, b) => (a === null) - (b === null);  // last, whichever way round
    for (const body of table.tBodies) body.append(...[...body.rows].sort((a, b) => missing(key(a), key(b)) || (rising ? 1 : -1) * compare(key(a), key(b))));
  }));
}
for (const input of document.querySelectorAll("input[data-for]")) {
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const body of document.getElementById(input.dataset.for).tBodies) for (const row of body.rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every(word => text.includes(word));
    }
  });
}
for (const box of document.querySelectorAll("input[data-measured]")) {
  box.addEventListener("change", () => {
    const table = document.getElementById(box.dataset.measured);
    table.classList.toggle("only", box.checked);
    const heads = table.tHead.rows[table.tHead.rows.length - 1].cells;
    for (let at = 1; at < heads.length; at++) {
      const cells = [...table.tBodies].flatMap(body => [...body.rows].map(row => row.cells[at]));
      if (cells.every(cell => !cell?.dataset.v || cell.dataset.v === "-1e+300" || cell.dataset.v === "-1e300")) table.dispatchEvent(new CustomEvent("column", { detail: [at, !box.checked] }));
    }
  });
}
document.addEventListener("click", event => {
  const button = event.target.closest?.("[data-unfold]");
  if (!button) return;
  const part = document.getElementById(button.dataset.unfold);
  part.hidden = !part.hidden;
  button.textContent = button.textContent.replace(/Show|Hide/, part.hidden ? "Show" : "Hide");
});
for (const holder of document.querySelectorAll(".columns[data-for]")) {
  const table = document.getElementById(holder.dataset.for), over = table.tHead.rows[0];
  const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells].slice(1);
    const menu = el("details", {}, el("summary", {}, "Columns"));
  const groups = [...over.cells].slice(1);
  const group = groups.flatMap(cell => Array(cell.colSpan).fill(cell));
  groups.forEach(cell => { cell.dataset.all = cell.colSpan; });
  heads.forEach((head, index) => {
    const name = [group[index]?.textContent, head.textContent.trim()].filter(Boolean).join(", ");
    const box = el("input", { type: "checkbox", checked: "", onchange: () => {
      for (const row of table.rows) if (row !== over && row.cells[index + 1]) row.cells[index + 1].hidden = !box.checked;
      for (const cell of groups) {
        const left = heads.filter((h, i) => group[i] === cell && !h.hidden).length;
        cell.hidden = !left; cell.colSpan = left || 1;
      }
    } });
    menu.append(el("label", {}, box, " ", name));
    table.addEventListener("column", ({ detail: [at, shown] }) => { if (at === index + 1) { box.checked = shown; box.dispatchEvent(new Event("change")); } });
  });
  holder.append(menu);
}
document.addEventListener("click", async event => {
  const button = event.target.closest?.("button.copy:not([data-unfold]), #permalink");
  for (const menu of document.querySelectorAll("nav details[open]")) if (!menu.contains(event.target)) menu.open = false;
  if (!button) return;
  const code = button.id ? null : button.parentElement.querySelector("code");
  try { await navigator.clipboard.writeText(code ? code.textContent : location.href); button.textContent = "Copied"; }
  catch { if (code) getSelection().selectAllChildren(code); else prompt("Permalink", location.href); }
});
document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("theme", root.dataset.theme); } catch { /* no storage */ }
});
{
  const input = document.getElementById("search"), hits = document.getElementById("hits"), root = document.body.dataset.root;
  const every = embedded("index");
  // CIFAR-100 has the short name cifar100: words are sought with and without their hyphens.
  const bare = word => word.replace(/-/g, "") || word;
  const has = (text, word) => text.includes(word) || text.includes(bare(word));
  // Entries with most of the words; of these, names before texts.
  const ranked = words => {
    const found = every.map(entry => {
      const name = entry[0].toLowerCase(), whole = `${name} ${entry[1]} ${entry[3]}`.toLowerCase();
      const place = name === words.join(" ") ? 0 : words.every(word => has(name, word)) ? 1 : 2;
      return [entry, place, words.filter(word => has(whole, word)).length];
    });
    const most = Math.max(1, ...found.map(([, , count]) => count));
    return found.filter(([, , count]) => count === most).sort((a, b) => a[1] - b[1]).map(([entry]) => entry);
  };
  const FILLER = /^(vs\.?|versus|and|or|the|of|on|in|a|\+)$/;
  const find = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(word => word && !FILLER.test(word));
    const matches = words.length ? ranked(words).slice(0, 12) : [];
    hits.replaceChildren(...matches.map(([name, kind, link]) => el("li", {}, el("a", { href: root + link }, name, " ", el("small", {}, kind)))));
    hits.hidden = !words.length;
    if (words.length && !matches.length) hits.append(el("li", {}, "Nothing has these words."));
  };
  input.addEventListener("input", find);
  input.addEventListener("keydown", event => {
    if (event.key === "Enter") hits.querySelector("a")?.click();
    if (event.key === "ArrowDown") { event.preventDefault(); hits.querySelector("a")?.focus(); }
  });
  for (const field of [input, hits]) field.addEventListener("keydown", event => {
    if (event.key === "Escape") { input.value = ""; find(); input.focus(); }
  });
  document.addEventListener("keydown", event => {
    if (event.key === "/" && !/INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName)) { event.preventDefault(); input.focus(); }
    if (event.key === "Escape") for (const menu of document.querySelectorAll("nav details[open]")) { menu.open = false; menu.querySelector("summary").focus(); }
  });
}
for (const key of document.querySelectorAll("#keys button")) {
  key.addEventListener("click", () => {
    const alone = key.getAttribute("aria-pressed") !== "true";
    for (const other of document.querySelectorAll("#keys button")) other.setAttribute("aria-pressed", String(alone && other === key));
    for (const dot of document.querySelectorAll("a.dot")) dot.classList.toggle("faded", alone && !dot.classList.contains(key.dataset.only));
  });
}
{
  const points = embedded("points"), panel = document.getElementById("scatter");
  if (points && panel) {
    const of = (scale, name, mark) => ({ name, line: false, points: points.filter(p => p[4] === scale).map(p => [p[0], p[1], p[2], p[3], mark]) });
    const draw = () => chart(panel, [of("paper", "full scale", ""), of("desk", "reduced run", "hollow")], { x: "reported accuracy in %", y: "ours, accuracy in %", diagonal: true, height: 420 });
    draw(); addEventListener("resize", draw);
  }
}
