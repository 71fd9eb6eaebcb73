// Charts as SVG: a line over time for each series, and small ones without axes.

import { clockTime } from "./format.js";
import { html, useLayoutEffect, useRef, useState } from "./html.js";

const HEIGHT = 160;
const LEFT = 72;
const BOTTOM = 20;
const TOP = 8;

/** A round number that is not less than `value`: 1, 2 or 5 times a power of ten, or one of two. */
function ceiling(value, binary) {
  if (!(value > 0)) return 1;
  if (binary) return 2 ** Math.ceil(Math.log2(value));
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
  const last = samples.at(-1);
  const end = last ? last.wall_us : Date.now() * 1000;
  const span = Math.max(end - (samples[0]?.wall_us ?? end), 120e6);
  const most = ceiling(Math.max(0, ...samples.flatMap((each) => series.map((one) => one.value(each) ?? 0))), binary);
  const x = (us) => LEFT + (1 - (end - us) / span) * (width - LEFT - 8);
  const y = (value) => (value === null || value === undefined ? null : TOP + (1 - value / most) * (HEIGHT - TOP - BOTTOM));
  const lines = series.map((one) => ({ ...one, path: linePath(samples.map((each) => [x(each.wall_us), y(one.value(each))])) }));
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
      <svg width=${width} height=${HEIGHT} viewBox=${`0 0 ${width} ${HEIGHT}`} role="img"
          aria-label=${`${title}: ${words.join(", ")}`}>
        ${ticks.map((tick) => html`<g key=${tick}>
          <line class="grid" x1=${LEFT} x2=${width - 8} y1=${y(tick)} y2=${y(tick)} />
          <text class="tick" x=${LEFT - 8} y=${y(tick) + 4} text-anchor="end">${unit(tick)}</text></g>`)}
        ${times.map((time, index) => (index !== 1 || width >= 360) && html`<text key=${index} class="tick" x=${x(time)} y=${HEIGHT - 4}
          text-anchor=${["start", "middle", "end"][index]}>${clockTime(time)}</text>`)}
        ${lines.map((one) => html`<path key=${one.name} class=${`line ${one.className}`} d=${one.path} />`)}
        ${hover && html`<line class="cross" x1=${x(hover.wall_us)} x2=${x(hover.wall_us)} y1=${TOP} y2=${HEIGHT - BOTTOM} />`}
      </svg>
    </div>
  </figure>`;
}
