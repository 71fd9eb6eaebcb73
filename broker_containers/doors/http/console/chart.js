// Charts as SVG: a line over time for each series, and small ones without axes.

import { clockTime } from "./format.js";
import { html, useLayoutEffect, useRef, useState } from "./html.js";

/** Sizes in units of the page's type, which grows with the screen. */
function sizes() {
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  return { rem, height: 11 * rem, left: 5.25 * rem, bottom: 1.5 * rem, top: 0.5 * rem };
}

/** A round number that is not less than `value`: 1, 2 or 5 times a power of ten, or one of two, whose half is whole. */
function ceiling(value, binary) {
  if (!(value > 0)) return 2;
  if (binary) return 2 ** Math.max(1, Math.ceil(Math.log2(value)));
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((each) => each * power >= value) * power;
}

function linePath(points) {
  let path = "";
  let open = false;
  for (const [x, y] of points) {
    if (y === null) open = false;
    else {
      path += `${open ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`;
      open = true;
    }
  }
  return path;
}

/** Down to `floor` at both ends of each line that is not interrupted. */
function areaPath(points, floor) {
  const parts = [];
  for (const [x, y] of points) {
    if (y == null) parts.push([]);
    else if (parts.length) parts.at(-1).push([x, y]);
    else parts.push([[x, y]]);
  }
  return parts.filter((part) => part.length > 1)
    .map((part) => `${linePath(part)}L${part.at(-1)[0].toFixed(1)},${floor}L${part[0][0].toFixed(1)},${floor}Z`).join("");
}

export function Sparkline({ values, label }) {
  const most = Math.max(...values, 0) || 1;
  const width = 120;
  const height = 28;
  const step = width / Math.max(values.length - 1, 1);
  const path = linePath(values.map((value, index) => [index * step, height - 1 - (value / most) * (height - 3)]));
  return html`<svg class="sparkline" viewBox=${`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label=${label}>
    <path class="area" d=${path && `${path}L${width},${height}L0,${height}Z`} />
    <path class="line" d=${path} />
  </svg>`;
}

/** `series` are { name, className, value(sample) }; samples have wall_us and rise with it. */
export function Chart({ title, samples, series, unit, binary }) {
  const box = useRef(null);
  const [width, setWidth] = useState(480);
  const [hover, setHover] = useState(null);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.max(200, entry.contentRect.width)));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const { rem, height, left, bottom, top } = sizes();
  const last = samples.at(-1);
  const end = last ? last.wall_us : Date.now() * 1000;
  const span = Math.max(end - (samples[0]?.wall_us ?? end), 120e6);
  const most = ceiling(Math.max(0, ...samples.flatMap((each) => series.map((one) => one.value(each) ?? 0))), binary);
  const x = (us) => left + (1 - (end - us) / span) * (width - left - 8);
  const y = (value) => (value === null || value === undefined ? null : top + (1 - value / most) * (height - top - bottom));
  const lines = series.map((one) => ({ ...one, points: samples.map((each) => [x(each.wall_us), y(one.value(each))]) }));
  const ticks = [0, 0.5, 1].map((share) => share * most);
  const times = [0, 0.5, 1].map((share) => end - span * (1 - share));
  const shown = hover ?? last;
  const move = (event) => {
    const at = event.clientX - box.current.getBoundingClientRect().left;
    let nearest = null;
    for (const each of samples) {
      if (!nearest || Math.abs(x(each.wall_us) - at) < Math.abs(x(nearest.wall_us) - at)) nearest = each;
    }
    setHover(nearest);
  };
  const words = series.map((one) => `${one.name} ${shown ? unit(one.value(shown)) : "–"}`);
  return html`<figure class="chart">
    <figcaption>
      <h2>${title}</h2>
      <span class="legend">${series.map((one, index) => html`<span key=${one.name}>
        <i class=${one.className} aria-hidden="true"></i>${words[index]}</span>`)}
        <span class="muted at">${hover ? clockTime(hover.wall_us) : "now"}</span></span>
    </figcaption>
    <div ref=${box} onMouseMove=${move} onMouseLeave=${() => setHover(null)}>
      <svg width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="img"
          aria-label=${`${title}: ${words.join(", ")}`}>
        ${ticks.map((tick) => html`<g key=${tick}>
          <line class="grid" x1=${left} x2=${width - 8} y1=${y(tick)} y2=${y(tick)} />
          <text class="tick" x=${left - 8} y=${y(tick) + 0.25 * rem} text-anchor="end">${unit(tick)}</text></g>`)}
        ${times.map((time, index) => (index !== 1 || width >= 26 * rem) && html`<text key=${index} class="tick" x=${x(time)} y=${height - 4}
          text-anchor=${["start", "middle", "end"][index]}>${clockTime(time)}</text>`)}
        ${lines.map((one) => html`<path key=${one.name} class=${`area ${one.className}`} d=${areaPath(one.points, y(0))} />`)}
        ${lines.map((one) => html`<path key=${one.name} class=${`line ${one.className}`} d=${linePath(one.points)} />`)}
        ${hover && html`<line class="cross" x1=${x(hover.wall_us)} x2=${x(hover.wall_us)} y1=${top} y2=${height - bottom} />`}
      </svg>
    </div>
  </figure>`;
}
