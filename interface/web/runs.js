// Runs: a list, newest first, and the timeline of one run.

import { find, get, u } from "./api.js";
import { ago, button, divs, facts, h, link, none, nothing, ref, roving, s, spaceRef, state, swap } from "./dom.js";
import { watch } from "./stream.js";
import { clock, duration, usageText } from "./text.js";
import { t } from "./words.js";

const PAGE = 200;
const LANES = 60;
const WIDTH = 1000;

export function keepRuns(section) {
	let limit = PAGE;
	const strip = h("ul.strip");
	const more = button("", () => view.again((limit = Math.min(limit + PAGE, 1000))));
	section.append(h("h2", { id: "runs-title" }, t("runs")), strip, more);
	const settle = roving(strip, "a", ["ArrowRight"], ["ArrowLeft"]);
	const box = (one) => {
		const word = one.ended_at ? (one.status ?? "stopped") : "running";
		const took = one.ended_at ? duration(one.duration_seconds) : ago(one.started_at);
		return h("li", { "data-run": one.id }, link(["run", one.id], [h("b", one.id), ` ${one.run}`, h("span", state(word), " ", h("small", took))]));
	};
	const view = watch({
		load: () => get("/runs", { limit }),
		wants: /^workflow/,
		draw({ runs, total }) {
			swap(strip, runs.map((one) => [one.id, one.status, one.ended_at]), () => (runs.length ? runs.map(box) : h("li", nothing())));
			more.hidden = runs.length >= total;
			more.textContent = t("more_of", { n: total - runs.length });
			settle();
		},
	});
}

export function runView({ path: [, id], body }) {
	let lanes = LANES;
	let space = null;
	const [head, place] = divs(2);
	body.append(head, h("h3", t("timeline")), place);
	const view = {
		wants: (event) => event.space === space && /^(instruction|workflow|merge)\./.test(event.type),
		async load() {
			const report = await get(u`/runs/${id}`);
			space = report.run;
			const open = report.status === "running" ? (await get("/instructions", { space, limit: 1000 })).instructions : [];
			const said = report.messages.map((one) => one.instruction).filter(Boolean);
			const ids = [...new Set([...said, ...open.map((one) => one.id)])].sort((a, b) => a.slice(1) - b.slice(1));
			const rows = [];
			for (const one of ids.slice(-lanes)) rows.push(await find(u`/instructions/${one}`));
			return { report, rows: rows.filter(Boolean), left: ids.length - lanes };
		},
		draw({ report, rows, left }) {
			const { status, exit_code: code, verdict, usage, duration_seconds: seconds, delivery, messages } = report;
			const isOver = status !== "running";
			const counts = Object.entries(report.instructions).filter(([, count]) => count);
			swap(head, { ...report, duration_seconds: isOver && seconds, messages: messages.length }, () =>
				facts({
					state: state(status), exit_code: isOver ? `${code}` : "", verdict, space: spaceRef(space), took: isOver ? duration(seconds) : "", used: usageText(usage),
					instructions: counts.map(([word, count]) => [state(word), ` ${count} `]), 
					delivery: delivery && [state(delivery.state), ` ${delivery.into ?? ""} ${delivery.why ?? ""}`], messages: messages.length,
				}),
			);
			const more = () => view.again((lanes += LANES));
			swap(place, [left, rows.map((one) => [one.id, one.status, one.steps.length, one.attempts])], () => [rows.length ? timeline(rows) : nothing(), left > 0 ? button(t("more_of", { n: left }), more) : null]);
		},
	};
	return view;
}

// Attempts as bars and steps as ticks: {from, to, lanes: [{bars: [[x, width]], ticks: [x]}]}, x from 0 to 1.
export function lanesOf(rows, now) {
	const spans = rows.map((one) => one.attempts.map((a) => [Date.parse(a.started_at), a.ended_at ? Date.parse(a.ended_at) : now]));
	const steps = rows.map((one) => one.steps.map((step) => Date.parse(step.at)));
	const all = [spans, steps].flat(4);
	const [from, to] = all.reduce(([low, high], at) => [Math.min(low, at), Math.max(high, at)], [Infinity, -Infinity]);
	const x = (at) => (to > from ? (at - from) / (to - from) : 0);
	return { from, to, lanes: rows.map((_, row) => ({ bars: spans[row].map(([a, b]) => [x(a), x(b) - x(a)]), ticks: steps[row].map(x) })) };
}

function timeline(rows) {
	const { from, to, lanes } = lanesOf(rows, Date.now());
	const drawn = ({ bars, ticks }) =>
		s("svg", { class: "lane", viewBox: `-5 0 ${WIDTH + 10} 16`, preserveAspectRatio: "none", "aria-hidden": true },
			bars.map(([x, width]) => s("rect", { x: x * WIDTH, y: 3, width: Math.max(width * WIDTH, 2), height: 10 })),
			ticks.slice(-2000).map((x) => s("path", { d: `M${x * WIDTH} 1v14` })),
		);
	const lane = (one, row) => h("li", h("span", ref(one.id), ` ${one.agent} `, state(one.status), h("small", ` ${t("steps_n", { n: one.steps.length })}`)), drawn(lanes[row]));
	return [h("ol.timeline", rows.map(lane)), from < to ? none(clock(from), ` + ${duration((to - from) / 1000)}`) : null];
}
