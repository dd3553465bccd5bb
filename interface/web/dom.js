// Makes elements with Preact. Text of others becomes text nodes, never markup.

import { Component, Fragment, h as create, render } from "./vendor/preact.js";
import { age, clock, escape, line, since } from "./text.js";
import { t } from "./words.js";

export { Component, render };

const CUT = 1000;

function child(one, most) {
	if (Array.isArray(one)) return one.map((each) => child(each, most));
	if (one == null || typeof one === "object" || typeof one === "boolean") return one;
	const text = String(one);
	return escape(text.length > most ? `${text.slice(0, most)}…` : text);
}

// h("p.none", {fields}, ...children): fields that start with `on` are listeners; strings among the children become text nodes.
export function h(tag, ...rest) {
	const fields = rest[0]?.constructor === Object ? rest.shift() : {};
	const most = tag === "pre" || tag.startsWith?.("pre.") ? Infinity : CUT;
	const children = rest.map((one) => child(one, most));
	if (typeof tag !== "string") return create(tag, fields, ...children);
	const [name, ...classes] = tag.split(".");
	return create(name, { ...fields, class: [...classes, fields.class].filter(Boolean).join(" ") || null }, ...children);
}

export const whole = (text) => create(Fragment, null, escape(text)); // not cut

export const button = (label, onclick, fields) => h("button", { type: "button", hidden: !label, onclick, ...fields }, label);
export const dots = (...parts) => parts.filter(Boolean).join(" · ");
export const labelled = (name) => ({ "aria-label": t(name), placeholder: t(name) });
export const none = (...said) => h("p.none", said);
export const nothing = (name = "nothing") => none(t(name));
export const rows = (items) => h("ul.rows", items.map((one) => h("li", one)));
export const hashOf = (path) => `#/${path.map(encodeURIComponent).join("/")}`;

export const link = (path, label, fields) => h("a", { href: hashOf(path), "data-key": path.join("/"), ...fields }, label);

const KINDS = { i: "instruction", r: "run", m: "message", a: "approval" };

// i4, i4-2 and i4.3 belong to an instruction; null: not an id.
export function placeOfId(id) {
	const [, letter, number] = /^([irma])(\d{1,18})([-.]\d+)?$/.exec(id.trim()) ?? [];
	return letter ? [KINDS[letter], letter + number] : null;
}

export const ref = (id) => (id ? link(placeOfId(id) ?? ["search", id], id, { class: "id" }) : null);
export const agentRef = (target) => link(["agent", target], target);
export const spaceRef = (space) => (space ? link(["space", space, "channel"], space) : null);

export const ago = (at) => (at ? h("time", { datetime: at, title: clock(at) }, age(since(at))) : "-");
export function tick() {
	for (const one of document.querySelectorAll("time")) {
		const text = age(since(one.dateTime));
		if (one.textContent !== text) one.firstChild.data = text; // the node is Preact's
	}
}

class Block extends Component {
	render({ text, name, most, kind, draw }, { all }) {
		const part = all ? text.slice(0, 2 ** 21) : text.slice(0, most).split("\n").slice(0, most / 25).join("\n");
		const shown = h(`pre.block.${kind || "plain"}`, { role: "group", "aria-label": t(name) }, draw(part));
		return all || part === text ? shown : h("div", shown, button(t("all_of", { n: text.length }), () => this.setState({ all: true })));
	}
}

export const block = (text, name = "text", most = 2000, kind = "", draw = (part) => part) => h(Block, { text: String(text ?? ""), name, most, kind, draw });

const SHAPES = {
	"▶": "running leased claimed", "◷": "waiting backoff yielded", "○": "idle ready open", "‖": "paused", "■": "stopped cancelled",
	"✕": "error failed dead rejected denied timeout refused", "✓": "done resolved granted merged acked", "◐": "incomplete expired",
};

export function state(word) {
	const shape = Object.keys(SHAPES).find((one) => SHAPES[one].split(" ").includes(word)) ?? "·";
	return h("span.state", { "data-state": word }, h("span", { "aria-hidden": true }, shape), " ", t(`state_${word}`) ?? word);
}

export const facts = (given) =>
	h("dl.facts", Object.entries(given).filter(([, value]) => value != null && value !== "").map(([name, value]) => [h("dt", t(`fact_${name}`)), h("dd", [value])]));

// A part of the page: an element that `render` fills.
export function mount(parent, tag, fields) {
	const place = parent.appendChild(document.createElement(tag));
	for (const [name, value] of Object.entries(fields)) place.setAttribute(name, value);
	return place;
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
	render(h(problem ? "span.bad" : "span", line(said, 600)), document.getElementById("said"));
}
