// The table of agents: the columns and the words of `awk top`, sorted and filtered as there.

import { get } from "./api.js";
import { button, h, link, roving } from "./dom.js";
import { watch } from "./refresh.js";
import { age, oneLine, secondsSince, size, targetOf } from "./text.js";
import { t } from "./words.js";

const PAGE = 200;
const BUSY_MS = 3000; // CPU and memory change without an event
const METER_MS = 60_000;
const QUIET = new Set(["delta", "worker.log", "attempt.started"]);

const statusOf = ({ status }) => (status ? [status.state, status.task].filter(Boolean).join(": ") : "");

/** The tasks that it is at, and those that wait for which others. */
export function tasksOf({ tasks }, shown = 3) {
  const words = tasks.map((one) => (one.blocked_by.length ? `${one.id} after ${one.blocked_by.join(",")}` : `${one.id} ${one.state}`));
  const left = words.length - shown;
  return [...words.slice(0, shown), ...(left > 0 ? [`${left} more`] : [])].join(", ") || "-";
}

/** Title, text of a cell, and what it is sorted by: numbers have the largest first. */
export const COLUMNS = [
  ["NAME", (row) => targetOf(row.name, row.space)],
  [
    "STATE",
    (row, now) => {
      const left = -(secondsSince(row.until, now) ?? 0);
      return row.state + (left > 0 ? ` ${left.toFixed(0)}s` : "") + (row.reason ? ` (${row.reason})` : "");
    },
  ],
  ["PID", (row) => String(row.pid ?? "-"), (row) => row.pid ?? 0],
  ["BACKEND", (row) => row.backend || "-"],
  ["MODEL", (row) => row.model || "-"],
  ["STEP", (row) => String(row.step), (row) => row.step],
  ["DOING", (row) => row.doing || "-"],
  ["STATUS", (row) => statusOf(row) || "-"],
  [
    "QUEUE",
    ({ queue }) => `${queue.immediate}/${queue.normal}/${queue.background}`,
    ({ queue }) => queue.immediate + queue.normal + queue.background,
  ],
  ["RESTARTS", (row) => String(row.restarts), (row) => row.restarts],
  ["EXIT", (row) => row.last_exit || "-"],
  ["CPU%", (row) => row.cpu_percent.toFixed(1), (row) => row.cpu_percent],
  ["RSS", (row) => size(row.rss_bytes), (row) => row.rss_bytes],
  [
    "TOKENS",
    ({ usage }) => `${usage.input_tokens + usage.cache_write_tokens}/${usage.output_tokens}`,
    ({ usage }) => usage.input_tokens + usage.cache_write_tokens + usage.output_tokens,
  ],
  ["COST$", ({ usage }) => usage.cost_usd?.toFixed(4) ?? "-", ({ usage }) => usage.cost_usd ?? 0],
  ["DIFF", ({ diff }) => (diff ? `+${diff.added}/-${diff.deleted}` : "-"), ({ diff }) => (diff ? diff.added + diff.deleted : 0)],
  ["TASKS", (row) => tasksOf(row)],
  [
    "LAST",
    (row, now) => {
      const passed = secondsSince(row.last_event_at, now);
      return passed === null ? "-" : age(passed);
    },
    (row) => Date.parse(row.last_event_at ?? "") || 0,
  ],
];

/** Rows in the order of a column; backwards where somebody asked for it twice. */
export function sorted(rows, title, backwards) {
  const [, text, number] = COLUMNS.find(([name]) => name === title);
  const compare = number
    ? (a, b) => number(b) - number(a)
    : (a, b) => (text(a) < text(b) ? -1 : text(a) > text(b) ? 1 : 0);
  return [...rows].sort((a, b) => (backwards ? -1 : 1) * compare(a, b));
}

