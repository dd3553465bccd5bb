// One instruction: what was done (steps), what the model is told (prompt), what it changed, its attempts.

import { at, get, post } from "./api.js";
import { doer } from "./actions.js";
import { block, button, diff, h, link, state, swap } from "./dom.js";
import { facts, tabs } from "./drawer.js";
import { watch } from "./refresh.js";
import { clock, duration, escape, oneLine, targetOf, usageText } from "./text.js";
import { t } from "./words.js";

const PAGE = 100; // entries that are shown at once
const ENDED = new Set(["done", "incomplete", "failed", "dead", "cancelled"]);
const LIVE_CHARACTERS = 4000;

/** The drawer of #/instruction/i4, with /prompt, /changes or /attempts behind it. */
export function instructionView({ path, title, body, failed, keep }) {
  const [, id, part = "steps"] = path;
  const head = h("div");
  const answer = h("div");
  const place = h("div");
  body.append(head, answer, tabs(["instruction", id], ["steps", "prompt", "changes", "attempts"], part), place);
  title.textContent = oneLine(id, 40);
  const show = { steps: stepsPart, prompt: promptPart, changes: changesPart, attempts: attemptsPart }[part] ?? stepsPart;
  const parted = show(id, place);

  async function load() {
    const info = await get(at("instructions", id));
    return { info, rest: await parted.load(info) };
  }

  function draw({ info, rest }) {
    swap(head, info, () => standing(info));
    const asked = info.waits_for === "person" && !ENDED.has(info.status);
    if (answer.dataset.asked !== String(asked)) {
      answer.dataset.asked = asked;
      answer.replaceChildren(...(asked ? [answerForm(info)].filter(Boolean) : []));
    }
    parted.draw(rest, info);
  }

  const mine = (event) => event.instruction === id;
  keep(
    watch({
      load,
      draw,
      failed,
      wants: (event) => mine(event) && event.type !== "delta" && event.type !== "progress",
      live: (events) => parted.live?.(events.filter((event) => mine(event) && event.type === "delta")),
    }),
  );
}

function standing(info) {
  const failedForGood = ["failed", "dead"].includes(info.status);
  const why = [info.waits_for, info.cause, info.unasked].filter(Boolean).map((one) => oneLine(one, 200)).join(", ");
  return [
    facts([
      [t("fact_state"), [state(info.status), why ? ` (${why})` : "", info.until ? ` ${t("until", { at: clock(info.until) })}` : ""]],
      [t("fact_agent"), link(["agent", targetOf(info.agent, info.space)], oneLine(targetOf(info.agent, info.space), 120))],
      [t("fact_space"), link(["space", info.space, "channel"], oneLine(info.space, 120))],
      [t("fact_used"), usageText(info.usage)],
      [t("fact_approval"), info.approval ? link(["approval", info.approval], info.approval) : null],
      [t("fact_continues"), info.continues ? link(["instruction", info.continues], info.continues) : null],
      [t("fact_said_in"), info.message_ids.length ? info.message_ids.slice(0, 8).map((one) => [link(["message", one], one), " "]) : null],
    ]),
    block(info.text, { "aria-label": t("text") }, 1500),
    info.handover ? h("details", {}, h("summary", {}, t("handover")), block([info.handover.done, info.handover.next, ...info.handover.open].join("\n\n"))) : null,
    h(
      "div",
      { class: "acts" },
      ENDED.has(info.status) ? null : doer(t("action_cancel"), () => post(at("instructions", info.id, "cancel")), { sure: true, name: "cancel", key: "cancel" }),
      failedForGood ? doer(t("action_try_it_again"), () => post(at("instructions", info.id, "retry")), { name: "retry", key: "retry" }) : null,
      failedForGood ? doer(t("action_retry_fresh"), () => post(at("instructions", info.id, "retry"), { fresh: true }), { name: "retry-fresh", key: "fresh" }) : null,
    ),
  ];
}

