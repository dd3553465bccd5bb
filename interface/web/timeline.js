// The timeline of a run: a lane for each agent, bars by kind, arrows for messages. It zooms by keyboard and pointer.

import { agentRef, arrows, button, Component, h, hashOf, isPlain, labelled, placeOfId } from "./dom.js";
import { clock, duration, line } from "./text.js";
import { t } from "./words.js";

const [ROW, MOST, TICKS] = [34, 4000, 5]; // MOST: bars, arrows and marks to draw
const HIGH = { attempt: 24, model: 16, tool: 16, wait: 6 };
const MARKS = { vote: "◆", merge: "⬇", task: "●", approval: "▲" };

// What is visible between two times, with x in percent of their distance: {names, bars, marks, arrows}. `to` of what runs is `now`.
export function placed({ lanes, messages }, from, to, now) {
	const known = new Set(lanes.map((one) => one.agent));
	const others = new Set(messages.flatMap((one) => [one.from, ...one.to]).filter((name) => !known.has(name)));
	const names = [...others, ...known];
	const row = new Map(names.map((name, place) => [name, place]));
	const x = (at) => (to > from ? (100 * (at - from)) / (to - from) : 0);
	const isIn = (one) => one.x >= 0 && one.x <= 100;
	const bars = lanes.flatMap(({ agent, bars: all }) =>
		all.map((one) => {
			const [a, b] = [x(Date.parse(one.at)), x(one.until ? Date.parse(one.until) : now)].map((at) => Math.min(Math.max(at, -1), 101));
			return { ...one, row: row.get(agent), x: a, width: b - a };
		}),
	);
	const marks = lanes.flatMap(({ agent, marks: all }) => all.map((one) => ({ ...one, row: row.get(agent), x: x(Date.parse(one.at)) })));
	const arrows = messages.flatMap((one) => (one.to.length ? one.to : [one.from]).map((to_) => ({ ...one, x: x(Date.parse(one.at)), row: row.get(one.from), goal: row.get(to_) })));
	return { names, bars: bars.filter((one) => one.x < 101 && one.x + one.width > -1).sort((a, b) => HIGH[b.kind] - HIGH[a.kind]), marks: marks.filter(isIn), arrows: arrows.filter(isIn) };
}

// The times to show after a key or a button: zoom by `factor` about `centre` (0 to 1), or a shift by `part` of what is shown.
export function zoomed([from, to], [least, most], factor, centre = 0.5, part = 0) {
	const length = Math.min(Math.max((to - from) * factor, 10), most - least);
	const start = from + (to - from - length) * centre + (to - from) * part;
	const at = Math.min(Math.max(start, least), most - length);
	return length >= most - least ? null : [at, at + length];
}

