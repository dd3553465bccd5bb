// Tasks as a list and as a graph that runs from left to right along dependencies.

import { get, post, u } from "./api.js";
import { ago, block, button, facts, h, nothing, ref, roving, s, state, swap } from "./dom.js";
import { doer } from "./needs.js";
import { pager } from "./space.js";
import { line } from "./text.js";
import { t } from "./words.js";

const PAGE = 200;
const [WIDE, HIGH, ASIDE, BELOW] = [168, 40, 44, 12];
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

export function tasksPart(space, body, again) {
	let chosen = null;
	let shown = [];
	const graph = h("div.graph", { tabindex: 0, role: "group", "aria-label": t("task_graph") });
	const detail = h("div");
	const list = h("ul.rows");
	const pages = pager(again);
	body.append(graph, detail, list, ...pages.buttons);
	const settle = roving(list, "button");

	function choose(id) {
		chosen = chosen === id ? null : id;
		draw();
	}

	function draw() {
		swap(graph, [shown, chosen], () => (shown.length ? drawing() : nothing()));
		swap(list, [shown, chosen], () => shown.map(row));
		const task = shown.find((one) => one.id === chosen);
		swap(detail, task ?? null, () => task && details(task));
		settle();
	}

	const row = (one) =>
		h("li",
			button([h("span.id", one.id), ` ${line(one.title, 120)}`], () => choose(one.id), { class: "quiet", "data-key": one.id, "aria-expanded": `${one.id === chosen}` }),
			" ", state(one.state), h("small", one.holder ? ` ${one.holder}` : "", one.blocked_by.length ? ` ${t("waits_for", { ids: one.blocked_by.join(", ") })}` : ""),
		);

	function details(one) {
		const end = (name, what, sure) => doer(name, () => post(u`/spaces/${space}/tasks/${one.id}/${what}`), { sure });
		return [
			h("h3", `${one.id} ${one.title}`),
			facts({
				state: state(one.state), for: one.for, holder: one.holder, needs: one.needs.join(", "), instruction: ref(one.instruction),
				check: one.check && h("code", one.check), by: [one.creator, " ", ago(one.created_at)], why: one.reason,
			}),
			one.text ? block(one.text) : null,
			one.result ? block(one.result, "got", 2000, "got") : null,
			OVER.includes(one.state) ? null : h("div.acts", end("it_is_done", "done"), end("drop_it", "cancel", true)),
		];
	}

	function drawing() {
		const { nodes, edges, width, height } = layout(shown);
		const edge = ([a, b]) => s("path", { d: `M${a.x + WIDE} ${a.y + 20}C${a.x + WIDE + 22} ${a.y + 20} ${b.x - 22} ${b.y + 20} ${b.x} ${b.y + 20}` });
		const node = ({ task, x, y }) =>
			s("g", { class: task.id === chosen ? "chosen" : "", "data-state": task.state, transform: `translate(${x} ${y})`, onclick: () => choose(task.id) },
				s("rect", { width: WIDE, height: HIGH, rx: 4 }),
				s("text", { x: 8, y: 16 }, `${task.id} ${t(`state_${task.state}`)}`),
				s("text", { x: 8, y: 32 }, line(task.title, 24)),
			);
		// Hidden from screen readers: the list below says the same.
		return s("svg", { width: width + 4, height: height + 4, viewBox: `-2 -2 ${width + 4} ${height + 4}`, "aria-hidden": true }, edges.map(edge), nodes.map(node));
	}

	return {
		load: () => get(u`/spaces/${space}/tasks`, { limit: PAGE, after: pages.at }),
		draw({ tasks, next }) {
			shown = tasks;
			pages.show(next);
			draw();
		},
	};
}