function answerForm(info) {
  const text = h("textarea", { name: "answer", rows: 3, required: true, "aria-label": t("answer"), placeholder: t("answer") });
  const send = doer(t("answer_it"), async () => {
    if (!text.value.trim()) return text.focus();
    await post(at("instructions", info.id, "answer"), { text: text.value, as: info.agent });
    text.value = "";
  }, { scope: "approve", name: "answer" });
  return send && h("form", { class: "send", id: "answer", onsubmit: (event) => event.preventDefault() }, text, send);
}

function stepsPart(id, place) {
  let before = null; // the entry before which the shown page ends; null: the newest
  const earlier = button("", () => ((before = first), refresh()), { hidden: true });
  const newest = button(t("newest"), () => ((before = null), refresh()), { hidden: true });
  const list = h("ol", { class: "steps" });
  const open = h("div");
  const live = h("pre", { class: "block live", hidden: true, "aria-label": t("live_text"), role: "region", tabindex: 0 });
  place.append(earlier, list, open, live, newest);
  const made = new Map();
  let first = 0;
  let shown = null;

  async function load() {
    const begun = await get(at("instructions", id, "entries"), { limit: 1 });
    if (begun.entries.length === 0) return { entries: [], total: 0, after: 0 };
    // Numbers only grow, and may leave some out: at least so many are above this.
    const start = begun.entries[0].n - 1;
    const after = before === null ? start + Math.max(begun.total - PAGE, 0) : Math.max(before - 1 - PAGE, start);
    const entries = [];
    for (let from = after; entries.length < 10 * PAGE; ) {
      const page = await get(at("instructions", id, "entries"), { after: from, limit: PAGE });
      entries.push(...page.entries.filter((one) => before === null || one.n < before));
      if (page.next === null || (before !== null && page.entries.at(-1)?.n >= before)) break;
      from = page.next;
    }
    return { entries: entries.slice(-PAGE), total: begun.total, start };
  }

  function draw({ entries, total, start }, info) {
    const kept = new Set(entries.map((one) => one.n));
    for (const [n, element] of made) if (!kept.has(n)) element.remove(), made.delete(n);
    entries.forEach((entry, index) => {
      if (!made.has(entry.n)) made.set(entry.n, h("li", { "data-step": entry.n }, entryParts(entry)));
      if (list.children[index] !== made.get(entry.n)) list.insertBefore(made.get(entry.n), list.children[index] ?? null);
    });
    first = entries[0]?.n ?? 0;
    earlier.hidden = !entries.length || first - 1 <= start;
    earlier.textContent = t("earlier");
    newest.hidden = before === null;
    const last = entries.findLastIndex((one) => one.kind === "reply");
    const back = entries.slice(last + 1).filter((one) => one.kind === "tool").length;
    const calls = last < 0 || before !== null || ENDED.has(info.status) ? [] : entries[last].calls.slice(back);
    swap(open, [calls, total], () => [
      total === 0 ? h("p", { class: "none" }, t("nothing_done")) : null,
      ...calls.map((call) => h("p", { class: "call" }, h("b", {}, oneLine(call.tool, 80)), " ", t("not_back"), block(argumentsOf(call.input), {}, 800))),
    ]);
    if (shown !== total) live.hidden = true; // the piece that came is an entry now
    if (shown !== total) live.textContent = "";
    shown = total;
  }

  let refresh = () => {};
  return {
    load: () => load(),
    draw: (data, info) => {
      refresh = async () => draw(await load(), info);
      draw(data, info);
    },
    live: (events) => {
      if (before !== null || events.length === 0) return;
      live.hidden = false;
      live.textContent = (live.textContent + events.map((event) => escape(event.text ?? "")).join("")).slice(-LIVE_CHARACTERS);
    },
  };
}

/** The arguments of a call, one a line; a text of several lines under its name. */
export function argumentsOf(given) {
  return Object.entries(given ?? {})
    .map(([name, value]) => {
      const text = typeof value === "string" ? value : JSON.stringify(value);
      return text.trimEnd().includes("\n") ? `${oneLine(name)}:\n  ${text.trimEnd().replaceAll("\n", "\n  ")}` : `${oneLine(name)}: ${text}`;
    })
    .join("\n");
}

