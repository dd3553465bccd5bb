// Makes foreign text safe to display: escapes the same characters as the terminal (cli/output.py).

const UNSAFE = new RegExp(
	"[\\0-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069" +
		"\\xad\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200d\\u2028\\u2029\\u2060-\\u2065\\u206a-\\u206f\\u3164" +
		"\\ufe00-\\ufe0d\\ufeff\\uffa0\\ufff0-\\uffff\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}\\ud800-\\udfff]",
	"gu",
);

export const escape = (text) =>
	String(text).replace(UNSAFE, (character) => {
		const code = character.codePointAt(0);
		const [mark, digits] = code < 256 ? ["x", 2] : code < 65536 ? ["u", 4] : ["U", 8];
		return `\\${mark}${code.toString(16).padStart(digits, "0")}`;
	});

export function line(text, most = 300) {
	const whole = String(text ?? "").slice(0, 4 * most + 1);
	const shown = escape(whole.replace(/[\n\t ]+/g, " ").trim());
	return shown.length > most || whole.length > 4 * most ? `${shown.slice(0, most - 1)}…` : shown;
}

export const since = (at, now = Date.now()) => (now - Date.parse(at ?? "")) / 1000;

// 42s, 5m, 3h, 2d; "-" for null.
export function age(seconds) {
	if (seconds == null || Number.isNaN(seconds)) return "-";
	const [unit, length] = [["d", 86400], ["h", 3600], ["m", 60]].find(([, one]) => seconds >= one) ?? ["s", 1];
	return Math.round(Math.max(seconds, 0) / length) + unit;
}

export const duration = (seconds) => (seconds < 60 ? `${seconds.toFixed(1)}s` : age(seconds));

export function size(bytes) {
	const power = Math.min(Math.floor(Math.log2(bytes) / 10), 3);
	return bytes <= 0 ? "-" : (bytes / 1024 ** power).toFixed(power ? 1 : 0) + "BKMG"[power];
}

export const usageText = (one) =>
	`${one.input_tokens + one.cache_write_tokens}/${one.output_tokens}${one.cost_usd == null ? "" : ` $${one.cost_usd.toFixed(4)}`}`;

export const clock = (at) => (at ? new Date(at).toLocaleString("sv") : "-");

// alice, or alice@review:main.
export const targetOf = (name, space) => (!space || space.startsWith("dm:") ? name : `${name}@${space}`);

// The space of a target: @review is review:main, x@review~y is review:main~y.
export function spaceOf(target) {
	const [place, below] = target.slice(target.indexOf("@") + 1).split("~");
	return `${place.includes(":") ? place : `${place}:main`}${below ? `~${below}` : ""}`;
}

// The target of a space: review:main is @review, dm:alice is alice.
export const targetOfSpace = (space) => (space.startsWith("dm:") ? space.slice(3) : `@${space.replace(/:main(?=$|~)/, "")}`);

export const argumentsOf = (given) =>
	Object.entries(given ?? {})
		.map(([name, value]) => {
			const text = (typeof value === "string" ? value : JSON.stringify(value)).trimEnd();
			return `${line(name)}:${text.includes("\n") ? "\n  " : " "}${text.replaceAll("\n", "\n  ")}`;
		})
		.join("\n");
