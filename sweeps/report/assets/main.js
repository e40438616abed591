// The table of points, the state, and what happens on a click.
const FIRST_ROWS = 200;
const metricNamed = (name) => data.metrics.findIndex((m) => m.name === name);
const state = { workload: -1, detail: 0, x: data.axes[0], y: data.axes[1], chosen: data.chosen, sort: null, down: false, rows: "all", search: "", limit: FIRST_ROWS };

function readHash() {
  const hash = new URLSearchParams(location.hash.slice(1));
  const design = hash.get("design");
  const found = design ? data.designs.findIndex((d) => d.id.startsWith(design)) : -1;
  if (found >= 0) state.chosen = found;
  for (const key of ["x", "y"]) if (metricNamed(hash.get(key)) >= 0) state[key] = metricNamed(hash.get(key));
  const workload = data.workloads.findIndex((w) => w.name === hash.get("workload"));
  if (workload >= 0) [state.workload, state.detail] = [workload, workload];
}

function writeHash() {
  const parts = { x: data.metrics[state.x].name, y: data.metrics[state.y].name };
  if (data.designs[state.chosen]) parts.design = data.designs[state.chosen].id.slice(0, 16);
  if (state.workload >= 0) parts.workload = data.workloads[state.workload].name;
  history.replaceState(null, "", `#${new URLSearchParams(parts)}`);
}

function choose(index) {
  state.chosen = index;
  writeHash();
  drawAll();
}

function columns() {
  return [
    { title: "", className: "text", text: (d) => standingText(d).replace("on the Pareto front", "front").replace("knee of the Pareto front", "knee"), key: (d) => ["front", "dominated", "infeasible", "excluded", "failed"].indexOf(d.standing) },
    ...data.parameters.map((p, i) => ({ title: p.short, text: (d) => d.parameters[i], key: (d) => d.order[i] })),
    ...data.metrics.map((metric, i) => {
      const unit = unitFor(metric.unit, data.designs.map((d) => d.metrics[i]));
      return { title: metric.label, unit: unit.name, text: (d) => (finite(d.metrics[i]) ? plain(d.metrics[i] / unit.divisor) : ""), key: (d) => (finite(d.metrics[i]) ? d.metrics[i] : Infinity) };
    }),
    ...(data.designs.some((d) => d.reason) ? [{ title: "why not", className: "reason", text: (d) => d.reason, key: (d) => d.reason }] : []),
  ];
}
const tableColumns = columns();

function drawTable() {
  const head = byId("points").tHead, body = byId("points").tBodies[0];
  head.replaceChildren(html("tr", {}, ...tableColumns.map((column, i) => {
    const arrow = state.sort === i ? (state.down ? " ↓" : " ↑") : "";
    const cell = html("th", { scope: "col", class: column.className, "aria-sort": state.sort === i ? (state.down ? "descending" : "ascending") : undefined }, column.title + arrow, html("small", { text: column.unit ? `[${column.unit}]` : " " }));
    cell.onclick = () => {
      state.down = state.sort === i && !state.down;
      state.sort = i;
      drawTable();
    };
    return cell;
  })));
  const wanted = state.search.toLowerCase();
  let rows = data.designs.map((design, index) => ({ design, index }));
  if (state.rows === "front") rows = rows.filter((r) => r.design.standing === "front");
  if (state.rows === "feasible") rows = rows.filter((r) => isUsable(r.design));
  if (wanted) rows = rows.filter((r) => [r.design.id, r.design.reason, ...r.design.parameters].join(" ").toLowerCase().includes(wanted));
  if (state.sort !== null) {
    const key = tableColumns[state.sort].key, sign = state.down ? -1 : 1;
    const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
    rows.sort((a, b) => sign * compare(key(a.design), key(b.design)) || a.index - b.index);
  }
  body.replaceChildren(...rows.slice(0, state.limit).map(({ design, index }) => {
    const row = html("tr", { tabindex: 0, class: index === state.chosen ? "chosen" : undefined }, ...tableColumns.map((c) => html("td", { class: c.className, text: c.text(design) })));
    row.onclick = () => choose(index);
    row.onkeydown = (event) => event.key === "Enter" && choose(index);
    return row;
  }));
  const more = byId("more");
  more.hidden = rows.length <= state.limit;
  more.textContent = `show all ${rows.length.toLocaleString("en-US")} rows`;
  more.onclick = () => {
    state.limit = Infinity;
    drawTable();
  };
}

function alongFront(step) {
  const front = placed(state).filter((p) => p.design.standing === "front").sort((a, b) => a.x - b.x || a.y - b.y);
  if (!front.length) return;
  const now = front.findIndex((p) => p.index === state.chosen);
  const next = now < 0 ? 0 : now + step;
  if (next >= 0 && next < front.length) choose(front[next].index);
}

function drawAll() {
  drawFront(state, choose);
  drawDesign(state);
  drawOps(state);
  drawRoofline(state);
  drawTable();
}

function fill(select, names, value, onChange) {
  select.replaceChildren(...names.map(([key, text]) => html("option", { value: key, text })));
  select.value = String(value);
  select.onchange = () => {
    onChange(Number(select.value));
    writeHash();
    drawAll();
  };
}

function start() {
  readHash();
  byId("summary").textContent = data.caption;
  const metricNames = data.metrics.map((m, i) => [i, m.label + (data.metrics.filter((o) => o.label === m.label).length > 1 ? ` (${m.unit})` : "")]);
  const workloadNames = data.workloads.map((w, i) => [i, w.name]);
  const everything = data.workloads.length > 1 ? [[-1, "all"], ...workloadNames] : [[-1, workloadNames[0][1]]];
  fill(byId("pick-workload"), everything, state.workload, (v) => {
    state.workload = v;
    if (v >= 0) state.detail = v;
    byId("pick-detail").value = String(state.detail);
  });
  fill(byId("pick-x"), metricNames, state.x, (v) => (state.x = v));
  fill(byId("pick-y"), metricNames, state.y, (v) => (state.y = v));
  fill(byId("pick-detail"), workloadNames, state.detail, (v) => (state.detail = v));
  byId("detail-label").hidden = data.workloads.length < 2;
  byId("pick-rows").onchange = (event) => {
    state.rows = event.target.value;
    drawTable();
  };
  byId("search").oninput = (event) => {
    state.search = event.target.value;
    drawTable();
  };
  byId("previous").onclick = () => alongFront(-1);
  byId("next").onclick = () => alongFront(1);
  document.addEventListener("keydown", (event) => {
    if (["INPUT", "SELECT"].includes(event.target.tagName)) return;
    if (event.key === "ArrowLeft") alongFront(-1);
    if (event.key === "ArrowRight") alongFront(1);
  });
  byId("notes").replaceChildren(...data.notes.flatMap(([name, text, isCode]) => [html("dt", { text: name }), html("dd", {}, isCode ? html("pre", { text }) : text)]));
  window.onhashchange = () => {
    readHash();
    drawAll();
  };
  window.onresize = drawAll;
  frontLegend();
  drawAll();
}

start();
