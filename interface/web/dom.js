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

// A part of something long, and a button for all of it.
export class Long extends Component {
	render({ part, whole: all, label, draw }, { isAll }) {
		const shown = draw(isAll ? all : part);
		return isAll || part.length === all.length ? shown : h("div", shown, button(label, () => this.setState({ isAll: true })));
	}
}

// A part that is loaded when it is opened, and again when `of` changes.
export class Later extends Component {
	async load() {
		this.setState({ found: await this.props.load() });
	}
	componentDidUpdate = ({ of }) => this.open && of !== this.props.of && this.load();
	render = ({ label, draw, kind }, { found }) =>
		h("details.later", { class: kind, ontoggle: (event) => (this.open = event.target.open) && this.load() }, h("summary", label), found && draw(found));
}

export function block(given, name = "text", most = 2000, kind = "plain") {
	const text = String(given ?? "");
	const part = text.slice(0, most).split("\n").slice(0, most / 25).join("\n");
	const draw = (shown) => h(`pre.block.${kind}`, { role: "group", "aria-label": t(name) }, shown);
	return h(Long, { part, whole: text.slice(0, 2 ** 21), label: t("all_of", { n: text.length }), draw });
}

const SHAPES = {
	"▶": "running leased claimed", "◷": "waiting backoff yielded", "○": "idle ready open", "‖": "paused", "■": "stopped cancelled",
	"✕": "error failed dead rejected denied timeout refused unreachable", "✓": "done resolved granted merged acked", "◐": "incomplete expired",
};

export function state(word) {
	const shape = Object.keys(SHAPES).find((one) => SHAPES[one].split(" ").includes(word)) ?? "·";
	return h("span.state", { "data-state": word }, h("span", { "aria-hidden": true }, shape), " ", t(`state_${word}`) ?? word);
}

export const facts = (given) =>
	h("dl.facts", Object.entries(given).filter(([, value]) => value != null && value !== "").map(([name, value]) => [h("dt", t(`fact_${name}`)), h("dd", [value])]));

export const isPlain = (event) => !(event.ctrlKey || event.metaKey || event.altKey);

// Keys move the focus among the links of an element, which is itself their tab stop.
export function arrows(event) {
	const links = [...event.currentTarget.querySelectorAll('a[tabindex="-1"]')];
	const at = links.indexOf(document.activeElement);
	const [next, before, last] = [(at + 1) % links.length, (at > 0 ? at : links.length) - 1, links.length - 1];
	const goal = links[{ ArrowDown: next, j: next, ArrowUp: before, k: before, Home: 0, End: last }[event.key]];
	if (!goal || !isPlain(event)) return;
	event.preventDefault();
	goal.focus();
}

export function say(text, problem = null) {
	const said = problem === null ? text : problem.status === 0 ? t("no_answer") : dots(problem.message, problem.hint);
	render(h(problem ? "span.bad" : "span", line(said, 600)), document.getElementById("said"));
}
