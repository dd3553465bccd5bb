// Cost and tokens over time, and who talks to whom.

import { get, u } from "./api.js";
import { agentRef, button, Component, h, hashOf, labelled, nothing } from "./dom.js";
import { line } from "./text.js";
import { tip } from "./timeline.js";
import { t } from "./words.js";

const COLORS = ["#3f86c9", "#c47a3a", "#4b9e60", "#a263b5", "#bb5a62", "#808d2c", "#2f8d8d", "#8b705f"];
const NAMES = 8;
const [WIDE, HIGH] = [640, 380];

// uPlot's columns: the times of all series, with those before and after that have no usage, and the values of each.
export function columnsOf(series, valueOf, step) {
	const used = series.flatMap((one) => one.points.map((point) => Date.parse(point.at) / 1000));
	const times = [...new Set(used.flatMap((at) => [at - step, at, at + step]))].sort((a, b) => a - b);
	const values = series.map((one) => new Map(one.points.map((point) => [Date.parse(point.at) / 1000, valueOf(point)])));
	return [times, ...values.map((found) => times.map((at) => found.get(at) ?? 0))];
}

class Chart extends Component {
	componentDidMount = () => this.componentDidUpdate();
	componentWillUnmount = () => this.plot?.destroy();
	render = ({ name }) => h("div.chart", { ref: (made) => (this.base = made), role: "group", "aria-label": name });
	componentDidUpdate() {
		const { series, valueOf, digits, step } = this.props;
		const stroke = getComputedStyle(this.base).color;
		const axis = { stroke, grid: { stroke: "#8883", width: 1 }, ticks: { stroke: "#8883", width: 1 } };
		const shown = (_, value) => (value == null ? "" : value.toFixed(digits));
		const lines = series.map((one, place) => ({ label: line(one.name, 40), stroke: COLORS[place % COLORS.length], width: 2, value: shown, points: { show: true, size: 5 } }));
		this.plot?.destroy();
		this.plot = new globalThis.uPlot({ width: this.base.clientWidth || WIDE, height: 190, series: [{}, ...lines], axes: [axis, { ...axis, size: 64 }] }, columnsOf(series, valueOf, step), this.base);
	}
}

const sum = (points, key) => points.reduce((total, one) => total + (one[key] ?? 0), 0);

export function spendingPart(run, redraw, again) {
	let by = "agent";
	return {
		load: () => get("/spending", { by, run, bucket: run ? "minute" : "hour" }),
		draw({ series, bucket, total_usd: total }) {
			const step = { minute: 60, hour: 3600 }[bucket];
			const all = [...series].sort((a, b) => sum(b.points, "cost_usd") - sum(a.points, "cost_usd"));
			const shown = all.slice(0, NAMES);
			const chart = (name, valueOf, digits) => [h("h3", t(name)), h(Chart, { series: shown, valueOf, digits, step, name: t(name) })];
			const toggle = (name) => button(t(`by_${name}`), () => again((by = name)), { "aria-pressed": `${by === name}` });
			const row = (one) => h("tr", h("th", { scope: "row" }, line(one.name, 60)), [`$${sum(one.points, "cost_usd").toFixed(4)}`, sum(one.points, "input_tokens"), sum(one.points, "output_tokens")].map((text) => h("td.number", text)));
			return h("div",
				h("div.bar", h("p.big", `$${(total ?? 0).toFixed(4)}`), h("span.acts", toggle("agent"), toggle("model"))),
				all.length ? null : nothing(),
				shown.length ? [chart("cost_usd", (one) => one.cost_usd ?? 0, 4), chart("tokens", (one) => one.input_tokens + one.output_tokens, 0)] : null,
				all.length ? h("div.scroll", h("table", h("thead", h("tr", [t(`by_${by}`), t("cost_usd"), t("tokens_in"), t("tokens_out")].map((text, place) => h(place ? "th.number" : "th", { scope: "col" }, text)))), h("tbody", all.map(row)))) : null,
			);
		},
	};
}

// #/spending/all: of the whole project
export const spendingView = ({ redraw, again }) => ({ title: t("spending"), wide: true, wants: /^instruction.ended/, ...spendingPart(null, redraw, again) });

// Where the names of a graph stand: on a circle, the most talkative first.
export function circle(nodes) {
	const sorted = [...nodes].sort((a, b) => b.messages - a.messages);
	const turn = (place) => (2 * Math.PI * place) / sorted.length - Math.PI / 2;
	return new Map(sorted.map((one, place) => [one.name, { ...one, x: WIDE / 2 + (sorted.length > 1 ? 210 * Math.cos(turn(place)) : 0), y: HIGH / 2 + (sorted.length > 1 ? 145 * Math.sin(turn(place)) : 0) }]));
}

export function graphPart(run, redraw, again) {
	const times = { since: "", up_to: "" };
	const pick = (name) => h("label", t(name), h("input", { type: "datetime-local", step: 1, ...labelled(name), value: times[name], onchange: (event) => again((times[name] = event.target.value)) }));
	const sent = (name) => (times[name] ? new Date(times[name]).getTime() : null);
	return {
		load: () => get(u`/runs/${run}/graph`, { since: sent("since"), until: sent("up_to") }),
		draw({ nodes, edges }) {
			const places = circle(nodes);
			const known = edges.filter((one) => places.has(one.from) && places.has(one.to));
			return h("div.split",
				h("div.bar", pick("since"), pick("up_to")),
				nodes.length ? h("svg", { class: "talk", viewBox: `0 0 ${WIDE} ${HIGH}`, role: "group", "aria-label": t("tab_graph") }, tip, known.map((one) => edge(one, places, edges)), [...places.values()].map(node)) : nothing(),
				h("ul.rows", [...edges].sort((a, b) => b.messages - a.messages).slice(0, 100).map((one) => h("li", agentRef(one.from), " → ", agentRef(one.to), ` ${t("messages_n", { n: one.messages })}`, one.mentions ? h("small", ` ${t("mentions_n", { n: one.mentions })}`) : null))),
			);
		},
	};
}

function edge({ from, to, messages }, places, edges) {
	const [a, b] = [places.get(from), places.get(to)];
	const most = Math.max(...edges.map((one) => one.messages));
	const [bend, length] = [0.12, Math.hypot(b.x - a.x, b.y - a.y) || 1];
	const d = `M${a.x} ${a.y}Q${(a.x + b.x) / 2 - (b.y - a.y) * bend} ${(a.y + b.y) / 2 + (b.x - a.x) * bend} ${b.x - (22 * (b.x - a.x)) / length} ${b.y - (22 * (b.y - a.y)) / length}`;
	return h("path", { class: "edge", d, "stroke-width": most > 1 ? 1 + (4 * messages) / most : 1.5, "marker-end": "url(#tip)" }, h("title", `${from} → ${to}: ${messages}`));
}

const node = ({ name, messages, x, y }) =>
	h("a", { href: hashOf(["agent", name]) },
		h("circle", { cx: x, cy: y, r: 16 }), h("text", { x, y: y + 4, "text-anchor": "middle" }, messages), h("text", { x, y: y + 30, "text-anchor": "middle" }, line(name, 24)));