/** Tokens and money a minute, over the last minute that was looked at. */
export class Meter {
  #seen = [];
  rates(rows, now) {
    const sum = (of) => rows.reduce((before, row) => before + of(row.usage), 0);
    const tokens = sum((one) => one.input_tokens + one.output_tokens + one.cache_read_tokens + one.cache_write_tokens);
    const usd = sum((one) => one.cost_usd ?? 0);
    const last = this.#seen.at(-1);
    if (last && (tokens < last[1] || usd < last[2])) this.#seen = [];
    this.#seen.push([now, tokens, usd]);
    while (this.#seen.length > 2 && now - this.#seen[1][0] >= METER_MS) this.#seen.shift();
    const [from, before, cost] = this.#seen[0];
    const minutes = Math.max(now - from, 1000) / 60_000;
    return [(tokens - before) / minutes, (usd - cost) / minutes];
  }
}

/** Keeps the section of agents. */
export function keepAgents(section) {
  const meter = new Meter();
  let rows = [];
  let order = ["NAME", false];
  let most = PAGE;
  const summary = h("p", { class: "summary" });
  const notice = h("p", { class: "notice", hidden: true });
  const filter = h("input", { type: "search", id: "filter", placeholder: t("filter"), "aria-label": t("filter"), oninput: () => draw() });
  const heads = COLUMNS.map(([title, , number]) => {
    const choose = button(title, () => {
      order = [title, order[0] === title && !order[1]];
      draw();
    });
    return h("th", { scope: "col", class: number ? "number" : null }, choose);
  });
  const body = h("tbody");
  const more = button("", () => ((most += PAGE), draw()), { hidden: true });
  const table = h("table", { "aria-labelledby": "agents-title" }, h("thead", {}, h("tr", {}, heads)), body);
  section.append(
    h("div", { class: "bar" }, h("h2", { id: "agents-title" }, t("agents")), summary, filter),
    notice,
    h("div", { class: "scroll" }, table),
    more,
  );
  const settle = roving(body, "th a");
  const made = new Map();

  function rowOf(target) {
    const name = link(["agent", target], "", { tabindex: -1 });
    const cells = COLUMNS.map(([, , number], place) =>
      place === 0 ? h("th", { scope: "row" }, name) : h("td", { class: number ? "number" : null }),
    );
    const row = h("tr", { "data-agent": target, onclick: (event) => event.target === name || name.click() }, cells);
    return { row, places: [name, ...cells.slice(1)], texts: [] };
  }

  function draw() {
    const now = Date.now();
    const found = sorted(rows.filter((row) => targetOf(row.name, row.space).includes(filter.value.trim())), ...order);
    const shown = found.slice(0, most);
    heads.forEach((head, place) => {
      if (COLUMNS[place][0] !== order[0]) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", order[1] !== Boolean(COLUMNS[place][2]) ? "descending" : "ascending");
    });
    const held = body.contains(document.activeElement) ? document.activeElement : null;
    const kept = new Set();
    let before = null;
    for (const one of shown) {
      const target = targetOf(one.name, one.space);
      kept.add(target);
      if (!made.has(target)) made.set(target, rowOf(target));
      const { row, places, texts } = made.get(target);
      row.dataset.state = one.state;
      COLUMNS.forEach(([, text], place) => {
        const next = oneLine(text(one, now), 120);
        if (texts[place] !== next) places[place].textContent = texts[place] = next;
      });
      const after = before ? before.nextSibling : body.firstChild;
      if (after !== row) body.insertBefore(row, after);
      before = row;
    }
    for (const [target, { row }] of made) {
      if (kept.has(target)) continue;
      row.remove();
      made.delete(target);
    }
    if (held && held !== document.activeElement) held.focus({ preventScroll: true }); // its row was moved
    more.hidden = found.length <= shown.length;
    more.textContent = t("more_of", { n: found.length - shown.length });
    settle();
  }

  watch({
    load: () => get("/ps"),
    draw: (found) => {
      rows = found.agents;
      notice.hidden = !found.notice;
      notice.textContent = oneLine(found.notice ?? "", 400);
      const [tokens, usd] = meter.rates(rows, Date.now());
      const busy = rows.filter((row) => row.state === "running").length;
      const workers = rows.filter((row) => row.pid !== null).length;
      summary.textContent = rows.length
        ? t("summary", { n: rows.length, busy, workers, tokens: tokens.toFixed(0), usd: usd.toFixed(4) })
        : t("no_agents");
      draw();
    },
    wants: (event) => !QUIET.has(event.type),
    every: BUSY_MS,
  });
  setInterval(() => document.hidden || draw(), 1000);
}
