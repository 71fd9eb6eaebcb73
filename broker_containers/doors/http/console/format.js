// Numbers with units, and times in the viewer's zone.

const grouped = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const SI = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
const BINARY = [[2 ** 50, "PiB"], [2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [1024, "KiB"]];

/** A whole number with separators; a dash for what is unknown. */
export const count = (value) => (value == null ? "–" : grouped.format(Math.round(value)));

/** A number in few digits: 12.3k. */
export function compact(value) {
  if (value == null) return "–";
  for (const [size, unit] of SI) {
    if (Math.abs(value) >= size) return short.format(value / size) + unit;
  }
  if (Math.abs(value) >= 100) return String(Math.round(value));
  return short.format(Math.abs(value) < 0.005 ? 0 : value);
}

export const rate = (value) => (value == null ? "–" : `${compact(value)}/s`);

export function bytes(value) {
  if (value == null) return "–";
  for (const [size, unit] of BINARY) {
    if (Math.abs(value) >= size) return `${short.format(value / size)} ${unit}`;
  }
  return `${Math.round(value)} B`;
}

export const byteRate = (value) => (value == null ? "–" : `${bytes(value)}/s`);

export const millis = (value) => (value == null ? "–" : `${short.format(value)} ms`);

export const percent = (share) => (share == null ? "–" : `${short.format(share * 100)} %`);

export function duration(seconds) {
  if (seconds == null) return "–";
  if (seconds === 0) return "0 s";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${short.format(seconds)} s`;
  const units = [[86400, "d"], [3600, "h"], [60, "min"]];
  const index = units.findIndex(([size]) => seconds >= size);
  const [size, unit] = units[index];
  const whole = Math.floor(seconds / size);
  const [next, nextUnit] = units[index + 1] ?? [1, "s"];
  const rest = Math.floor((seconds - whole * size) / next);
  return rest ? `${whole} ${unit} ${rest} ${nextUnit}` : `${whole} ${unit}`;
}

const local = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
const exact = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23",
});
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium", hourCycle: "h23" });

/** A time of the API, which is in microseconds since 1970. */
export const date = (us) => new Date(us / 1000);
export const localTime = (us) => local.format(date(us));
export const clockTime = (us) => clock.format(date(us));
/** With milliseconds, for messages that follow each other closely. */
export const exactTime = (us) => exact.format(date(us));
export const utcTime = (us) => date(us).toISOString().replace("T", " ").replace("Z", " UTC");

export function ago(us) {
  const seconds = Math.max(0, (Date.now() - us / 1000) / 1000);
  return seconds < 1 ? "now" : `${duration(Math.floor(seconds))} ago`;
}

/** Words of a name such as no_consumers. */
export const words = (name) => name.replaceAll("_", " ");

/** Bytes of the API: text, or Base64 under another name. */
export function bytesOf(record, name) {
  if (record[name] != null) return new TextEncoder().encode(record[name]);
  const encoded = record[`${name}_base64`];
  return encoded == null ? null : Uint8Array.from(atob(encoded), (each) => each.charCodeAt(0));
}

/** Offset, hexadecimal and printable columns, as hexdump -C writes them. */
export function hexDump(data, most = 4096) {
  const lines = [];
  for (let start = 0; start < Math.min(data.length, most); start += 16) {
    const part = [...data.subarray(start, Math.min(start + 16, most))];
    const hex = part.map((each) => each.toString(16).padStart(2, "0")).join(" ").padEnd(47);
    const text = part.map((each) => (each > 31 && each < 127 ? String.fromCharCode(each) : ".")).join("");
    lines.push(`${start.toString(16).padStart(6, "0")}  ${hex}  ${text}`);
  }
  if (data.length > most) lines.push(`… ${count(data.length - most)} more bytes`);
  return lines.join("\n");
}
