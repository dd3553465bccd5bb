// Tasks of a workspace as a graph: those that others need stand to the left of them. The same as a list below it.

import { at, get, post } from "./api.js";
import { doer } from "./actions.js";
import { ago, block, button, h, link, roving, s, state, swap } from "./dom.js";
import { facts } from "./drawer.js";
import { watch } from "./refresh.js";
import { oneLine } from "./text.js";
import { t } from "./words.js";

const PAGE = 200;
const BOX = { width: 168, height: 40, right: 44, below: 12 };
const OVER = new Set(["done", "failed", "cancelled"]);

/** Places of tasks: {nodes: [{task, x, y}], edges: [[from, to]], width, height}. A task is right of all that it needs. */
export function layout(tasks, box = BOX) {
  const byId = new Map(tasks.map((task) => [task.id, task]));
  const needs = (task) => task.needs.filter((id) => byId.has(id));
  const layers = new Map();
  const depth = (id, under = new Set()) => {
    if (layers.has(id)) return layers.get(id);
    if (under.has(id)) return 0; // no cycle is ever accepted; if there were one, it would not hang the page
    under.add(id);
    const found = Math.max(-1, ...needs(byId.get(id)).map((one) => depth(one, under))) + 1;
    layers.set(id, found);
    return found;
  };
  tasks.forEach(({ id }) => depth(id));
  const columns = [];
  for (const task of tasks) (columns[layers.get(task.id)] ??= []).push(task);
  const place = new Map();
  for (const column of columns) {
    // Near what it needs: by the mean of their rows, ties in the order of their ids.
    const mean = (task) => {
      const rows = needs(task).map((id) => place.get(id)?.row ?? 0);
      return rows.length ? rows.reduce((a, b) => a + b, 0) / rows.length : Infinity;
    };
    const order = column.map((task) => [mean(task), task]).sort(([a], [b]) => (a === b ? 0 : a - b));
    order.forEach(([, task], row) => place.set(task.id, { task, row, x: layers.get(task.id) * (box.width + box.right), y: row * (box.height + box.below) }));
  }
  return {
    nodes: [...place.values()],
    edges: tasks.flatMap((task) => needs(task).map((id) => [id, task.id])),
    width: columns.length * (box.width + box.right),
    height: Math.max(0, ...columns.map((column) => column.length)) * (box.height + box.below),
  };
}

/** The tasks of a space. */
export function tasksPart({ space, body, failed, keep }) {
  let chosen = null;
  let after = null;
  let following = null;
  const graph = h("div", { class: "graph", tabindex: 0, role: "region", "aria-label": t("task_graph") });
  const detail = h("div", { "aria-live": "polite" });
  const list = h("ul", { class: "rows" });
  const more = button(t("next_page"), () => ((after = following), view.again()), { hidden: true });
  const first = button(t("first_page"), () => ((after = null), view.again()), { hidden: true });
  body.append(graph, detail, list, first, more);
  const settle = roving(list, "button.name");
  let shown = [];

  const choose = (id) => {
    chosen = chosen === id ? null : id;
    render();
  };

  function draw(found) {
    shown = found.tasks;
    following = found.next;
    more.hidden = found.next === null;
    first.hidden = after === null;
    render();
  }

  function render() {
    swap(graph, [shown.map((one) => [one.id, one.state, one.needs, one.title, one.holder]), chosen], () => (shown.length ? drawing(shown) : h("p", { class: "none" }, t("no_tasks"))));
    swap(list, [shown, chosen], () => shown.map((one) => h("li", {}, button([h("span", { class: "id" }, one.id), " ", oneLine(one.title, 120)], () => choose(one.id), { class: "name quiet", "data-key": one.id, "aria-expanded": String(one.id === chosen) }), " ", state(one.state), h("small", {}, one.holder ? ` ${oneLine(one.holder, 60)}` : "", one.blocked_by.length ? ` ${t("waits_for", { ids: oneLine(one.blocked_by.join(", "), 120) })}` : ""))));
    const task = shown.find((one) => one.id === chosen);
    swap(detail, task ?? null, () => (task ? details(task) : null));
    settle();
  }

  const details = (task) => [
    h("h3", {}, oneLine(task.id, 20), " ", oneLine(task.title, 200)),
    facts([
      [t("fact_state"), state(task.state)],
      [t("fact_for"), oneLine(task.for, 60)],
      [t("fact_holder"), oneLine(task.holder, 60)],
      [t("fact_needs"), oneLine(task.needs.join(", "), 200)],
      [t("fact_instruction"), task.instruction ? link(["instruction", task.instruction], task.instruction) : null],
      [t("fact_check"), task.check ? h("code", {}, oneLine(task.check, 300)) : null],
      [t("fact_by"), [oneLine(task.creator, 60), " ", ago(task.created_at)]],
      [t("fact_why"), oneLine(task.reason, 500)],
    ]),
    task.text ? block(task.text) : null,
    task.result ? [h("h4", {}, t("result")), block(task.result)] : null,
    OVER.has(task.state)
      ? null
      : h(
          "div",
          { class: "acts" },
          doer(t("action_it_is_done"), () => post(at("spaces", space, "tasks", task.id, "done")), { name: "done", key: "done" }),
          doer(t("action_drop_it"), () => post(at("spaces", space, "tasks", task.id, "cancel")), { name: "cancel", sure: true, key: "drop" }),
        ),
  ];

  function drawing(tasks) {
    const { nodes, edges, width, height } = layout(tasks);
    const places = new Map(nodes.map((one) => [one.task.id, one]));
    const path = ([from, to]) => {
      const a = places.get(from);
      const b = places.get(to);
      const [x1, y1, x2, y2] = [a.x + BOX.width, a.y + BOX.height / 2, b.x, b.y + BOX.height / 2];
      return s("path", { class: "edge", d: `M${x1} ${y1}C${x1 + 22} ${y1} ${x2 - 22} ${y2} ${x2} ${y2}` });
    };
    const node = ({ task, x, y }) =>
      s("g", { class: task.id === chosen ? "node chosen" : "node", "data-state": task.state, transform: `translate(${x} ${y})`, onclick: () => choose(task.id) },
        s("rect", { width: BOX.width, height: BOX.height, rx: 4 }),
        s("text", { x: 8, y: 16 }, `${task.id} ${t(`state_${task.state}`) ?? task.state}`),
        s("text", { class: "name", x: 8, y: 32 }, oneLine(task.title, 24)),
      );
    // For eyes and pointers; the list below says the same to all others.
    return s("svg", { width: width + 4, height: height + 4, viewBox: `-2 -2 ${width + 4} ${height + 4}`, "aria-hidden": "true" }, edges.map(path), nodes.map(node));
  }

  const view = watch({ load: () => get(at("spaces", space, "tasks"), { limit: PAGE, after }), draw, failed, wants: (event) => event.type === "task.changed" && event.space === space });
  keep(view);
}