function entryParts(entry) {
  const what = entry.kind === "tool" ? oneLine(entry.tool ?? "?", 80) : t(`entry_${entry.kind}`) ?? oneLine(entry.kind, 20);
  const took = entry.duration_ms === null ? "" : duration(entry.duration_ms / 1000);
  return [
    h("p", { class: "head" }, h("b", {}, what), " ", h("small", {}, [`#${entry.n}`, clock(entry.at), took, entry.usage ? usageText(entry.usage) : ""].filter(Boolean).join(" · ")), entry.is_error ? [" ", state("failed")] : null),
    entry.text ? block(entry.text, { class: "block said" }) : null,
    entry.kind === "tool" ? block(argumentsOf(entry.input), { class: "block given", "aria-label": t("given") }, 800) : null,
    entry.kind === "tool" && entry.output ? block(entry.output, { class: "block got", "aria-label": t("got") }, 1500) : null,
  ];
}

function promptPart(id, place) {
  const draw = (found) =>
    swap(place, found, () => [
      h("p", { class: "none" }, found.frozen ? t("prompt_frozen") : t("prompt_would_be")),
      found.parts.length
        ? h(
            "table",
            { class: "plain" },
            h("thead", {}, h("tr", {}, ["part", "source", "trust", "tokens", "kept"].map((name) => h("th", { scope: "col" }, t(`prompt_${name}`))))),
            h("tbody", {}, found.parts.map((one) => h("tr", {}, [one.name, one.source, one.trust, String(one.tokens), one.kept].map((cell) => h("td", {}, oneLine(cell, 120)))))),
          )
        : null,
      h("h3", {}, t("prompt_system")),
      block(found.system),
      found.messages.map((one) => [h("h3", {}, oneLine(one.role, 20)), block(one.text)]),
    ]);
  return { load: () => get(at("instructions", id, "prompt")), draw };
}

function changesPart(_id, place) {
  return {
    load: async ({ agent, space }) => {
      if (space.startsWith("dm:")) return { worktrees: [] };
      try {
        return await get(at("spaces", space, "diff"), { agent, patch: 1 });
      } catch (problem) {
        if (problem.status === 404) return { worktrees: [] };
        throw problem;
      }
    },
    draw: (found) =>
      swap(place, found, () => [
        found.worktrees.length === 0 ? h("p", { class: "none" }, t("no_tree")) : null,
        found.worktrees.map((tree) => [
          h("p", {}, h("code", {}, oneLine(tree.branch, 200)), ` +${tree.stat.added}/-${tree.stat.deleted}, ${t("files_n", { n: tree.stat.files })}, ${t("commits_n", { n: tree.stat.commits })}`),
          tree.patch ? diff(tree.patch) : null,
          tree.truncated ? h("p", { class: "none" }, t("cut")) : null,
        ]),
      ]),
  };
}

function attemptsPart(_id, place) {
  const row = (one, steps) =>
    h(
      "li",
      {},
      h("p", { class: "head" }, h("b", {}, t("attempt_n", { n: one.n })), " ", h("small", {}, [clock(one.started_at), one.ended_at ? clock(one.ended_at) : t("runs_now"), one.outcome, one.exit].filter(Boolean).map((part) => oneLine(part, 100)).join(" · ")), ` ${t("steps_n", { n: steps.length })}`),
      steps.flatMap((step) => step.failed).map((call) => h("p", { class: "call" }, h("b", {}, oneLine(call.tool, 80)), ` ${oneLine(call.why, 20)}: ${oneLine(call.text, 300)}`)),
      one.stderr_tail ? block(one.stderr_tail) : null,
    );
  return {
    load: (info) => ({ attempts: info.attempts, steps: info.steps }),
    draw: (found) =>
      swap(place, found, () => [
        found.attempts.length === 0 ? h("p", { class: "none" }, t("not_begun")) : null,
        h("ol", { class: "steps" }, found.attempts.map((one) => row(one, found.steps.filter((step) => step.attempt === one.n)))),
      ]),
  };
}
