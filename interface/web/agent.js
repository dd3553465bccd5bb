// One agent: how it stands, what waits for it, and what it did last.

import { at, get, may, post } from "./api.js";
import { doer, keyOf, spaceOf } from "./actions.js";
import { ago, block, h, link, state, swap } from "./dom.js";
import { facts } from "./drawer.js";
import { watch } from "./refresh.js";
import { sendForm } from "./send.js";
import { clock, oneLine, targetOf, usageText } from "./text.js";
import { t } from "./words.js";

const QUEUED = 100;
const TURNS = 20;
const held = new Set(["paused", "stopped"]);

/** The drawer of #/agent/alice@review:main. */
export function agentView({ path, title, body, failed, keep }) {
  const target = path[1];
  const name = target.split("@")[0];
  let key = null;
  const head = h("div");
  const queue = h("div");
  const turns = h("div");
  body.append(head, ...(may("operate") ? [sendForm({ to: target })] : []), h("h3", {}, t("queue")), queue, h("h3", {}, t("last_turns")), turns);
  title.textContent = oneLine(target, 120);

  async function load() {
    key ??= await keyOf(target);
    const [table, waiting, history] = await Promise.all([
      get("/ps", { all: "true" }),
      get(at("agents", key, "queue"), { limit: QUEUED }),
      get(at("agents", key, "thread"), { limit: TURNS }).catch((problem) => (problem.status ? null : Promise.reject(problem))),
    ]);
    const row = table.agents.find((one) => targetOf(one.name, one.space) === key || targetOf(one.name, one.space) === target);
    return { row, waiting, history };
  }

  function draw({ row, waiting, history }) {
    swap(head, [row && { ...row, cpu_percent: 0, rss_bytes: 0 }], () => (row ? standing(row) : h("p", {}, t("not_in_table"))));
    swap(queue, waiting, () => [
      waiting.instructions.length === 0 ? h("p", { class: "none" }, t("nothing_waits")) : null,
      h("ul", { class: "rows" }, waiting.instructions.map(queued)),
      waiting.total > waiting.instructions.length ? h("p", { class: "none" }, t("more_of", { n: waiting.total - waiting.instructions.length })) : null,
    ]);
    swap(turns, history, () => (history ? history.turns.toReversed().map(turn) : null));
  }

  function standing(row) {
    const pause = held.has(row.state) ? "resume" : "pause";
    const said = row.status ? [row.status.state, row.status.task].filter(Boolean).join(": ") : "";
    return [
      facts([
        [t("fact_state"), [state(row.state), row.reason ? ` (${oneLine(row.reason, 200)})` : "", row.until ? ` ${t("until", { at: clock(row.until) })}` : ""]],
        [t("fact_doing"), oneLine(row.doing, 300)],
        [t("fact_says"), oneLine(said, 300)],
        [t("fact_model"), [oneLine(row.backend, 40), " ", oneLine(row.model, 100)]],
        [t("fact_used"), usageText(row.usage)],
        [t("fact_restarts"), row.restarts ? String(row.restarts) : null],
        [t("fact_exit"), oneLine(row.last_exit, 100)],
        [t("fact_space"), row.space ? link(["space", row.space, "channel"], oneLine(row.space, 120)) : null],
      ]),
      h(
        "div",
        { class: "acts" },
        doer(t(`action_${pause}`), () => post(at("agents", key, pause)), { name: pause, key: "pause" }),
        row.state === "error" || row.state === "backoff" ? doer(t("action_give_it_work_again"), () => post(at("agents", key, "reset")), { name: "reset", key: "reset" }) : null,
        target.includes("@") ? link(["space", spaceOf(target), "channel"], t("tab_channel")) : link(["space", `dm:${name}`, "channel"], t("tab_channel")),
      ),
    ];
  }

  const queued = (one) =>
    h(
      "li",
      {},
      link(["instruction", one.id], one.id, { class: "id" }),
      " ",
      state(one.status),
      one.waits_for ? ` (${oneLine(one.waits_for, 100)})` : "",
      h("small", {}, ` ${one.lane}, ${t("step_n", { n: one.step })} · `, ago(one.enqueued_at)),
    );

  const turn = (one) =>
    h(
      "article",
      { class: "turn" },
      h("h4", {}, link(one.id.startsWith("m") ? ["message", one.id] : ["instruction", one.id.split(".")[0]], one.id, { class: "id" }), " ", oneLine(one.sender, 80), one.to?.length ? ` → ${oneLine(one.to.join(", "), 120)}` : "", " ", h("small", {}, ago(one.at))),
      one.text ? block(one.text, {}, 600) : null,
      (one.calls ?? []).map((call) => h("p", { class: "call" }, h("b", {}, oneLine(call.tool, 80)), " ", oneLine(call.input, 200))),
    );

  keep(
    watch({
      load,
      draw,
      failed,
      wants: (event) => event.agent === name && event.type !== "delta",
      every: 5000,
    }),
  );
}
