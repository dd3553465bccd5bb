// Creates elements one by one, so that foreign text never becomes markup.

import { age, clock, escape, line, since } from "./text.js";
import { t } from "./words.js";

function fill(element, rest) {
	const fields = rest[0]?.constructor === Object ? rest.shift() : {};
	for (const [name, value] of Object.entries(fields)) {
		if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
		else if (value != null && value !== false) element.setAttribute(name, value === true ? "" : value);
	}
	for (const child of rest.flat(9)) {
		if (child == null || child === false) continue;
		const text = String(child);
		const cut = element.tagName !== "PRE" && text.length > 1000 ? `${text.slice(0, 1000)}…` : text;
		element.append(child instanceof Node ? child : escape(cut));
	}
	return element;
}

// h("p.none", {fields}, ...children): fields that start with `on` are listeners; strings among the children become text nodes.
export function h(tag, ...rest) {
	const [name, ...classes] = tag.split(".");
	const element = document.createElement(name);
	if (classes.length) element.className = classes.join(" ");
	return fill(element, rest);
}

export const s = (name, ...rest) => fill(document.createElementNS("http://www.w3.org/2000/svg", name), rest);

export const button = (label, onclick, fields) => h("button", { type: "button", hidden: !label, onclick, ...fields }, label);
export const dots = (...parts) => parts.filter(Boolean).join(" · ");
export const labelled = (name) => ({ "aria-label": t(name), placeholder: t(name) });
export const divs = (count) => Array.from({ length: count }, () => h("div"));
export const none = (...said) => h("p.none", said);
export const nothing = () => none(t("nothing"));
export const rows = (items) => h("ul.rows", items.map((one) => h("li", one)));
export const hashOf = (path) => `#/${path.map(encodeURIComponent).join("/")}`;

export const link = (path, label, fields) => h("a", { href: hashOf(path), "data-key": path.join("/"), ...fields }, label);

const KINDS = { i: "instruction", r: "run", m: "message", a: "approval" };

// i4, i4-2 and i4.3 belong to an instruction; null: not an id.
export function placeOfId(id) {
	const [, letter, number] = /^([irma])(\d{1,18})([-.]\d+)?$/.exec(id.trim()) ?? [];
	return letter ? [KINDS[letter], letter + number] : null;
}

export const ref = (id) => (id ? link(placeOfId(id), id, { class: "id" }) : null);
export const agentRef = (target) => link(["agent", target], target);
export const spaceRef = (space) => (space ? link(["space", space, "channel"], space) : null);

export const ago = (at) => (at ? h("time", { datetime: at, title: clock(at) }, age(since(at))) : "-");
export function tick() {
	for (const one of document.querySelectorAll("time")) {
		const text = age(since(one.dateTime));
		if (one.textContent !== text) one.textContent = text;
	}
}

export function block(text, name = "text", most = 2000, kind = "", draw = (part) => part) {
	const whole = String(text ?? "");
	const part = whole.slice(0, most).split("\n").slice(0, most / 25).join("\n");
	const shown = h(`pre.block.${kind || "plain"}`, { role: "group", "aria-label": t(name) }, draw(part));
	if (part === whole) return shown;
	const more = button(t("all_of", { n: whole.length }), () => {
		shown.replaceChildren();
		fill(shown, [draw(whole.slice(0, 2 ** 21))]);
		more.remove();
	});
	return h("div", shown, more);
}

export const diff = (text) =>
	block(text, "changes", 50_000, "diff", (part) => part.split("\n").map((one) => h(`span.${{ "+": "added", "-": "removed" }[one[0]] ?? "same"}`, one)));

const SHAPES = {
	"▶": "running leased claimed", "◷": "waiting backoff yielded", "○": "idle ready open", "‖": "paused", "■": "stopped cancelled",
	"✕": "error failed dead rejected denied timeout refused", "✓": "done resolved granted merged acked", "◐": "incomplete expired",
};

export function state(word) {
	const shape = Object.keys(SHAPES).find((one) => SHAPES[one].split(" ").includes(word)) ?? "·";
	return h("span.state", { "data-state": word }, h("span", { "aria-hidden": true }, shape), " ", t(`state_${word}`) ?? word);
}

export const facts = (given) =>
	h("dl.facts", Object.entries(given).filter(([, value]) => value != null && value !== "").map(([name, value]) => [h("dt", t(`fact_${name}`)), h("dd", value)]));

// Redraws `place` if `data` changed; keeps the focus.
export function swap(place, data, make) {
	const seen = JSON.stringify(data);
	if (place.seen === seen) return;
	place.seen = seen;
	const held = place.contains(document.activeElement) ? document.activeElement : null;
	place.replaceChildren();
	fill(place, [make()]);
	if (held?.dataset.key) place.querySelector(`[data-key="${CSS.escape(held.dataset.key)}"]`)?.focus({ preventScroll: true });
}

// Gives `list` one child per item; existing children are kept.
export function sync(list, items, keyOf, make) {
	list.made ??= new Map();
	const held = list.contains(document.activeElement) ? document.activeElement : null;
	const keys = new Set(items.map(keyOf));
	for (const [key, one] of list.made) if (!keys.has(key)) one.remove(), list.made.delete(key);
	items.forEach((item, index) => {
		const key = keyOf(item);
		if (!list.made.has(key)) list.made.set(key, make(item));
		const one = list.made.get(key);
		if (list.children[index] !== one) list.insertBefore(one, list.children[index] ?? null);
	});
	if (held !== document.activeElement) held?.focus({ preventScroll: true });
}

// Arrow keys move the focus among the elements that match `selector` in `root`; one of them is a tab stop.
export function roving(root, selector, next = ["ArrowDown", "j"], before = ["ArrowUp", "k"]) {
	const settle = () => {
		const found = [...root.querySelectorAll(selector)];
		const stop = found.find((one) => one === document.activeElement) ?? found.find((one) => one.tabIndex === 0) ?? found[0];
		for (const one of found) one.tabIndex = one === stop ? 0 : -1;
	};
	root.addEventListener("focusin", settle);
	root.addEventListener("keydown", (event) => {
		const found = [...root.querySelectorAll(selector)];
		const place = found.indexOf(document.activeElement);
		if (place < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
		const step = next.includes(event.key) ? 1 : before.includes(event.key) ? -1 : 0;
		const goal = found[event.key === "Home" ? 0 : event.key === "End" ? found.length - 1 : place + step];
		if (!goal || goal === found[place]) return;
		event.preventDefault();
		goal.focus();
	});
	return settle;
}

export function say(text, problem = null) {
	const said = problem === null ? text : problem.status === 0 ? t("no_answer") : dots(problem.message, problem.hint);
	document.getElementById("said").replaceChildren(h(problem ? "span.bad" : "span", line(said, 600)));
}
