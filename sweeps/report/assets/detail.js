// The chosen design: its parameters and totals, its ops, its roofline.
const lightness = data.partColors;

function drawDesign(state) {
  const design = data.designs[state.chosen];
  const card = byId("design");
  byId("design-title").textContent = design ? `Chosen design: ${standingText(design)}` : "No design chosen";
  if (!design) {
    card.replaceChildren(html("p", { class: "empty", text: "No design has a result yet." }));
    return;
  }
  const knee = data.knee === null ? null : data.designs[data.knee];
  const parameters = data.parameters.map((p, i) => html("tr", {}, html("td", { text: p.name }), html("td", { class: "value", text: design.parameters[i] })));
  const metrics = data.metrics.map((metric, i) => {
    const value = metricOf(design, i, state.workload);
    const base = knee && knee !== design ? metricOf(knee, i, state.workload) : null;
    const ratio = finite(value) && finite(base) && base > 0 ? `${Number((value / base).toPrecision(3))} x knee` : "";
    return html("tr", { class: metric.isObjective ? "objective" : undefined }, html("td", { text: metric.label }), html("td", { class: "value", text: quantity(value, metric.unit) }), html("td", { class: "ratio", text: ratio }));
  });
  const of = state.workload >= 0 ? ` of ${data.workloads[state.workload].name}` : data.workloads.length > 1 ? " of all workloads" : "";
  card.replaceChildren(
    ...(design.reason ? [html("p", { class: "reason", text: design.reason })] : []),
    html("h3", { text: "Swept parameters" }), html("table", {}, ...parameters),
    html("h3", { text: `Results${of} (objectives in bold)` }), html("table", {}, ...metrics),
    html("h3", { text: "Id" }), html("div", { class: "id", text: design.id }),
  );
}

function detailOf(state) {
  const design = data.designs[state.chosen];
  return design && design.detail !== null ? data.details[design.detail][state.detail] : null;
}

function noDetail(state, id, legendId) {
  sizeOf(byId(id), 60);
  legend(legendId, []);
  const design = data.designs[state.chosen];
  const text = design && isUsable(design) ? data.noDetail : "This design has no result to break down.";
  byId(id).append(svg("text", { x: 4, y: 30, class: "muted", text }));
}

// Rows of one workload's ops with amounts of all runs together.
function opRows(detail) {
  return detail.ops.map((row) => {
    const [op, cycles, bottleneck, readBytes, writeBytes, ...parts] = row;
    const [name, count, macs, datatype] = data.ops[op];
    return { name, count, macs, datatype, seconds: cycles / detail.clockHz, bottleneck: data.bottlenecks[bottleneck], readBytes, writeBytes, parts: parts.map((v) => v * count), energy: parts.reduce((a, b) => a + b, 0) * count };
  });
}

