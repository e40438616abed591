// Data, number formats, scales and small builders that the other parts share.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const finite = (value) => value !== null && Number.isFinite(value);

function node(namespace, tag, attributes, children) {
  const made = namespace ? document.createElementNS(namespace, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null) continue;
    if (name === "text") made.textContent = value;
    else made.setAttribute(name, value);
  }
  for (const child of children || []) made.append(child);
  return made;
}
const html = (tag, attributes, ...children) => node(null, tag, attributes, children);
const svg = (tag, attributes, ...children) => node("http://www.w3.org/2000/svg", tag, attributes, children);

// The unit in which the middle of the values reads best; the steps come with the data.
function unitFor(unit, values) {
  const steps = data.units[unit] || [[1, unit]];
  const usable = values.filter((v) => finite(v) && v > 0).sort((a, b) => a - b);
  const middle = usable.length ? usable[Math.floor(usable.length / 2)] : 1;
  let found = steps[0];
  for (const step of steps) if (step[0] <= middle) found = step;
  return { divisor: found[0], name: found[1] };
}

function plain(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) return value.toExponential(2).replace(/\.?0*e\+?/, "e");
  return Number(value.toPrecision(4)).toLocaleString("en-US", { maximumSignificantDigits: 6 });
}

function quantity(value, unit) {
  if (!finite(value)) return "–";
  const scale = unitFor(unit, [value]);
  const shown = value / scale.divisor;
  const digits = Math.abs(shown) >= 1000 ? Math.round(shown).toLocaleString("en-US") : String(Number(shown.toPrecision(4)));
  return `${digits} ${scale.name}`.trim();
}

// An axis over values in display units; logarithmic where they are positive and widely spread.
function axisScale(values, from, to, forceLog) {
  const usable = values.filter(finite);
  let low = Math.min(...usable), high = Math.max(...usable);
  if (!usable.length) [low, high] = [0, 1];
  const isLog = forceLog || (low > 0 && high / low >= data.logFromRatio);
  const go = isLog ? Math.log10 : (v) => v;
  let [a, b] = [go(low), go(high)];
  const air = (b - a || Math.abs(a) || 1) * 0.07;
  [a, b] = [a - air, b + air];
  if (!isLog && low >= 0) a = Math.max(a, 0);
  return {
    isLog,
    at: (v) => from + ((go(v) - a) / (b - a)) * (to - from),
    low: isLog ? 10 ** a : a,
    high: isLog ? 10 ** b : b,
    ticks: isLog ? logTicks(10 ** a, 10 ** b) : linearTicks(a, b),
  };
}

function linearTicks(low, high) {
  const rough = (high - low) / 6;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high; i += 1) found.push(Number((i * step).toPrecision(12)));
  return found;
}

function logTicks(low, high) {
  const spread = high / low;
  const steps = spread > 3e3 ? [1] : spread > 60 ? [1, 3] : [1, 2, 5];
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
    for (const step of steps) {
      const value = Number((step * 10 ** power).toPrecision(6));
      if (value >= low && value <= high) found.push(value);
    }
  }
  return found;
}

function drawAxes(into, box, x, y, xLabel, yLabel) {
  const label = (text, isLog) => (isLog ? `${text}, log scale` : text);
  for (const tick of x.ticks) {
    const at = x.at(tick);
    into.append(svg("line", { x1: at, x2: at, y1: box.top, y2: box.bottom, stroke: "var(--grid)" }));
    into.append(svg("text", { x: at, y: box.bottom + 16, "text-anchor": "middle", text: plain(tick) }));
  }
  for (const tick of y.ticks) {
    const at = y.at(tick);
    into.append(svg("line", { x1: box.left, x2: box.right, y1: at, y2: at, stroke: "var(--grid)" }));
    into.append(svg("text", { x: box.left - 7, y: at + 4, "text-anchor": "end", text: plain(tick) }));
  }
  into.append(svg("path", { d: `M${box.left},${box.top}V${box.bottom}H${box.right}`, fill: "none", stroke: "var(--muted)" }));
  into.append(svg("text", { x: (box.left + box.right) / 2, y: box.bottom + 36, "text-anchor": "middle", text: label(xLabel, x.isLog) }));
  const middle = (box.top + box.bottom) / 2;
  into.append(svg("text", { x: 0, y: 0, transform: `translate(13,${middle}) rotate(-90)`, "text-anchor": "middle", text: label(yLabel, y.isLog) }));
}

function sizeOf(element, height) {
  const width = Math.max(320, element.clientWidth || element.parentElement.clientWidth || 700);
  element.setAttribute("viewBox", `0 0 ${width} ${height}`);
  element.setAttribute("height", height);
  element.replaceChildren();
  return width;
}

function legend(id, entries) {
  byId(id).replaceChildren(...entries.map(([mark, text]) => html("span", mark ? {} : { class: "muted" }, ...(mark ? [mark] : []), text)));
}

function swatch(width, ...shapes) {
  return svg("svg", { width, height: 14, viewBox: `0 0 ${width} 14` }, ...shapes);
}

const markerPath = {
  x: (x, y, r) => `M${x - r},${y - r}L${x + r},${y + r}M${x - r},${y + r}L${x + r},${y - r}`,
  diamond: (x, y, r) => `M${x},${y - r}L${x + r},${y}L${x},${y + r}L${x - r},${y}Z`,
};
