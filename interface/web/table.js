// The table of agents, as in `awk top`.

import { get } from "./api.js";
import { button, h, labelled, link, roving, sync } from "./dom.js";
import { watch } from "./stream.js";
import { age, line, since, size, targetOf } from "./text.js";
import { t } from "./words.js";

const PAGE = 200;
const SLOW_S = 10;
const BUSY_MS = 3000; // CPU and memory change without events

export const statusOf = ({ status }) => [status?.state, status?.task].filter(Boolean).join(": ");

function stateOf({ state, until, reason }, now) {
	const left = -since(until, now);
	return `${state}${left > 0 ? ` ${left.toFixed(0)}s` : ""}${reason ? ` (${reason})` : ""}`;
}

function tasksOf({ tasks }) {
	const words = tasks.slice(0, 3).map((one) => (one.blocked_by.length ? `${one.id} after ${one.blocked_by}` : `${one.id} ${one.state}`));
	return [...words, ...(tasks.length > 3 ? [`${tasks.length - 3} more`] : [])].join(", ");
}

const target = (row) => targetOf(row.name, row.space);

// Title, text of a cell, and the number to sort by (true: the text itself is a number).
export const COLUMNS = [
	["NAME", target],
	["STATE", stateOf],
	["AGE", (row) => age(row.age_s), (row) => row.age_s],
	["DOING", (row) => `${row.doing || "-"}${row.step_age_s >= SLOW_S ? ` ${age(row.step_age_s)}` : ""}`],
	["QUEUE", ({ queue: q }) => `${q.immediate}/${q.normal}/${q.background}`, ({ queue: q }) => q.immediate + q.normal + q.background],
	["COST$", ({ usage }) => usage.cost_usd?.toFixed(4), ({ usage }) => usage.cost_usd],
	["SILENT", (row) => age(row.silent_s), (row) => row.silent_s],
	["STEP", (row) => row.step, true],
	["STATUS", statusOf],
	["PID", (row) => row.pid, true],
	["BACKEND", (row) => row.backend],
	["MODEL", (row) => row.model],
	["RESTARTS", (row) => row.restarts, true],
	["EXIT", (row) => row.last_exit],
	["NODE", (row) => row.node],
	["CPU%", (row) => row.cpu_percent.toFixed(1), (row) => row.cpu_percent],
	["RSS", (row) => size(row.rss_bytes), (row) => row.rss_bytes],
	["TOKENS", ({ usage: one }) => `${one.input_tokens + one.cache_write_tokens}/${one.output_tokens}`, ({ usage: one }) => one.input_tokens + one.cache_write_tokens + one.output_tokens],
	["DIFF", ({ diff }) => diff && `+${diff.added}/-${diff.deleted}`, ({ diff }) => diff && diff.added + diff.deleted],
	["TASKS", tasksOf],
	["LAST", (row, now) => age(since(row.last_event_at, now)), (row) => Date.parse(row.last_event_at)],
];

export function sorted(rows, title, backwards) {
	const [, text, number] = COLUMNS.find(([name]) => name === title);
	const count = number === true ? text : number;
	const compare = count ? (a, b) => (count(b) || 0) - (count(a) || 0) : (a, b) => (text(a) < text(b) ? -1 : text(a) > text(b) ? 1 : 0);
	return [...rows].sort((a, b) => (backwards ? -1 : 1) * compare(a, b));
}

export function keepAgents(section) {
	let rows = [];
	let order = null; // the kernel's
	let most = PAGE;
	const summary = h("p.summary");
	const notice = h("p.notice");
	const filter = h("input", { type: "search", oninput: draw, ...labelled("filter") });
	const heads = COLUMNS.map(([title, , number]) => {
		const choose = () => draw((order = [title, order?.[0] === title && !order[1]]));
		return h(number ? "th.number" : "th", { scope: "col" }, button(title, choose));
	});
	const body = h("tbody");
	const more = button("", () => draw((most += PAGE)));
	const table = h("table", { "aria-labelledby": "agents-title" }, h("thead", h("tr", heads)), body);
	section.append(h("div.bar", h("h2", { id: "agents-title" }, t("agents")), summary, filter), notice, h("div.scroll", table), more);
	const settle = roving(body, "th a");

	function make(row) {
		const name = link(["agent", target(row)], "", { tabindex: -1 });
		const cells = COLUMNS.slice(1).map(([, , number]) => h(number ? "td.number" : "td"));
		const made = h("tr", { "data-agent": target(row), onclick: (event) => event.target === name || name.click() }, h("th", { scope: "row" }, name), cells);
		made.places = [name, ...cells];
		return made;
	}

	function draw() {
		const now = Date.now();
		const wanted = rows.filter((row) => target(row).includes(filter.value.trim()));
		const found = order ? sorted(wanted, ...order) : wanted;
		heads.forEach((head, place) => {
			const isDown = order?.[1] !== Boolean(COLUMNS[place][2]);
			head.ariaSort = COLUMNS[place][0] !== order?.[0] ? null : isDown ? "descending" : "ascending";
		});
		sync(body, found.slice(0, most), target, make);
		found.slice(0, most).forEach((row, index) => {
			const element = body.children[index];
			element.dataset.state = row.state;
			COLUMNS.forEach(([, text], place) => {
				const shown = line(text(row, now) ?? "", 120) || "-";
				if (element.places[place].textContent !== shown) element.places[place].textContent = shown;
			});
		});
		more.hidden = found.length <= most;
		more.textContent = t("more_of", { n: found.length - most });
		settle();
	}

	watch({
		load: () => get("/ps"),
		wants: /^(?!worker.log)/,
		every: BUSY_MS,
		draw(found) {
			rows = found.agents;
			notice.textContent = line(found.notice ?? "");
			const busy = rows.filter((row) => row.state === "running").length;
			summary.textContent = t("summary", { n: rows.length, busy, workers: rows.filter((row) => row.pid !== null).length });
			draw();
		},
	});
	setInterval(() => document.hidden || draw(), 1000);
}
