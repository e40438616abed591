// The trade-off of two metrics, with the stair line of those two and the overall front filled.
const num = { front: 0, dominated: 0, infeasible: 0, excluded: 0, failed: 0 };
for (const design of data.designs) num[design.standing] += 1;

// A metric of a design: over all workloads, or of one where it has its own value.
function metricOf(design, metric, workload) {
  if (workload >= 0 && data.metrics[metric].perWorkload) {
    const own = design.workloadMetrics[workload];
    return own ? own[metric] : null;
  }
  return design.metrics[metric];
}

function placed(state) {
  return data.designs
    .map((design, index) => ({ design, index, x: metricOf(design, state.x, state.workload), y: metricOf(design, state.y, state.workload) }))
    .filter((p) => finite(p.x) && finite(p.y));
}

const isUsable = (design) => design.standing === "front" || design.standing === "dominated";

// Factor that makes less of a metric better.
const signOf = (metric) => (metric.largerIsBetter ? -1 : 1);

function stairOf(points, sx, sy) {
  const corners = [];
  let best = Infinity;
  for (const p of [...points].sort((a, b) => sx * (a.x - b.x) || sy * (a.y - b.y))) {
    if (sy * p.y < best) {
      if (corners.length) corners.push([p.x, corners[corners.length - 1][1]]);
      corners.push([p.x, p.y]);
      best = sy * p.y;
    }
  }
  return corners;
}

function drawFront(state, choose) {
  const into = byId("front");
  const height = 430, width = sizeOf(into, height);
  const box = { left: 66, right: width - 12, top: 10, bottom: height - 44 };
  const points = placed(state);
  if (!points.length) {
    into.append(svg("text", { x: 20, y: 40, text: "No design has both of these metrics." }));
    return;
  }
  const usable = points.filter((p) => isUsable(p.design));
  const shown = usable.length ? usable : points;
  const [mx, my] = [data.metrics[state.x], data.metrics[state.y]];
  const [ux, uy] = [unitFor(mx.unit, shown.map((p) => p.x)), unitFor(my.unit, shown.map((p) => p.y))];
  const x = axisScale(points.map((p) => p.x / ux.divisor), box.left, box.right);
  const y = axisScale(points.map((p) => p.y / uy.divisor), box.bottom, box.top);
  drawAxes(into, box, x, y, `${mx.label} [${ux.name}]`, `${my.label} [${uy.name}]`);
  const at = (p) => [x.at(p.x / ux.divisor), y.at(p.y / uy.divisor)];
  const [sx, sy] = [signOf(mx), signOf(my)];
  byId("better").textContent = `${sy > 0 ? (sx > 0 ? "↙" : "↘") : sx > 0 ? "↖" : "↗"} better`;
  const corners = stairOf(usable, sx, sy).map(([cx, cy]) => at({ x: cx, y: cy }));
  if (corners.length) {
    const line = `M${corners[0][0]},${sy > 0 ? box.top : box.bottom}` + corners.map((c) => `L${c[0]},${c[1]}`).join("") + `H${sx > 0 ? box.right : box.left}`;
    into.append(svg("path", { d: line, fill: "none", stroke: "var(--blue)", "stroke-width": 1.6 }));
  }
  const order = { dominated: 0, infeasible: 1, excluded: 1, failed: 1, front: 2 };
  const rank = (p) => (p.index === data.knee ? 3 : order[p.design.standing]);
  for (const p of [...points].sort((a, b) => rank(a) - rank(b))) drawPoint(into, p, at(p));
  const chosen = points.find((p) => p.index === state.chosen);
  if (chosen) {
    const [cx, cy] = at(chosen);
    into.append(svg("circle", { cx, cy, r: 11, fill: "none", stroke: "var(--ink)", "stroke-width": 1.8, class: "chosen" }));
  }
  into.onmousemove = (event) => {
    const near = nearest(event, into, points, at);
    into.style.cursor = near ? "pointer" : "default";
    near ? showTip(event, near.design, state) : hideTip();
  };
  into.onmouseleave = hideTip;
  into.onclick = (event) => {
    const near = nearest(event, into, points, at);
    if (near) choose(near.index);
  };
}

