// A number's page, made from the data of its artefact: `<artefact>.html#<number>`.
{
  const data = document.getElementById("number") ? embedded("data") : null;
  const view = document.getElementById("number"), whole = document.getElementById("artefact");
  const fetched = set => !set || set === "digits" ? "" : `repfl data get ${set} && `;
  const MEANING = {
    reproduced: "the 95 % interval of the difference lies inside the margin.",
    differs: "the 95 % interval of the difference lies wholly outside the margin.",
    undecided: "the 95 % interval of the difference reaches over the edge of the margin.",
    "not comparable": "",
    "not measured": "no run of ours yet.",
  };
  const EXACT = { reproduced: "ours has the reported digits.", differs: "ours has other digits.", undecided: "" };
  const STATES = { reproduced: "reproduced", differs: "differs", undecided: "undecided", "not comparable": "reduced", "not measured": "missing" };
  const PERCENT = ["%", "percent", "", undefined];
  const size = bytes => bytes >= 1e9 ? `${format(bytes / 1e9)} GB` : bytes >= 1e6 ? `${format(bytes / 1e6)} MB` : `${bytes} bytes`;
  const time = s => s === null || s === undefined ? "–" : s < 90 ? `${format(s, 1)} s` : s < 5400 ? `${format(s / 60, 1)} min` : `${format(s / 3600, 1)} h`;
  const facts = pairs => el("dl", { class: "facts" }, pairs.filter(([, v]) => v !== "" && v !== null && v !== undefined).map(([k, v, why]) => el("div", {}, el("dt", {}, k), el("dd", {}, v, why ? el("small", {}, ` ${why}`) : ""))));
  const command = text => el("p", { class: "command" }, el("code", {}, text), el("button", { type: "button", class: "copy" }, "Copy"));
  // The same command for either device, with the data it needs.
  const both = (set, text) => facts([["on a CPU", "cpu"], ["on a GPU", "cuda"]].map(([name, device]) =>
    [name, command(`${fetched(set)}${text.replace(/ --device \S+/, "")} --device ${device}`)]));
  const flat = (value, prefix = "") => value !== null && typeof value === "object" && !Array.isArray(value)
    ? Object.entries(value).flatMap(([k, v]) => flat(v, prefix ? `${prefix}.${k}` : k)) : [[prefix, value === null ? "none" : Array.isArray(value) ? value.join(", ") : String(value)]];
  const meaning = (key, rule) => key.startsWith("partition.options.") ? data.meanings.rules[rule]?.[key.slice(18)] : data.meanings.recipe[key];
  const scale = name => name === "paper" ? "" : el("i", { class: "scale" }, data.scales[name] || name);

  // What no paper prints has a protocol of its own; a run may stand in grids of several scales.
  const own = n => !data.judged && n.scale === "paper";
  const standing = n => own(n) ? "own protocol" : data.scales[n.scale] || n.scale;
  const exact = n => ["computed exactly", "metadata"].includes(n.kind);
  // The interval of the difference, drawn against the margin.
  function interval(n) {
    if (n.difference_low === undefined || n.difference_high === undefined || n.difference === undefined) return "";
    const margin = PERCENT.includes(n.unit) ? 1 : Math.abs(n.printed) * 0.01;
    const reach = 1.15 * Math.max(margin * 2, Math.abs(n.difference_low), Math.abs(n.difference_high)), px = v => 300 + 280 * v / reach;
    const text = (x, y, content, anchor = "middle") => el("svg:text", { x, y, "text-anchor": anchor }, content);
    return el("svg:svg", { viewBox: "0 0 600 84", class: "verdict", role: "img", "aria-label": `Difference ${n.difference_text}; margin ${format(margin)} to either side` },
      el("svg:rect", { x: px(-margin), y: 18, width: px(margin) - px(-margin), height: 36, fill: "var(--wash)", stroke: "var(--line)" }),
      el("svg:line", { x1: 300, x2: 300, y1: 18, y2: 54, stroke: "var(--edge)", "stroke-dasharray": "2 3" }),
      el("svg:line", { x1: px(n.difference_low), x2: px(n.difference_high), y1: 36, y2: 36, stroke: `var(--${STATES[n.verdict]})`, "stroke-width": 4 }),
      el("svg:circle", { cx: px(n.difference), cy: 36, r: 7, fill: `var(--${STATES[n.verdict]})` }),
      text(300, 12, `margin ±${format(margin)}`), text(300, 68, "0"), ...[n.difference_low, n.difference_high].map(v => text(px(v), 68, Math.abs(px(v) - 300) < 30 ? "" : format(v))), text(20, 81, "ours lower", "start"), text(580, 81, "ours higher", "end"));
  }

  // The lines of the artefact's curves that are of this number's runs.
  function ownCurves(n) {
    const table = whole.querySelector("#curves")?.cloneNode(true);
    const rows = [...table?.tBodies[0].rows || []], ours = rows.filter(row => row.dataset.at === `${n.row}|${n.column}`);
    if (!ours.length) return null;
    table.removeAttribute("id");
    table.tBodies[0].replaceChildren(...ours);
    for (const head of table.tHead.rows[0].cells) head.textContent = head.textContent;
    for (const row of table.rows) row.cells[1].remove();  // the column, which the title has
    return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Its curve beside the paper's" }, table);
  }

  function page(n) {
    const runs = (n.runs || []).map(id => [id, data.runs[id]]).filter(pair => pair[1]);
    const first = runs[0]?.[1], want = data.wants[`${n.row}|${n.column}`];
    const word = n.kind === "log value" ? "logged" : "reported";
    const at = data.numbers.indexOf(n), near = [data.numbers[at - 1], data.numbers[at + 1]];
    const parts = [
      el("p", { class: "crumbs" }, el("a", { href: "#" }, `‹ Back to ${data.title}`), " · ", near[0] ? el("a", { href: `#${near[0].id}` }, "previous") : "", " ", near[1] ? el("a", { href: `#${near[1].id}` }, "next") : ""),
      el("h1", { tabindex: -1 }, `${n.row}: ${n.where}`),
      el("p", { class: "big" },
        n.source ? el("span", {}, el("small", {}, word), el("b", {}, n.printed_text || "–")) : "",
        el("span", {}, el("small", {}, "ours "), el("b", {}, n.ours_text || "–"), n.ours !== undefined && first ? own(n) ? el("small", {}, standing(n)) : scale(n.scale) : ""),
        n.difference_text ? el("span", {}, el("small", {}, n.difference_low === undefined ? "difference" : "difference, 95 % interval"), el("b", {}, n.difference_text)) : ""),
    ];
    if (n.verdict) parts.push(el("p", { class: "lead" }, el("i", { class: `v ${STATES[n.verdict]}` }, n.verdict_text, n.stale ? " (stale)" : ""), ": ",
      n.verdict === "undecided" && n.difference_low === undefined ? "there are too few runs for an interval of the difference." : (exact(n) ? EXACT : MEANING)[n.verdict] || "",
      n.verdict === "undecided" && want ? ` ${want.cells} more planned run${want.cells === 1 ? "" : "s"} would narrow it: about ${time(want.seconds)} of one CPU core.` : "", n.verdict === "not comparable" ? `ours is another setting (${n.basis}) and says nothing for or against the ${word} number.` : "",
      n.stale ? " Stale: at least one run is of an earlier version of engine, method, rule or data." : "",
      n.mark ? ` Remark: ${n.mark.replace("best round on test", "both sides report the best round on test images").replace("at the floor", "the reported number is not above the majority class")}.` : ""), interval(n));
    if (n.reason) parts.push(el("p", {}, el("b", {}, /^not run yet/.test(n.reason) ? "Planned runs: " : ["differs", "undecided"].includes(n.verdict) ? "What could explain it: " : "Remark: "), n.reason));
    const about = facts([
      [`${word} in`, n.source ? `${data.key}, ${data.source}/published/${n.source}` : ""],
      ["kind of number", n.kind], ["unit", n.unit], ["interval from", n.verdict === "not comparable" ? "" : n.basis], ["runs of ours", n.seeds || ""],
      ["95 % interval of ours", n.interval_text], ["majority class", n.floor === undefined ? "" : format(n.floor)], ["evidence", n.tier]]);
    if (runs.length) {
      parts.push(el("h2", {}, "Our runs"));
      const head = ["Seed", "Accuracy, %", "Status", "Evidence", "Code", "Bytes sent", "Time", "Device", "Finished", "By", "Record"];
      parts.push(el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Our runs" }, el("table", { class: "grid" },
        el("thead", {}, el("tr", {}, head.map(name => el("th", { scope: "col" }, name)))),
        el("tbody", {}, runs.map(([id, run]) => el("tr", {}, el("th", { scope: "row" }, String(run.seed)),
          [format(run.value), run.reason ? `${run.status}: ${run.reason}` : run.status, run.tier || run.from, run.stale ? `stale: ${run.stale}` : "current",
            run.bytes === null ? "–" : size(run.bytes), time(run.seconds), run.device || "–", (run.finished || "–").slice(0, 10), run.contributor || "–"].map(text => el("td", {}, text)),
          el("td", {}, run.from === "computed here" ? el("a", { href: `../${data.records}/${id}/record.json` }, id.slice(0, 8)) : id.slice(0, 8))))))));
    }
    const accuracy = PERCENT.includes(n.unit);
    if (accuracy) parts.push(el("div", { class: "panels", id: "evidence" }, el("div", { class: "chart", id: "curve" }), el("div", { class: "chart", id: "spread" })));
    const beside = ownCurves(n);
    if (beside) parts.push(el("h2", {}, "Its curve beside the paper's"), el("p", { class: "soft" }, document.getElementById("beside").textContent), beside);
    parts.push(el("h2", {}, "About this number"), about);
    if (first) {
      parts.push(el("details", {}, el("summary", {}, "Hyper-parameters"), facts(flat(first.hp).map(([k, v]) => [k, v, data.meanings.methods[first.method]?.[k]])), Object.keys(first.hp).length ? "" : el("p", {}, "None of its own.")));
      parts.push(el("details", {}, el("summary", {}, "Recipe: data, model, protocol"), facts(flat(data.recipes[first.recipe]).map(([k, v]) => [k, v, meaning(k, data.recipes[first.recipe].partition.rule)]))));
      parts.push(el("details", {}, el("summary", {}, "Provenance of the first run"), facts([["cell", runs[0][0]], ["commit", first.commit + (first.dirty ? " with changes" : "")], ["torch", first.torch], ["precision", first.precision],
        ["partition", first.partition], ["parameters", first.parameters], ["reported round", first.round], ["peak memory", first.memory ? size(first.memory) : ""]])));
    }
    if (n.verdict === "differs" && data.notes.length) parts.push(el("h2", {}, "Notes of the table"), el("ul", { class: "notes" }, data.notes.map(note => el("li", {}, note))));
    parts.push(el("h2", {}, "Do it yourself"));
    if (data.repository) parts.push(el("p", {}, "Once:"), command(`git clone ${data.repository} && cd ${data.repository.split("/").pop()} && pip install -e .`));
    const gpu = /cuda|nvidia/i.test(first?.device || "");
    if (first) parts.push(el("p", {}, `Repeat the first run. It was made on a ${gpu ? "GPU" : "CPU"}; the other device gives other bits.`), both(data.recipes[first.recipe].dataset, first.command));
    if (want) parts.push(el("p", {}, `Improve the evidence: ${want.cells} run${want.cells === 1 ? "" : "s"} missing, about ${time(want.seconds)} of one CPU core.`), both(data.datasets[n.column], want.command));
    if (!first && !want) parts.push(command(data.command));
    view.replaceChildren(...parts);
    watch(view);
    const curves = runs.filter(([, run]) => run.curve.length).map(([, run]) => ({ name: `ours, seed ${run.seed} (${standing(n)})`, points: run.curve }));
    if (data.logged[n.source]) curves.push({ name: `the authors' log${/log/.test(n.source) ? "" : ", whose settings may be others (see the notes of the table)"}`, points: data.logged[n.source], dash: true });
    if (!accuracy) return;
    chart(view.querySelector("#curve"), curves, { x: "round", y: "accuracy in %", height: 260 });
    bars(view.querySelector("#spread"), first?.clients || [], { x: "accuracy of a client in %", y: `clients, seed ${first?.seed}` });
  }
  function route() {
    const name = decodeURIComponent(location.hash.slice(1));
    const number = data.numbers.find(n => n.id === name);
    view.hidden = !number; whole.hidden = Boolean(number);
    if (number) { page(number); document.title = `${number.row}, ${number.where} · ${data.key}`; scrollTo(0, 0); view.querySelector("h1").focus({ preventScroll: true }); }
    else { view.replaceChildren(); document.title = `${data.title} · repfl`; document.getElementById(name)?.scrollIntoView(); lines(); }
  }
  let drawn = false;
  function lines() {
    const space = document.getElementById("lines");
    if (!space || drawn) return;
    drawn = true;
    for (const [panel, curves] of Object.entries(data.lines)) {
      const one = el("div", { class: "chart" });
      space.append(el("div", {}, el("h3", {}, panel), one));
      chart(one, Object.entries(curves).map(([name, points]) => ({ name, points, family: name.replace(/, [^,]*log[^,]*$/, ""), dash: name.includes("log") })), { x: "round", y: "accuracy in %", height: 320 });
    }
  }
  if (data) { addEventListener("hashchange", route); route(); }
}