function defineHatches(into) {
  const marks = [null, "M0,6L6,0", null, "M3,3h0.01", null, "M0,0L6,6"];
  const defs = svg("defs");
  data.parts.forEach((_, i) => {
    const mark = marks[i % marks.length];
    const pattern = svg("pattern", { id: `part${i}`, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, svg("rect", { width: 6, height: 6, fill: lightness[i % lightness.length] }));
    if (mark) pattern.append(svg("path", { d: mark, stroke: "#fff", "stroke-width": mark.endsWith("0.01") ? 1.8 : 1, "stroke-linecap": "round" }));
    defs.append(pattern);
  });
  into.append(defs);
}

// Trees of named parts: a bar is a part's share of the whole that it belongs to.
function drawParts(detail) {
  const into = byId("ops"), line = 18, top = 6;
  const width = sizeOf(into, top + (detail.parts.length + detail.notes.length + 1) * line);
  const names = Math.min(280, width * 0.4), room = width - names - 110;
  let whole = 1;
  detail.parts.forEach(([depth, name, amount, unit], i) => {
    const y = top + i * line;
    if (depth === 0) whole = Math.abs(amount) || 1;
    const w = (Math.max(0, amount) / whole) * room;
    into.append(svg("text", { x: 4 + 14 * depth, y: y + 12, "font-weight": depth ? undefined : "bold", text: data.partNames[name] }));
    into.append(svg("rect", { x: names, y, width: w, height: line - 4, fill: lightness[Math.min(depth, lightness.length - 1)] }));
    into.append(svg("text", { x: names + w + 4, y: y + 12, class: "muted", text: quantity(amount, unit) }));
  });
  detail.notes.forEach((note, i) => into.append(svg("text", { x: 4, y: top + (detail.parts.length + i + 1) * line, class: "muted", text: data.noteTexts[note] })));
  legend("ops-legend", []);
}

function drawOps(state) {
  const detail = detailOf(state);
  byId("ops-title").textContent = detail && detail.parts ? "What the numbers are made of" : "Where energy and time go, op by op";
  if (!detail) return noDetail(state, "ops", "ops-legend");
  if (detail.parts) return drawParts(detail);
  const rows = opRows(detail);
  const into = byId("ops"), line = 18, top = 22;
  const width = sizeOf(into, top + rows.length * line + 6);
  defineHatches(into);
  const names = Math.min(230, width * 0.28), gap = 74;
  const half = (width - names - 2 * gap - 40) / 2;
  const [energyAt, timeAt] = [names + 8, names + 8 + half + gap];
  const mostEnergy = Math.max(...rows.map((r) => r.energy)) || 1, mostTime = Math.max(...rows.map((r) => r.seconds * r.count)) || 1;
  const head = (x, text, anchor) => into.append(svg("text", { x, y: 12, class: "muted", "text-anchor": anchor, text }));
  head(names, "op x runs", "end");
  head(energyAt, "energy, all runs", "start");
  head(timeAt, "time, all runs, and what limits it", "start");
  rows.forEach((row, i) => {
    const y = top + i * line;
    const title = `${row.name}: ${row.count} run(s) of ${row.macs.toLocaleString("en-US")} MACs`;
    into.append(svg("text", { x: names, y: y + 12, "text-anchor": "end" }, clip(row.count > 1 ? `${row.name} x${row.count}` : row.name, names), svg("title", { text: title })));
    let x = energyAt;
    row.parts.forEach((amount, part) => {
      const w = (amount / mostEnergy) * half;
      if (w > 0) into.append(svg("rect", { x, y, width: w, height: line - 4, fill: `url(#part${part})`, stroke: "#fff", "stroke-width": 0.5 }, svg("title", { text: `${data.parts[part]}: ${quantity(amount, "pJ")}` })));
      x += w;
    });
    into.append(svg("text", { x: x + 4, y: y + 12, class: "muted", text: quantity(row.energy, "pJ") }));
    const w = ((row.seconds * row.count) / mostTime) * half * 0.75;
    into.append(svg("rect", { x: timeAt, y, width: w, height: line - 4, fill: "#c9d3dc", stroke: "var(--muted)", "stroke-width": 0.5 }));
    into.append(svg("text", { x: timeAt + w + 4, y: y + 12, class: "muted", text: `${quantity(row.seconds * row.count, "s")}  ${row.bottleneck}` }));
  });
  legend("ops-legend", data.parts.map((part, i) => [swatch(18, svg("rect", { x: 1, y: 2, width: 16, height: 10, fill: `url(#part${i})` })), part]));
}

function clip(text, width) {
  const most = Math.floor(width / 6.6);
  return text.length <= most ? text : `…${text.slice(text.length - most + 1)}`;
}

function drawRoofline(state) {
  const detail = detailOf(state);
  byId("roofline-card").hidden = Boolean(detail && detail.parts);
  if (detail && detail.parts) return;
  if (!detail) return noDetail(state, "roofline", "roofline-legend");
  const rows = opRows(detail).filter((r) => r.macs > 0 && r.readBytes + r.writeBytes > 0 && r.seconds > 0);
  if (!rows.length) return noDetail(state, "roofline", "roofline-legend");
  const { readBytesPerS: read, writeBytesPerS: write, sharesPort, peaks } = detail.roof;
  const isBounded = read !== null && write !== null;
  const slope = isBounded ? (sharesPort ? Math.max(read, write) : read + write) : null;
  const total = opRows(detail).reduce((sum, r) => sum + r.seconds * r.count, 0);
  for (const row of rows) {
    row.x = (2 * row.macs) / (row.readBytes + row.writeBytes);
    row.y = (2 * row.macs) / row.seconds;
    row.share = (row.seconds * row.count) / total;
    const readS = isBounded ? row.readBytes / read : 0, writeS = isBounded ? row.writeBytes / write : 0;
    const memory = isBounded ? (2 * row.macs) / (sharesPort ? readS + writeS : Math.max(readS, writeS)) : Infinity;
    row.bound = Math.min(peaks[row.datatype], memory);
    row.isCompute = peaks[row.datatype] <= memory;
  }
  const tops = [...new Set(rows.map((r) => peaks[r.datatype]))].sort((a, b) => a - b);
  const into = byId("roofline"), height = 380, width = sizeOf(into, height);
  const box = { left: 62, right: width - 10, top: 14, bottom: height - 44 };
  const unit = unitFor("ops/s", tops);
  const ridges = slope ? tops.map((top) => top / slope) : [];
  const [xs, ys] = [[...rows.map((r) => r.x), ...ridges], [...rows.map((r) => r.y), ...tops].map((v) => v / unit.divisor)];
  const x = axisScale([Math.min(...xs) / 1.8, Math.max(...xs) * 1.8], box.left, box.right, true);
  const y = axisScale([Math.min(...ys) / 1.8, Math.max(...ys) * 1.4], box.bottom, box.top, true);
  drawAxes(into, box, x, y, "Arithmetic intensity [ops per main-memory byte]", `Attained [${unit.name}]`);
  drawRoofs(into, box, x, y, tops, slope, unit);
  const largest = Math.max(...rows.map((r) => r.share));
  for (const row of [...rows].sort((a, b) => b.share - a.share)) {
    const r = Math.max(2.5, 13 * Math.sqrt(row.share / largest));
    const [cx, cy] = [x.at(row.x), y.at(row.y / unit.divisor)];
    const look = { fill: row.isCompute ? "var(--orange)" : "var(--blue)", "fill-opacity": 0.85, stroke: "#fff", "stroke-width": 0.8 };
    const text = `${row.name}: ${(100 * row.share).toFixed(1)} % of time\n${plain(row.x)} ops/B, ${quantity(row.y, "ops/s")} of at most ${quantity(row.bound, "ops/s")}\nslowest: ${row.bottleneck}`;
    const shape = row.isCompute ? svg("rect", { x: cx - r * 0.89, y: cy - r * 0.89, width: r * 1.77, height: r * 1.77, ...look }) : svg("circle", { cx, cy, r, ...look });
    shape.append(svg("title", { text }));
    into.append(shape);
  }
  const count = (isCompute) => rows.filter((r) => r.isCompute === isCompute).length;
  const entries = [];
  if (count(false)) entries.push([swatch(14, svg("circle", { cx: 7, cy: 7, r: 5, fill: "var(--blue)" })), `bound by main memory (${count(false)} ops)`]);
  if (count(true)) entries.push([swatch(14, svg("rect", { x: 2.5, y: 2.5, width: 9, height: 9, fill: "var(--orange)" })), `bound by compute (${count(true)} ops)`]);
  entries.push([null, "marker area: share of time"]);
  legend("roofline-legend", entries);
}

function drawRoofs(into, box, x, y, tops, slope, unit) {
  for (const top of tops) {
    const level = y.at(top / unit.divisor);
    const line = { fill: "none", stroke: "var(--ink)", "stroke-width": 1.6 };
    if (slope) {
      const ridge = top / slope;
      const start = Math.max(x.low, (y.low * unit.divisor) / slope);
      into.append(svg("path", { d: `M${x.at(start)},${y.at((start * slope) / unit.divisor)}L${x.at(ridge)},${level}H${box.right}`, ...line }));
      into.append(svg("path", { d: `M${x.at(ridge)},${level}V${box.bottom}`, stroke: "var(--muted)", "stroke-dasharray": "4 3", fill: "none" }));
      into.append(svg("text", { x: x.at(ridge) + 4, y: box.bottom - 6, class: "muted halo", text: `ridge point ${plain(ridge)} ops/B` }));
    } else {
      into.append(svg("path", { d: `M${box.left},${level}H${box.right}`, ...line }));
    }
    into.append(svg("text", { x: box.left + 5, y: level - 5, class: "muted halo", text: `peak ${quantity(top, "ops/s")}` }));
  }
}
