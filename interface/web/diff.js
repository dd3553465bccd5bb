// Diffs by file and line, and the diff of a call that changes a file.

import { h, Long } from "./dom.js";
import { line } from "./text.js";
import { t } from "./words.js";

const LINES = 400;

// A unified diff as [{file, lines: [[kind, old, new, text]]}]: kind is "added", "removed", "same" or "at".
export function filesOf(patch) {
	const files = [];
	let [old, now, oldLeft, nowLeft] = [0, 0, 0, 0];
	const begin = (file) => files.push({ file, lines: [] });
	for (const one of patch.split("\n")) {
		const file = files.at(-1);
		const [mark, text] = [one[0], one.slice(1)];
		if (oldLeft > 0 || nowLeft > 0) {
			if (mark === "+") file.lines.push(["added", null, now++, text]), (nowLeft -= 1);
			else if (mark === "-") file.lines.push(["removed", old++, null, text]), (oldLeft -= 1);
			else if (mark !== "\\") file.lines.push(["same", old++, now++, text]), (oldLeft -= 1), (nowLeft -= 1);
			continue;
		}
		const at = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(one);
		if (one.startsWith("diff --git ")) begin(one.slice(11).replace(/^.* b\//, ""));
		else if (one.startsWith("+++ ") && !/^\+\+\+ \/dev\/null/.test(one)) {
			if (!file || file.lines.some(([kind]) => kind !== "at")) begin("");
			files.at(-1).file = one.slice(4).replace(/^b\//, "");
		} else if (at) {
			if (!file) begin("");
			[old, oldLeft, now, nowLeft] = [at[1], at[2] ?? 1, at[3], at[4] ?? 1].map(Number);
			files.at(-1).lines.push(["at", null, null, one]);
		} else if (/^(Binary|rename)/.test(one)) file?.lines.push(["at", null, null, one]);
	}
	return files;
}

// The lines that differ between two texts, between those that are the same at both ends.
export function changeOf(before, after) {
	const [old, now] = [before, after].map((text) => (text === "" ? [] : text.split("\n")));
	let head = 0;
	while (head < old.length && head < now.length && old[head] === now[head]) head += 1;
	let tail = 0;
	while (tail < Math.min(old.length, now.length) - head && old.at(-1 - tail) === now.at(-1 - tail)) tail += 1;
	const same = (from, to) => old.slice(from, to).map((text) => ["same", null, null, text]);
	return [
		...same(0, head), ...old.slice(head, old.length - tail).map((text) => ["removed", null, null, text]),
		...now.slice(head, now.length - tail).map((text) => ["added", null, null, text]), ...same(old.length - tail),
	];
}

function numbered({ lines, file }) {
	const one = ([kind, old, now, text]) => h(`span.${kind}`, { "data-old": old ?? " ", "data-new": now ?? " ", "data-mark": { added: "+", removed: "−" }[kind] ?? " " }, text);
	const draw = (shown) => h("pre.block.diff", { role: "group", "aria-label": line(file, 200) }, shown.map(one));
	return h(Long, { part: lines.slice(0, LINES), whole: lines, label: t("more_of", { n: lines.length - LINES }), draw });
}

const count = (kind, { lines }) => lines.filter(([one]) => one === kind).length;

const changed = (one) =>
	h("details.file", { key: one.file, open: true }, h("summary", h("code", line(one.file, 200) || t("changes")), h("small", ` +${count("added", one)}/−${count("removed", one)}`)), numbered(one));

export const diff = (patch) => h("div", filesOf(patch).map(changed));

// What a call of edit or write would change; null for other calls.
export function callDiff({ tool, input }) {
	const { path, old, new: now, content, file_path: file, old_string: before, new_string: after } = input ?? {};
	const [name, from, to] = [path ?? file, old ?? before ?? (content === undefined ? undefined : ""), now ?? after ?? content];
	if (!/^(edit|write)$/i.test(tool) || [name, from, to].some((one) => typeof one !== "string")) return null;
	return changed({ file: name, lines: changeOf(from, to) });
}
