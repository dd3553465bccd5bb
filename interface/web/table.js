// The table of agents, as in `awk top`.

import { get } from "./api.js";
import { arrows, button, h, labelled, link } from "./dom.js";
import { age, line, since, size, targetOf } from "./text.js";
import { t } from "./words.js";

const [PAGE, FEW] = [200, 8]; // rows, idle agents that are not folded
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

const MAIN = ["NAME", "STATE", "AGE", "DOING", "QUEUE", "COST$", "STATUS", "MODEL", "DIFF", "TASKS"];

export function agentsView({ again, redraw }) {
	let order = null; // the kernel's
	let most = PAGE;
	let filter = "";
	let [wide, unfolded] = [false, false];
	const change = (event) => again((filter = event.target.value.trim()));

	const head = ([title, , number]) => {
		const isDown = order?.[1] !== Boolean(number);
		const choose = () => redraw((order = [title, order?.[0] === title && !order[1]]));
		return h(number ? "th.number" : "th", { key: title, scope: "col", "aria-sort": title !== order?.[0] ? null : isDown ? "descending" : "ascending" }, button(title, choose));
	};

	function row(one, columns, now) {
		const cells = columns.map(([title, text, number]) => {
			const shown = line(text(one, now) ?? "", 120) || "-";
			if (title === "NAME") return h("th", { scope: "row" }, link(["agent", target(one)], shown, { tabindex: -1 }));
			return h(`td.${title.replace(/\W/g, "").toLowerCase()}`, { class: number ? "number" : null, title: shown.length > 24 ? shown : null }, shown);
		});
		const open = (event) => event.target.closest("a") || event.currentTarget.querySelector("a").click();
		return h("tr", { key: target(one), "data-agent": target(one), "data-state": one.state, onclick: open }, cells);
	}

	function draw(found) {
		const now = Date.now();
		const columns = COLUMNS.filter(([title]) => wide || MAIN.includes(title));
		const folded = found.idle > 0 && !unfolded && !filter;
		const wanted = found.agents.filter((one) => target(one).includes(filter) && !(folded && one.state === "idle"));
		const shown = order ? sorted(wanted, ...order) : wanted;
		const idle = folded ? found.idle + found.agents.filter((one) => one.state === "idle").length : 0;
		const busy = found.agents.filter((one) => one.state === "running").length;
		const workers = found.agents.filter((one) => one.pid !== null).length;
		return [
			h("div.bar",
				h("h2", { id: "agents-title" }, t("agents")), h("p.summary", t("summary", { n: found.agents.length + found.idle, busy, workers })),
				h("input", { type: "search", oninput: change, ...labelled("filter") }),
				button(t(wide ? "fewer_columns" : "all_columns"), () => redraw((wide = !wide)), { class: "quiet", "aria-pressed": `${wide}` }),
			),
			h("p.notice", line(found.notice ?? "")),
			found.agents.length + found.idle ? null : h("p.empty", t("empty_agents"), " ", h("code", "awk init --example hello")),
			h("div.scroll", { hidden: !shown.length, tabindex: 0, role: "group", "aria-labelledby": "agents-title", onkeydown: arrows }, h("table", h("thead", h("tr", columns.map(head))), h("tbody", shown.slice(0, most).map((one) => row(one, columns, now))))),
			button(shown.length > most ? t("more_of", { n: shown.length - most }) : "", () => redraw((most += PAGE))),
			button(idle ? t("idle_n", { n: idle }) : unfolded ? t("fold_idle") : "", () => again((unfolded = !unfolded)), { id: "idle" }),
		];
	}

	return { load: () => get("/ps", { idle: unfolded || filter ? null : FEW }), wants: /^(?!worker.log)/, every: BUSY_MS, draw };
}
