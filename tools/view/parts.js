const parts = document.getElementById("parts") && JSON.parse(document.getElementById("parts").textContent);
const hues = ["#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d755d", "#bab0ac"];
const turns = parts ? parts.cuts.map(() => 0) : [];
const count = cut => cut.axes.map(([, whole, tile]) => Math.ceil(whole / tile));
const many = cut => count(cut).reduce((a, b) => a * b, 1);
function boxes() {  // for each cut, the first element and the extent of each index
  let at = Object.fromEntries(Object.entries(parts.whole).map(([i, n]) => [i, [0, n]]));
  return parts.cuts.map((cut, c) => {
    at = { ...at };
    let turn = turns[c];
    for (let a = cut.axes.length - 1; a >= 0; a--) {  // the index written last is the fastest
      const [index, , tile] = cut.axes[a], n = count(cut)[a], [first, extent] = at[index];
      const start = Math.min((turn % n) * tile, Math.max(extent - 1, 0));
      at[index] = [first + start, Math.min(tile, extent - start)];
      turn = Math.floor(turn / n);
    }
    return at;
  });
}
function span([extent, least, most, by], box) {  // first element and how many, of one axis of a tensor
  let low = least, high = most;
  for (const [index, k] of Object.entries(by)) {
    const [first, n] = box[index];
    low += Math.min(k * first, k * (first + n - 1));
    high += Math.max(k * first, k * (first + n - 1));
  }
  low = Math.max(low, 0);
  return [low, Math.max(Math.min(high, extent - 1) - low + 1, 0)];
}
function drawParts(step) {
  if (!parts) return;
  const found = boxes(), drawn = parts.cuts.filter(cut => cut.step <= step).length || parts.cuts.length;
  document.querySelectorAll("#turns label").forEach((label, c) => {
    label.classList.toggle("on", c === drawn - 1);
    label.querySelector("output").textContent = `tile ${turns[c]} of ${many(parts.cuts[c])}`;
  });
  document.querySelectorAll("#tensors figure").forEach((figure, t) => {
    const tensor = parts.tensors[t], [rows, columns] = [tensor.rows[0], tensor.columns[0]];
    const ratio = Math.min(Math.max(columns / rows, 0.25), 8), w = ratio >= 1 ? 220 : 220 * ratio, h = ratio >= 1 ? 220 / ratio : 220;
    let inside = `<rect x="1" y="1" width="${w}" height="${h}" fill="none" stroke="currentColor" stroke-opacity=".5"/>`, said = "";
    for (let c = 0; c < drawn; c++) {
      const [r, rn] = span(tensor.rows, found[c]), [k, kn] = span(tensor.columns, found[c]), last = c === drawn - 1;
      const x = 1 + w * k / columns, y = 1 + h * r / rows, hue = hues[c % hues.length];
      inside += `<rect x="${x}" y="${y}" width="${Math.max(w * kn / columns, 1.5)}" height="${Math.max(h * rn / rows, 1.5)}" fill="${hue}" fill-opacity="${last ? 0.75 : 0.14}" stroke="${hue}"/>`;
      const memory = parts.places[Math.max(step, parts.cuts[c].step)][tensor.name];
      if (last) said = `[${r}..${r + rn - 1}, ${k}..${k + kn - 1}]` + (memory ? ` in ${memory}` : "");
    }
    const svg = figure.querySelector("svg");
    svg.setAttribute("width", w + 2);
    svg.setAttribute("height", h + 2);
    svg.innerHTML = inside;
    figure.querySelector("figcaption").textContent = `${tensor.name}[${rows}, ${columns}]\n${said}`;
  });
}
if (parts) {
  for (const [c, cut] of parts.cuts.entries()) {
    const label = document.createElement("label");
    label.style.setProperty("--hue", hues[c % hues.length]);
    label.append(document.createElement("span"), document.createElement("output"), document.createElement("input"));
    label.querySelector("span").textContent = cut.line;
    Object.assign(label.querySelector("input"), { type: "range", min: 0, max: many(cut) - 1, value: 0 });
    label.querySelector("input").addEventListener("input", event => {
      turns[c] = Number(event.target.value);
      show(cut.step, true);
    });
    document.getElementById("turns").append(label);
  }
  for (const tensor of parts.tensors) {
    const figure = document.createElement("figure"), svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `part of ${tensor.name}`);
    figure.append(svg, document.createElement("figcaption"));
    document.getElementById("tensors").append(figure);
  }
}