function drawPoint(into, p, [cx, cy]) {
  const standing = p.design.standing;
  if (p.index === data.knee) {
    into.append(svg("path", { d: markerPath.diamond(cx, cy, 7.5), fill: "var(--orange)", stroke: "var(--ink)", "stroke-width": 1.3 }));
  } else if (standing === "front") {
    into.append(svg("circle", { cx, cy, r: 4.3, fill: "var(--blue)", stroke: "#fff", "stroke-width": 0.6 }));
  } else if (standing === "dominated") {
    into.append(svg("circle", { cx, cy, r: 3.3, fill: "none", stroke: "var(--faint)" }));
  } else {
    into.append(svg("path", { d: markerPath.x(cx, cy, 3.2), stroke: "var(--vermilion)", "stroke-width": 1.3, fill: "none" }));
  }
}

function nearest(event, into, points, at) {
  const frame = into.getBoundingClientRect();
  const shrink = into.viewBox.baseVal.width / frame.width; // a scroll bar may have come after drawing
  const [px, py] = [(event.clientX - frame.left) * shrink, (event.clientY - frame.top) * shrink];
  let best = null, least = 16 * 16;
  for (const p of points) {
    const [cx, cy] = at(p);
    const distance = (cx - px) ** 2 + (cy - py) ** 2 - (isUsable(p.design) ? 4 : 0);
    if (distance < least) [best, least] = [p, distance];
  }
  return best;
}

function frontLegend() {
  const hidden = data.designs.filter((d) => !isUsable(d) && !d.metrics.some(finite)).length;
  const without = ["infeasible", "excluded", "failed"].filter((name) => num[name]);
  const circle = (attributes) => svg("circle", { cx: 7, cy: 7, r: 4.3, ...attributes });
  const entries = [[swatch(22, svg("path", { d: "M0,7H22", stroke: "var(--blue)", "stroke-width": 1.6 }), svg("circle", { cx: 11, cy: 7, r: 4.3, fill: "var(--blue)" })), `Pareto front over ${data.objectives} (${num.front})`]];
  if (data.knee !== null) entries.push([swatch(16, svg("path", { d: markerPath.diamond(8, 7, 6.5), fill: "var(--orange)", stroke: "var(--ink)" })), "knee"]);
  if (num.dominated) entries.push([swatch(14, circle({ r: 3.3, fill: "none", stroke: "var(--faint)", "stroke-width": 1.3 })), `dominated (${num.dominated})`]);
  if (without.length) entries.push([swatch(14, svg("path", { d: markerPath.x(7, 7, 3.4), stroke: "var(--vermilion)", "stroke-width": 1.3 })), without.map((name) => `${name} (${num[name]})`).join(", ") + (hidden ? `; ${hidden} without values` : "")]);
  entries.push([null, "line: front of the two shown"]);
  legend("front-legend", entries);
}

function showTip(event, design, state) {
  const rows = [...data.parameters.map((p, i) => [p.short, design.parameters[i]]), ...data.metrics.map((m, i) => [m.label, quantity(metricOf(design, i, state.workload), m.unit)])];
  const tip = byId("tip");
  const table = html("table", {}, ...rows.filter(([, value]) => value !== "" && value !== "–").map(([name, value]) => html("tr", {}, html("td", { text: name }), html("td", { class: "value", text: value }))));
  tip.replaceChildren(html("b", { text: standingText(design) }), table, ...(design.reason ? [html("div", { text: design.reason })] : []));
  tip.hidden = false;
  const left = Math.min(event.pageX + 14, window.scrollX + document.documentElement.clientWidth - tip.offsetWidth - 8);
  const top = Math.min(event.pageY + 14, window.scrollY + window.innerHeight - tip.offsetHeight - 8);
  tip.style.left = `${Math.max(0, left)}px`;
  tip.style.top = `${Math.max(window.scrollY, top)}px`;
}

function hideTip() {
  byId("tip").hidden = true;
}

function standingText(design) {
  if (data.knee !== null && data.designs[data.knee] === design) return "knee of the Pareto front";
  return design.standing === "front" ? "on the Pareto front" : design.standing;
}
