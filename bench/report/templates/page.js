"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  heads.forEach((head, place) => head.querySelector("button")?.addEventListener("click", () => {
    const rising = head.getAttribute("aria-sort") === "descending";
    heads.forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", rising ? "ascending" : "descending");
    const key = row => {
      const cell = row.cells[place];
      return cell.dataset.v === undefined ? cell.textContent.trim() : Number(cell.dataset.v);
    };
    const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
    const body = table.tBodies[0];
    const rows = [...body.rows].sort((a, b) => (rising ? 1 : -1) * compare(key(a), key(b)));
    body.append(...rows);
  }));
}
for (const input of document.querySelectorAll("input[data-for]")) {
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of document.getElementById(input.dataset.for).tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every(word => text.includes(word));
    }
  });
}
for (const button of document.querySelectorAll("button.copy")) {
  button.addEventListener("click", async () => {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
    }
  });
}
for (const menu of document.querySelectorAll("nav details")) {
  menu.addEventListener("click", event => { if (event.target.tagName === "A") menu.open = false; });
  menu.addEventListener("keydown", event => { if (event.key === "Escape") { menu.open = false; menu.querySelector("summary").focus(); } });
  menu.addEventListener("toggle", () => { if (menu.open) for (const other of document.querySelectorAll("nav details[open]")) if (other !== menu) other.open = false; });
}
