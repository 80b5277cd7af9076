// A number's page, made from the data of its artefact: `<artefact>.html#<number>`.
{
  const data = document.getElementById("number") ? embedded("data") : null;
  const place = document.getElementById("number"), whole = document.getElementById("artefact");
  const MEANING = {
    "reproduced": "Reproduced: the 95 % interval of the difference lies inside the margin (one point; the printed digits if no run is needed).",
    "differs": "Differs: the 95 % interval of the difference lies wholly outside the margin.",
    "undecided": "Undecided: the 95 % interval of the difference reaches over the edge of the margin, or there are too few runs for one.",
    "not comparable": "Not comparable.",
    "not measured": "Nobody has measured this yet.",
  };
  const size = bytes => bytes >= 1e9 ? `${told(bytes / 1e9)} GB` : bytes >= 1e6 ? `${told(bytes / 1e6)} MB` : `${bytes} bytes`;
  const time = s => s === null || s === undefined ? "–" : s < 90 ? `${told(s, 1)} s` : s < 5400 ? `${told(s / 60, 1)} min` : `${told(s / 3600, 1)} h`;
  const facts = pairs => el("dl", { class: "facts" }, pairs.filter(([, v]) => v !== "" && v !== null && v !== undefined).map(([k, v]) => el("div", {}, el("dt", {}, k), el("dd", {}, v))));
  const command = text => el("p", { class: "command" }, el("code", {}, text), el("button", { type: "button", class: "copy" }, "Copy"));
  const flat = (value, prefix = "") => value !== null && typeof value === "object" && !Array.isArray(value)
    ? Object.entries(value).flatMap(([k, v]) => flat(v, prefix ? `${prefix}.${k}` : k)) : [[prefix, value === null ? "none" : Array.isArray(value) ? value.join(", ") : String(value)]];
  const scale = name => el("i", { class: `scale s-${name}`, title: data.scales[name] || "" }, name);

  // What no paper prints has a protocol of its own; a run may stand in grids of several scales.
  const own = n => !data.judged && n.scale === "paper";
  const standing = n => own(n) ? "own protocol" : `${n.scale} scale`;

  function page(n) {
    const runs = (n.ids || []).map(id => [id, data.runs[id]]).filter(pair => pair[1]);
    const first = runs[0]?.[1], want = data.wants[`${n.row}|${n.column}`];
    const word = n.kind === "log value" ? "logged" : "printed";
    const parts = [
      el("p", { class: "crumbs" }, el("a", { href: "#" }, `‹ Back to ${data.title}`)),
      el("h1", { tabindex: -1 }, `${n.row}: ${n.where}`),
      el("p", { class: "big" },
        n.source ? el("span", {}, el("small", {}, word), el("b", {}, n.published || "–")) : "",
        el("span", {}, el("small", {}, "ours "), el("b", {}, n.ours || "–"), n.value !== undefined && first ? own(n) ? el("small", {}, standing(n)) : scale(n.scale) : ""),
        n.difference ? el("span", {}, el("small", {}, "difference, 95 % interval"), el("b", {}, n.difference)) : ""),
    ];
    if (n.verdict) parts.push(el("p", { class: "lead" }, el("i", { class: `v v-${n.verdict.replace(" ", "-")}` }, n.verdict), " ",
      MEANING[n.verdict], n.verdict === "not comparable" ? ` Ours is from another setting (${n.basis}): it says nothing for or against the ${word} number.` : "",
      n.mark ? ` Mark: ${n.mark}.` : ""));
    parts.push(facts([
      [`${word} in`, n.source ? `${data.key}, ${data.source}/published/${n.source}` : ""],
      ["kind of number", n.kind], ["unit", n.unit], ["what the interval rests on", n.verdict === "not comparable" ? "" : n.basis], ["seeds", n.seeds || ""],
      ["interval of ours", n.interval], ["floor, predicting the most frequent class", n.floor === undefined ? "" : told(n.floor)],
      ["tier", n.tier], ["remark", n.reason]]));
    if (runs.length) {
      parts.push(el("h2", {}, "Our runs"));
      const head = ["Seed", "Accuracy of the run", "Status", "Tier", "Code", "Bytes sent", "Time", "Device", "Finished", "By", "Record"];
      parts.push(el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Our runs" }, el("table", { class: "grid" },
        el("thead", {}, el("tr", {}, head.map(name => el("th", { scope: "col" }, name)))),
        el("tbody", {}, runs.map(([id, run]) => el("tr", {}, el("th", { scope: "row" }, String(run.seed)),
          [told(run.value), run.reason ? `${run.status}: ${run.reason}` : run.status, run.tier || run.from, run.stale ? `stale: ${run.stale}` : "current",
            run.bytes === null ? "–" : size(run.bytes), time(run.seconds), run.device || "–", (run.finished || "–").slice(0, 10), run.contributor || "–"].map(text => el("td", {}, text)),
          el("td", {}, run.from === "computed here" ? el("a", { href: `../${data.records}/${id}/record.json` }, id.slice(0, 8)) : id.slice(0, 8))))))));
    }
    parts.push(el("div", { class: "panels", id: "evidence" }, el("div", { class: "chart", id: "curve" }), el("div", { class: "chart", id: "spread" })));
    if (first) {
      parts.push(el("details", {}, el("summary", {}, "Hyper-parameters"), facts(flat(first.hp).map(([k, v]) => [k, v])), Object.keys(first.hp).length ? "" : el("p", {}, "None of its own.")));
      parts.push(el("details", {}, el("summary", {}, "Recipe: data, model, protocol"), facts(flat(data.recipes[first.recipe]))));
      parts.push(el("details", {}, el("summary", {}, "Provenance of the first run"), facts([["cell", runs[0][0]], ["commit", first.commit + (first.dirty ? " with changes" : "")], ["torch", first.torch], ["precision", first.precision],
        ["partition", first.partition], ["parameters", first.parameters], ["reported round", first.round], ["peak memory", first.memory ? size(first.memory) : ""]])));
    }
    if (n.verdict === "differs" && data.notes.length) parts.push(el("h2", {}, "Notes of the table"), el("ul", { class: "notes" }, data.notes.map(note => el("li", {}, note))));
    parts.push(el("h2", {}, "Do it yourself"));
    if (first) parts.push(el("p", {}, "Repeat the first run:"), command(first.command));
    if (want) parts.push(el("p", {}, `Improve the evidence: ${want.cells} cell${want.cells === 1 ? "" : "s"} missing, about ${time(want.seconds)} of one processor core:`), command(want.command));
    if (!first && !want) parts.push(command(data.command));
    place.replaceChildren(...parts);
    const curves = runs.filter(([, run]) => run.curve.length).map(([, run]) => ({ name: `ours, seed ${run.seed} (${standing(n)})`, points: run.curve }));
    if (data.logged[n.source]) curves.push({ name: `the authors' log${/log/.test(n.source) ? "" : ", whose settings may be others (see the notes of the table)"}`, points: data.logged[n.source], dash: true });
    chart(place.querySelector("#curve"), curves, { x: "round", y: "accuracy in %", height: 260 });
    bars(place.querySelector("#spread"), first?.clients || [], { x: "accuracy of a client in %", y: `clients, seed ${first?.seed}` });
  }
  function route() {
    const name = decodeURIComponent(location.hash.slice(1));
    const found = data.numbers.find(n => n.id === name);
    place.hidden = !found; whole.hidden = Boolean(found);
    if (found) { page(found); document.title = `${found.row}, ${found.where} · ${data.key}`; scrollTo(0, 0); place.querySelector("h1").focus({ preventScroll: true }); }
    else { place.replaceChildren(); document.title = `${data.title} · repfl`; document.getElementById(name)?.scrollIntoView(); lines(); }
  }
  let drawn = false;
  function lines() {
    const space = document.getElementById("lines");
    if (!space || drawn) return;
    drawn = true;
    for (const [panel, known] of Object.entries(data.lines)) {
      const one = el("div", { class: "chart" });
      space.append(el("div", {}, el("h3", {}, panel), one));
      chart(one, Object.entries(known).map(([name, points]) => ({ name, points, dash: name.includes("log") })), { x: "round", y: "accuracy in %", height: 320 });
    }
  }
  if (data) { addEventListener("hashchange", route); route(); }
}
