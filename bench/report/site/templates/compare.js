// Two methods over all columns, shares beaten, harm and bytes.
{
  const T95 = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131, 2.12, 2.11, 2.101, 2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048, 2.045, 2.042];
  const SCALES = { own: "Own protocol", paper: "Full scale", desk: "Reduced runs", smoke: "Toy runs" }; // never pooled
  const OPPONENTS = 2; // of fewer, no share is shown
  const FEW = 3; // shares of fewer runs say little, and stand last; fewer columns have no interval
  const quantile = df => df < 1 ? NaN : T95[df - 1] ?? 1.96;
  const mean = values => values.reduce((a, b) => a + b, 0) / values.length;
  const interval = values => {
    const m = mean(values), sd = Math.sqrt(values.reduce((a, v) => a + (v - m) ** 2, 0) / (values.length - 1));
    const half = values.length > 1 ? quantile(values.length - 1) * sd / Math.sqrt(values.length) : NaN;
    return [m, m - half, m + half];
  };
  const signed = v => (v > 0 ? "+" : "") + told(v);
  const between = ([m, low, high]) => Number.isNaN(low) ? `${signed(m)} (one pair: no interval)` : `${signed(m)} [${told(low)}, ${told(high)}]`;
  const selects = ["first", "second", "scale", "place"].map(id => document.getElementById(id));
  const every = selects[0] ? embedded("data") : [];
  const rows = [...new Set(every.map(run => run.row))].sort((a, b) => a.localeCompare(b, "en"));
  const chosen = () => every.filter(run => !selects[2].value || run.scale === selects[2].value);
  const key = run => `${run.place}|${run.seed}`;
  const root = document.body.dataset.root;

  function pairs(a, b) {
    if (a === b) return [];
    const others = new Map(chosen().filter(run => run.row === b).map(run => [key(run), run]));
    return chosen().filter(run => run.row === a && others.has(key(run))).map(run => [run, others.get(key(run))]);
  }
  function grid(head, lines) {
    const table = el("table", { class: "grid sortable" },
      el("thead", {}, el("tr", {}, head.map(name => el("th", { scope: "col" }, el("button", { type: "button" }, name))))),
      el("tbody", {}, lines.map(line => el("tr", {}, line.map((cell, i) => {
        const [shown, value] = Array.isArray(cell) ? cell : [cell, undefined];
        return el(i ? "td" : "th", { scope: i ? undefined : "row", "data-v": value }, shown);
      })))));
    sortable(table);
    return el("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": head.join(", ") }, table);
  }
  function compare() {
    const [a, b] = [selects[0].value, selects[1].value], found = pairs(a, b);
    const said = document.getElementById("verdict"), place = document.getElementById("pairs");
    const groups = Map.groupBy ? Map.groupBy(found, pair => pair[0].place) : found.reduce((m, p) => m.set(p[0].place, [...(m.get(p[0].place) || []), p]), new Map());
    const lines = [...groups.values()].map(each => ({ name: each[0][0].name, scale: each[0][0].scale, link: each[0][0].link, other: each[0][1].link,
      a: mean(each.map(p => p[0].value)), b: mean(each.map(p => p[1].value)), n: each.length, gap: interval(each.map(p => p[0].value - p[1].value)),
      clients: each[0][0].clients.length && each[0][0].clients.length === each[0][1].clients.length ? interval(each[0][0].clients.map((v, i) => v - each[0][1].clients[i])) : null }));
    if (!lines.length) {
      const known = rows.filter(row => row !== a && pairs(a, row).length);
      said.replaceChildren(el("p", { class: "absent" }, a === b ? "Choose two different methods." : `${a} and ${b} have no run in common: no column and seed where both were measured.`,
        known.length && a !== b ? ` ${a} can be compared with ${known.join(", ")}.` : ""));
      place.replaceChildren();
    } else {
      said.replaceChildren(...Object.keys(SCALES).map(scale => [scale, lines.filter(line => line.scale === scale)]).filter(([, mine]) => mine.length).map(([scale, mine]) => {
        const all = interval(mine.map(line => line.gap[0])), wins = mine.filter(line => line.gap[0] > 0).length;
        return el("p", { class: "lead" }, `${SCALES[scale]}: ${a} is above ${b} in ${wins} of ${mine.length} column${mine.length === 1 ? "" : "s"}; mean difference ${mine.length < FEW ? signed(all[0]) : between(all)} points${mine.length > 1 ? " over columns" : ""}. `,
          mine.length < FEW ? "So few columns allow no interval over columns; the intervals over seeds stand in the table below." : all[1] > 0 || all[2] < 0 ? `The interval leaves out zero: on average over columns like these, ${all[1] > 0 ? a : b} is ahead.` : "The interval contains zero: on average over these columns, the difference is not significant.");
      }));
      place.replaceChildren(grid(["Column", "Scale", a, b, "Seeds", "Difference over seeds", "Difference over clients, first seed"], lines.map(line => [
        line.name, SCALES[line.scale], [el("a", { href: root + line.link }, told(line.a)), line.a], [el("a", { href: root + line.other }, told(line.b)), line.b], [String(line.n), line.n],
        [between(line.gap), line.gap[0]], line.clients ? [between(line.clients), line.clients[0]] : "–"])));
    }
    selects[3].replaceChildren(...[...groups].map(([id, each]) => el("option", { value: id }, `${each[0][0].name} (${SCALES[each[0][0].scale].toLowerCase()})`)));
    const kept = [...groups].find(([, each]) => each[0].every(run => run.clients.length));
    if (kept) selects[3].value = kept[0];
    profile(); ranks();
    history.replaceState(null, "", `#${encodeURIComponent(a)}/${encodeURIComponent(b)}`);
  }
  function profile() {
    const here = chosen().filter(run => run.place === selects[3].value);
    const shares = run => { const v = [...run.clients].sort((p, q) => p - q); return v.map((x, i) => [x, 100 * (v.length - i) / v.length]); };
    const of = row => here.find(run => run.row === row && run.clients.length);
    const known = [selects[0].value, selects[1].value].map(of).filter(Boolean);
    if (!known.length) document.getElementById("profile").replaceChildren(el("p", { class: "soft" }, "Of these runs no counts per client were kept."));
    else chart(document.getElementById("profile"), known.map(run => ({ name: `${run.row}, seed ${run.seed}`, family: run.row, points: shares(run), step: true })),
      { x: "accuracy of a client in %", y: "share of clients in %", height: 280, digits: 1 });
    const at = row => here.filter(run => run.row === row && run.bytes);
    const point = row => at(row).length ? [[mean(at(row).map(run => run.bytes)) / 1e6, mean(at(row).map(run => run.value)), root + at(row)[0].link, row]] : [];
    const two = [selects[0].value, selects[1].value];
    chart(document.getElementById("traffic"), [{ name: "other methods", colour: "#949494", line: false, points: rows.filter(row => !two.includes(row)).flatMap(point) },
      ...two.map((row, i) => ({ name: row, colour: COLOURS[i], line: false, labels: true, points: point(row) }))],
      { x: "bytes sent over the whole run, MB", y: "accuracy in % against bytes, mean over seeds", height: 300 });
  }
  function ranks() {
    const places = new Map();
    for (const run of chosen()) { const at = places.get(key(run)) || []; at.push(run); places.set(key(run), at); }
    const found = new Map();
    for (const runs of places.values()) for (const run of runs) {
      const name = `${run.row}|${run.scale}`, mine = found.get(name) || { row: run.row, scale: SCALES[run.scale], beaten: [], harm: [], bytes: [] };
      found.set(name, mine);
      if (runs.length > 2) mine.beaten.push(100 * (runs.filter(o => o.value < run.value).length + (runs.filter(o => o.value === run.value).length - 1) / 2) / (runs.length - 1));
      if (run.harm !== undefined) mine.harm.push(run.harm);
      const plain = runs.find(o => o.method === "fedavg")?.bytes;
      if (run.bytes && plain) mine.bytes.push(100 * run.bytes / plain);
    }
    const counted = values => values.length ? [`${told(mean(values), 1)} (${values.length})`, mean(values)] : ["–", -1e300];
    const others = runs => new Set(runs.flatMap(run => places.get(key(run)).map(other => other.row))).size - 1;
    document.getElementById("ranks").replaceChildren(...Object.keys(SCALES).flatMap(scale => {
      const mine = [...found.values()].filter(v => v.scale === SCALES[scale] && v.beaten.length)
        .map(v => [v, others(chosen().filter(run => run.row === v.row && run.scale === scale))]).filter(([, n]) => n >= OPPONENTS)
        .sort(([p], [q]) => (p.beaten.length < FEW) - (q.beaten.length < FEW) || mean(q.beaten) - mean(p.beaten));
      return mine.length ? [el("h3", {}, SCALES[scale]), grid(["Method", "Others beaten, % (runs)", "Opponents", "Worse than local, % of clients (runs)", "Bytes, % of FedAvg's (runs)"],
        mine.map(([v, n]) => [v.row, counted(v.beaten), [String(n), n], counted(v.harm), counted(v.bytes)]))] : [];
    }));
  }
  if (rows.length) {
    for (const select of selects.slice(0, 2)) select.append(...rows.map(row => el("option", {}, row)));
    const [a, b] = decodeURIComponent(location.hash.slice(1)).split("/");
    const named = name => rows.includes(name) ? name : every.find(run => run.method === name)?.row;
    const busiest = [...rows].sort((p, q) => every.filter(r => r.row === q).length - every.filter(r => r.row === p).length);
    selects[0].value = named(a) || busiest[0];
    const other = busiest.find(row => row !== selects[0].value && pairs(selects[0].value, row).length);
    selects[1].value = named(b) || other || busiest[0];
    for (const select of selects.slice(0, 3)) select.addEventListener("change", compare);
    selects[3].addEventListener("change", profile);
    compare(); addEventListener("resize", profile); addEventListener("hashchange", () => location.reload());
  } else if (selects[0]) document.getElementById("verdict").append(el("p", { class: "absent" }, "No run of a table has been measured yet."));
}
