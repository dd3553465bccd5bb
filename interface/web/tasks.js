// Tasks as a board with a column for each state, and as a list with a graph that runs from left to right along dependencies.

import { doer } from "./acts.js";
import { get, post, u } from "./api.js";
import { ago, block, button, facts, h, nothing, ref, state } from "./dom.js";
import { markdown } from "./markdown.js";
import { pager } from "./space.js";
import { line } from "./text.js";
import { t } from "./words.js";

const PAGE = 200;
const [WIDE, HIGH, ASIDE, BELOW] = [168, 40, 44, 12];
const STATES = ["open", "ready", "claimed", "done", "failed", "cancelled"];
const OVER = ["done", "failed", "cancelled"];

// Layout: {nodes: [{task, x, y}], edges: [[from, to]], width, height}. A task is to the right of all its dependencies.
export function layout(tasks) {
	const byId = new Map(tasks.map((task) => [task.id, task]));
	const needs = (task) => task.needs.filter((id) => byId.has(id));
	const layers = new Map();
	const layer = (id) => {
		if (!layers.has(id)) {
			layers.set(id, 0); // a cycle must not hang the page
			layers.set(id, Math.max(-1, ...needs(byId.get(id)).map(layer)) + 1);
		}
		return layers.get(id);
	};
	const columns = [];
	for (const task of tasks) (columns[layer(task.id)] ??= []).push(task);
	const nodes = new Map();
	columns.forEach((column, x) => {
		const mean = (task) => needs(task).reduce((sum, id) => sum + (nodes.get(id)?.y ?? 0), 0) / needs(task).length || 0;
		column.sort((a, b) => mean(a) - mean(b));
		column.forEach((task, y) => nodes.set(task.id, { task, x: x * (WIDE + ASIDE), y: y * (HIGH + BELOW) }));
	});
	return {
		nodes: [...nodes.values()],
		edges: tasks.flatMap((task) => needs(task).map((id) => [nodes.get(id), nodes.get(task.id)])),
		width: columns.length * (WIDE + ASIDE),
		height: Math.max(0, ...columns.map((column) => column.length)) * (HIGH + BELOW),
	};
}

export function tasksPart(space, again, redraw) {
	let chosen = null;
	let asBoard = false;
	const pages = pager(again);
	const choose = (id) => redraw((chosen = chosen === id ? null : id));
	const pick = (one) => button([h("span.id", one.id), ` ${line(one.title, 120)}`], () => choose(one.id), { class: "quiet", "data-key": one.id, "aria-expanded": `${one.id === chosen}` });
	const row = (one) => h("li", { key: one.id }, pick(one), " ", state(one.state), h("small", one.holder ? ` ${one.holder}` : "", one.blocked_by.length ? ` ${t("waits_for", { ids: one.blocked_by.join(", ") })}` : ""));
	const card = (one) => h("li.card", { key: one.id }, pick(one), h("small", one.holder ?? one.for ?? ""));
	const column = (word, tasks) => h("section", { key: word }, h("h3", state(word), ` ${tasks.length}`), h("ul", tasks.map(card)));
	const board = (tasks) => h("div.board", { tabindex: 0, role: "group", "aria-label": t("task_board") }, STATES.map((word) => column(word, tasks.filter((one) => one.state === word))));
	const graph = (tasks) => [h("div.graph", { tabindex: 0, role: "group", "aria-label": t("task_graph") }, drawing(tasks, chosen, choose)), h("ul.rows", tasks.map(row))];

	function details(one) {
		const end = (name, what, sure) => doer(name, () => post(u`/spaces/${space}/tasks/${one.id}/${what}`).then(() => null), { sure });
		return h("div.detail",
			h("h3", `${one.id} ${one.title}`),
			facts({
				state: state(one.state), for: one.for, holder: one.holder, needs: one.needs.join(", "), instruction: ref(one.instruction),
				check: one.check && h("code", one.check), by: [one.creator, " ", ago(one.created_at)], why: one.reason,
			}),
			one.text ? markdown(one.text) : null,
			one.result ? block(one.result, "got", 2000, "got") : null,
			OVER.includes(one.state) ? null : h("div.acts", end("it_is_done", "done"), end("drop_it", "cancel", true)),
		);
	}

	return {
		load: () => get(u`/spaces/${space}/tasks`, { limit: PAGE, after: pages.at }),
		draw({ tasks, next }) {
			const task = tasks.find((one) => one.id === chosen);
			const toggle = (name, on) => button(t(name), () => redraw((asBoard = on)), { "aria-pressed": `${asBoard === on}` });
			return [
				h("div.acts", toggle("as_graph", false), toggle("as_board", true)),
				task ? details(task) : null,
				tasks.length === 0 ? nothing() : asBoard ? board(tasks) : graph(tasks),
				pages.buttons(next),
			];
		},
	};
}

function drawing(tasks, chosen, choose) {
	const { nodes, edges, width, height } = layout(tasks);
	const edge = ([a, b]) => h("path", { d: `M${a.x + WIDE} ${a.y + 20}C${a.x + WIDE + 22} ${a.y + 20} ${b.x - 22} ${b.y + 20} ${b.x} ${b.y + 20}` });
	const node = ({ task, x, y }) =>
		h("g", { class: task.id === chosen ? "chosen" : "", "data-state": task.state, transform: `translate(${x} ${y})`, onclick: () => choose(task.id) },
			h("rect", { width: WIDE, height: HIGH, rx: 4 }),
			h("text", { x: 8, y: 16 }, `${task.id} ${t(`state_${task.state}`)}`),
			h("text", { x: 8, y: 32 }, line(task.title, 24)),
		);
	// Hidden from screen readers: the list below says the same.
	return h("svg", { width: width + 4, height: height + 4, viewBox: `-2 -2 ${width + 4} ${height + 4}`, "aria-hidden": true }, edges.map(edge), nodes.map(node));
}
