// Runs: a strip of all of them, the newest first, and of one the timeline of its steps.

import { at, get } from "./api.js";
import { ago, button, h, link, roving, s, state, swap } from "./dom.js";
import { facts } from "./drawer.js";
import { watch } from "./refresh.js";
import { clock, duration, oneLine, usageText } from "./text.js";
import { t } from "./words.js";

const PAGE = 200;
const LANES = 60; // instructions of a timeline
const AT_ONCE = 4; // requests
const WIDTH = 1000;
const ROW = 22;

/** Keeps the section of runs, and of the workflows that run now. */
export function keepRuns(section) {
  let most = PAGE;
  const strip = h("ul", { class: "strip" });
  const more = button("", () => ((most += PAGE), view.again()), { hidden: true });
  section.append(h("h2", { id: "runs-title" }, t("runs")), strip, more);
  const settle = roving(strip, "a", { sideways: true });

  function draw({ runs, total }) {
    swap(strip, runs.map(({ duration_seconds: _, ...one }) => one), () => [
      runs.length === 0 ? h("li", { class: "none" }, t("no_runs")) : null,
      runs.map((one) => {
        const label = [h("b", {}, one.id), " ", oneLine(one.run, 60)];
        const word = one.state === "running" ? "running" : (one.status ?? "stopped");
        return h("li", { "data-run": one.id, "data-state": word }, link(["run", one.id], [label, h("span", { class: "line" }, state(word), " ", h("small", {}, one.ended_at ? duration(one.duration_seconds) : ago(one.started_at)))]));
      }),
    ]);
    more.hidden = runs.length >= total;
    more.textContent = t("more_of", { n: total - runs.length });
    settle();
  }

  const view = watch({ load: () => get("/runs", { limit: Math.min(most, 1000) }), draw, wants: (event) => event.type.startsWith("workflow.") });
}

/** The drawer of #/run/r3. */
export function runView({ path, title, body, failed, keep }) {
  const id = path[1];
  let lanes = LANES;
  title.textContent = oneLine(id, 40);
  const head = h("div");
  const place = h("div");
  body.append(head, h("h3", {}, t("timeline")), place);
  let space = null;

  async function load() {
    const report = await get(at("runs", id));
    space = report.run;
    const said = report.messages.map((one) => one.instruction).filter(Boolean);
    const open = report.status === "running" ? (await get("/instructions", { space: report.run, limit: 1000 })).instructions.map((one) => one.id) : [];
    const ids = [...new Set([...said, ...open])].sort((a, b) => Number(a.slice(1)) - Number(b.slice(1)));
    const shown = ids.slice(-lanes);
    const rows = [];
    for (let from = 0; from < shown.length; from += AT_ONCE) {
      rows.push(...(await Promise.all(shown.slice(from, from + AT_ONCE).map((one) => get(at("instructions", one)).catch((problem) => (problem.status === 404 ? null : Promise.reject(problem)))))));
    }
    return { report, rows: rows.filter(Boolean), left: ids.length - shown.length };
  }

  function draw({ report, rows, left }) {
    const { messages, duration_seconds: seconds, ...rest } = report;
    swap(head, rest, () => [
      facts([
        [t("fact_state"), state(report.status)],
        [t("fact_exit_code"), report.status === "running" ? null : String(report.exit_code)],
        [t("fact_verdict"), report.verdict ? t(`verdict_${report.verdict}`) : null],
        [t("fact_space"), link(["space", report.run, "channel"], oneLine(report.run, 120))],
        [t("fact_took"), report.status === "running" ? null : duration(seconds)],
        [t("fact_used"), usageText(report.usage)],
        [t("fact_instructions"), Object.entries(report.instructions).filter(([, count]) => count).map(([word, count]) => [state(word), ` ${count} `])],
        [t("fact_branches"), Object.values(report.branches).map((one) => [h("code", {}, oneLine(one, 120)), " "])],
        [t("fact_delivery"), report.delivery ? [state(report.delivery.state), ` ${oneLine(report.delivery.into ?? "", 100)} ${oneLine(report.delivery.why ?? "", 300)}`] : null],
        [t("fact_messages"), String(messages.length)],
      ]),
    ]);
    swap(place, rows.map((one) => [one.id, one.status, one.steps.length, one.attempts]), () => [
      rows.length === 0 ? h("p", { class: "none" }, t("nothing_done")) : timeline(rows),
      left > 0 ? button(t("more_of", { n: left }), () => ((lanes += LANES), view.again())) : null,
    ]);
  }

  const view = watch({ load, draw, failed, wants: (event) => event.space === space && (event.type.startsWith("instruction.") || event.type.startsWith("workflow.") || event.type === "merge.ended") });
  keep(view);
}

/** Bars and ticks of instructions: {from, to, lanes: [{id, agent, status, bars: [[x, width]], ticks: [x]}]}, x from 0 to 1. */
export function lanesOf(rows, now) {
  const time = (text) => Date.parse(text ?? "");
  const times = rows.flatMap((one) => [...one.attempts.flatMap((a) => [time(a.started_at), a.ended_at ? time(a.ended_at) : now]), ...one.steps.map((step) => time(step.at))]).filter((one) => !Number.isNaN(one));
  const from = times.reduce((a, b) => Math.min(a, b), Infinity);
  const to = times.reduce((a, b) => Math.max(a, b), -Infinity);
  const x = (at) => (to > from ? (at - from) / (to - from) : 0);
  return {
    from,
    to,
    lanes: rows.map((one) => ({
      id: one.id,
      agent: one.agent,
      status: one.status,
      bars: one.attempts.map((a) => [x(time(a.started_at)), x(a.ended_at ? time(a.ended_at) : now) - x(time(a.started_at))]),
      ticks: one.steps.map((step) => x(time(step.at))),
    })),
  };
}

function timeline(rows) {
  const { from, to, lanes } = lanesOf(rows, Date.now());
  const wide = (share) => 4 + share * (WIDTH - 8);
  const begun = Number.isFinite(from);
  const drawn = (lane) =>
    s("svg", { class: "lane", viewBox: `0 0 ${WIDTH} ${ROW}`, preserveAspectRatio: "none", "aria-hidden": "true" },
      lane.bars.map(([x, width]) => s("rect", { class: "bar", x: wide(x), y: 5, width: Math.max(width * (WIDTH - 8), 2), height: ROW - 10 })),
      lane.ticks.slice(-2000).map((x) => s("line", { class: "tick", x1: wide(x), x2: wide(x), y1: 2, y2: ROW - 2 })),
    );
  return [
    h("ol", { class: "timeline" }, lanes.map((lane) => h("li", {}, link(["instruction", lane.id], [h("span", { class: "id" }, lane.id), " ", oneLine(lane.agent, 40)]), " ", state(lane.status), h("small", {}, ` ${t("steps_n", { n: lane.ticks.length })}`), drawn(lane)))),
    begun ? h("p", { class: "none axis" }, h("span", {}, clock(new Date(from).toISOString())), h("span", {}, duration((to - from) / 1000)), h("span", {}, clock(new Date(to).toISOString()))) : null,
  ];
}