export const tip = h("defs", h("marker", { id: "tip", viewBox: "0 0 6 6", refX: 5, refY: 3, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto" }, h("path", { d: "M0 0L6 3L0 6z" })));

const percent = (value) => `${(1 + 0.98 * value).toFixed(3)}%`; // with a margin for what is at an end

export class Timeline extends Component {
	frame = ({ from, to, now } = this.props) => [Date.parse(from), Math.max(to ? Date.parse(to) : now, Date.parse(from) + 10)];
	zoom(factor, centre, part) {
		const all = this.frame();
		this.setState(({ window = null }) => ({ window: factor === null ? null : zoomed(window ?? all, all, factor, centre, part) }));
	}
	key(event) {
		const step = { "+": [0.5], "=": [0.5], "-": [2], 0: [null], ArrowLeft: [1, 0, -0.25], ArrowRight: [1, 0, 0.25] }[event.key];
		if (!step || !isPlain(event)) return arrows(event);
		event.preventDefault();
		this.zoom(...step);
	}
	at = ({ currentTarget: svg, clientX }) => Math.min(Math.max((clientX - svg.getBoundingClientRect().left) / svg.clientWidth, 0), 1);
	drop(event) {
		const [a, b] = [this.held, this.at(event)].sort((one, other) => one - other);
		this.held = undefined;
		if (Number.isNaN(a) || b - a < 0.02) return;
		const all = this.frame();
		const [from, to] = this.state.window ?? all;
		this.moved = true; // no click follows
		this.setState({ window: zoomed([from + a * (to - from), from + b * (to - from)], all, 1) });
	}
	render({ lanes, messages, now }, { window = null }) {
		const [from, to] = window ?? this.frame();
		const { names, bars, marks, arrows } = placed({ lanes, messages }, from, to, now);
		const height = names.length * ROW + 22;
		const y = (row) => row * ROW + ROW / 2;
		const known = new Set(lanes.map((one) => one.agent));
		const pointer = {
			onpointerdown: (event) => event.button === 0 && (this.held = this.at(event)), onpointerup: (event) => this.drop(event),
			onclickcapture: (event) => this.moved && ((this.moved = false), event.preventDefault()), ondblclick: () => this.zoom(null),
			onwheel: (event) => event.ctrlKey && (event.preventDefault(), this.zoom(event.deltaY > 0 ? 1.4 : 0.7, this.at(event))),
		};
		const zoom = (label, name, ...step) => button(label, () => this.zoom(...step), { "aria-label": t(name), title: t(name), class: "quiet" });
		return h("div",
			h("div.bar",
				h("p.legend", Object.keys(HIGH).map((kind) => [h("span", { class: `key ${kind}` }), `${t(`bar_${kind}`)} `]), h("span.key.failed"), t("state_failed"), h("b", " → "), t("fact_messages")),
				h("span.acts", zoom("+", "zoom_in", 0.5), zoom("−", "zoom_out", 2), zoom(t("all"), "all", null)),
			),
			h("div.lanes", { tabindex: 0, role: "group", ...labelled("timeline_keys"), placeholder: null, onkeydown: (event) => this.key(event) },
				h("ul.names", names.map((name) => h("li", { key: name, title: name }, known.has(name) ? agentRef(name) : line(name, 40)))),
				h("svg", { class: "timeline", height, ...pointer },
					tip, names.map((name, row) => h("line", { key: name, class: "rail", x1: "0", x2: "100%", y1: y(row), y2: y(row) })),
					bars.slice(0, MOST).map((one) => bar(one, y(one.row))),
					arrows.slice(0, MOST).map((one) => arrow(one, y)),
					marks.slice(0, MOST).map((one) => mark(one, y(one.row))),
					Array.from({ length: TICKS + 1 }, (_, tick) => label(tick, from, to, height)),
				),
			),
			h("p.none", t("shown_time", { from: clock(from), length: duration((to - from) / 1000) })),
		);
	}
}

const place = (path, name, ...shown) => h("a", { href: hashOf(path), tabindex: -1, "aria-label": name }, h("title", name), shown);

function bar({ kind, at, until, instruction, step, label: said, failed, x, width }, y) {
	const high = HIGH[kind] ?? 10;
	const took = until ? ` ${duration((Date.parse(until) - Date.parse(at)) / 1000)}` : " …";
	const name = `${t(`bar_${kind}`)} ${line(said ?? "", 120)}${took}${failed ? ` ${t("state_failed")}` : ""}`;
	const path = ["instruction", instruction, "steps", ...(step === null ? [] : [`${step}`])];
	const text = kind !== "attempt" && high > 10 && width > 6 ? h("text", { x: percent(Math.max(x, 0)), dx: 4, y: y + 4 }, line(said ?? "", Math.floor(width * 0.9))) : null;
	return place(path, name, h("rect", { class: `${kind}${failed ? " failed" : ""}`, x: percent(x), width: `${Math.max(0.98 * width, 0.25).toFixed(3)}%`, y: y - high / 2, height: high, rx: 2 }), text);
}

function arrow({ seq, from, to, text, x, row, goal }, y) {
	const name = `${from} → ${to.join(", ")}: ${line(text, 120)}`;
	const [a, b] = [y(row), y(goal) + Math.sign(row - goal) * 6];
	return place(["message", `m${seq}`], name, h("circle", { cx: percent(x), cy: a, r: 3.5 }), row === goal ? null : h("line", { class: "arrow", x1: percent(x), x2: percent(x), y1: a, y2: b, "marker-end": "url(#tip)" }));
}

function mark({ kind, id, label: said, x }, y) {
	const name = `${t(`mark_${kind}`)} ${id} ${line(said ?? "", 120)}`;
	const glyph = h("text.mark", { x: percent(x), y: y - 6 }, MARKS[kind] ?? "•");
	return placeOfId(id) ? place(placeOfId(id), name, glyph) : h("g", h("title", name), glyph);
}

const label = (tick, from, to, height) =>
	h("text", { class: tick % TICKS ? "tick" : "tick end", x: percent((100 * tick) / TICKS), y: height - 4, "text-anchor": tick === 0 ? "start" : tick === TICKS ? "end" : "middle" }, clock(from + ((to - from) * tick) / TICKS).slice(11));
