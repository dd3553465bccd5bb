// Text that others wrote, made safe to look at: bounded, and nothing hidden in it. The same characters are shown
// escaped as in the terminal (interface/cli/output.py); no text is ever markup, since nothing here makes any.

const CONTROL = "\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f";
const BIDI = "\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069";
const INVISIBLE =
  "\\u00ad\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200d\\u2028\\u2029\\u2060-\\u2065\\u206a-\\u206f\\u3164" +
  "\\ufe00-\\ufe0d\\ufeff\\uffa0\\ufff0-\\uffff\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}";
const SURROGATES = "\\ud800-\\udfff";
const UNSAFE = new RegExp(`[${CONTROL}${BIDI}${INVISIBLE}${SURROGATES}]`, "gu");

const visible = (character) => {
  const code = character.codePointAt(0);
  const hex = (digits) => code.toString(16).padStart(digits, "0");
  return code <= 0xff ? `\\x${hex(2)}` : code <= 0xffff ? `\\u${hex(4)}` : `\\U${hex(8)}`;
};

/** `text` with everything made visible that a screen might obey or hide. */
export const escape = (text) => String(text).replace(UNSAFE, visible);

/** As `escape`, on one line of at most `most` characters. */
export function oneLine(text, most = 300) {
  const whole = String(text ?? "");
  const line = escape(whole.slice(0, most * 4).replace(/[\n\t ]+/g, " ").trim());
  return line.length > most || whole.length > most * 4 ? `${line.slice(0, most - 1)}…` : line;
}

/** A time that has passed, in the largest unit that fits: 42s, 5m, 3h, 2d. */
export function age(seconds) {
  for (const [unit, length] of [["d", 86400], ["h", 3600], ["m", 60]]) {
    if (seconds >= length) return `${Math.round(seconds / length)}${unit}`;
  }
  return `${Math.round(Math.max(seconds, 0))}s`;
}

/** Seconds since the time `at` (RFC 3339); null where there is none, or it is not one. */
export function secondsSince(at, now = Date.now()) {
  const then = at ? Date.parse(at) : NaN;
  return Number.isNaN(then) ? null : (now - then) / 1000;
}

/** A duration as people say it: 0.4 s, 42 s, 5m07s, 2h03m. */
export function duration(seconds) {
  if (seconds < 60) return seconds < 10 ? `${seconds.toFixed(1)} s` : `${seconds.toFixed(0)} s`;
  const minutes = Math.floor(seconds / 60);
  const two = (number) => String(number).padStart(2, "0");
  return minutes < 60 ? `${minutes}m${two(Math.floor(seconds) % 60)}s` : `${Math.floor(minutes / 60)}h${two(minutes % 60)}m`;
}

/** Bytes as 12.3M; "-" for none. */
export function size(count) {
  if (count <= 0) return "-";
  let value = count;
  for (const unit of "BKM") {
    if (value < 1024) return unit === "B" ? `${value.toFixed(0)}B` : `${value.toFixed(1)}${unit}`;
    value /= 1024;
  }
  return `${value.toFixed(1)}G`;
}

/** Tokens and cost of a usage; a cost that is not known is not shown as nothing. */
export function usageText(usage) {
  const tokens = `${usage.input_tokens + usage.cache_write_tokens}/${usage.output_tokens}`;
  return usage.cost_usd === null || usage.cost_usd === undefined ? tokens : `${tokens} $${usage.cost_usd.toFixed(4)}`;
}

/** The time of day of `at`, of another day with its date, here. */
export function clock(at) {
  const then = new Date(at ?? NaN);
  if (Number.isNaN(then.getTime())) return "-";
  const two = (number) => String(number).padStart(2, "0");
  const time = `${two(then.getHours())}:${two(then.getMinutes())}:${two(then.getSeconds())}`;
  const day = `${then.getFullYear()}-${two(then.getMonth() + 1)}-${two(then.getDate())}`;
  return then.toDateString() === new Date().toDateString() ? time : `${day} ${time}`;
}

/** How people type an agent of a space: alice, or alice@review:main. */
export const targetOf = (name, space) => (!space || space.startsWith("dm:") ? name : `${name}@${space}`);

/** JSON of any value with its keys in order, as the kernel compares calls; null where a number would not be the same. */
export function canonical(value) {
  if (typeof value === "number") return Number.isSafeInteger(value) && !Object.is(value, -0) ? String(value) : null;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const all = (parts, open, close) => (parts.includes(null) ? null : `${open}${parts.join(",")}${close}`);
  if (Array.isArray(value)) return all(value.map(canonical), "[", "]");
  const part = (key) => {
    const inner = canonical(value[key]);
    return inner === null ? null : `${JSON.stringify(key)}:${inner}`;
  };
  return all(Object.keys(value).sort().map(part), "{", "}");
}
