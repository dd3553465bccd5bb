// Runs: a list, newest first, and the page of one run.

import { doer } from "./acts.js";
import { find, get, post, u } from "./api.js";
import { ago, arrows, button, facts, h, link, none, nothing, ref, rows, spaceRef, state } from "./dom.js";
import { diff } from "./diff.js";
import { tabs } from "./drawer.js";
import { graphPart, spendingPart } from "./spending.js";
import { duration, line, usageText } from "./text.js";
import { Timeline } from "./timeline.js";
import { t } from "./words.js";

const PAGE = 50;

export function runsView({ again }) {
	let limit = PAGE;
	const box = (one) => {
		const word = one.ended_at ? (one.status ?? "stopped") : "running";
		const took = one.ended_at ? duration(one.duration_seconds) : ago(one.started_at);
		const cost = one.cost_usd === null ? null : ` · $${one.cost_usd.toFixed(4)}`;
		const shown = [h("b", one.id), h("span.name", ` ${one.run} `), state(word), h("small", took, cost)];
		return h("li", { key: one.id, "data-run": one.id }, link(["run", one.id], shown, { tabindex: -1 }));
	};
	const more = () => again((limit = Math.min(limit + 4 * PAGE, 1000)));
	return {
		load: () => get("/runs", { limit }),
		wants: /^workflow/,
		draw: ({ runs, total }) => [
			h("h2", { id: "runs-title" }, t("runs")),
			runs.length ? h("ul.runs", { tabindex: 0, "aria-labelledby": "runs-title", onkeydown: arrows }, runs.map(box)) : h("p.empty", t("empty_runs"), " ", h("code", "awk run NAME")),
			button(runs.length < total ? t("more_of", { n: total - runs.length }) : "", more),
		],
	};
}

// #/run/r3, optionally followed by /graph, /spending or /changes
export function runView({ path: [, id, part = "timeline"], again, redraw }) {
	let space = null;
	const made = (PARTS[part] ?? PARTS.timeline)(id, redraw, again);
	const view = {
		wide: true,
		tabs: tabs(["run", id], Object.keys(PARTS), part),
		wants: (event) => (space === null || event.space === space) && /^(instruction|workflow|merge|message|approval|task)/.test(event.type),
		load: async () => {
			const found = await made.load();
			space = found.space ?? space;
			if (space) view.title = line(`${id} ${space}`, 120);
			return found;
		},
		draw: made.draw,
	};
	return view;
}

const PARTS = {
	timeline: (id) => ({
		load: () => get(u`/runs/${id}/timeline`),
		draw: ({ report, why: reason, space, lanes, messages, from, to, left_out: left }, why = reason ?? endOf(report, messages)) => [
			why ? h("p", { class: report.status === "running" ? "notice" : "bad" }, line(why, 1000)) : null,
			summary(report, space),
			h("h3", t("tab_timeline")),
			lanes.length + messages.length ? h(Timeline, { lanes, messages, from, to, now: Date.now() }) : nothing(),
			left.bars + left.messages ? none(t("left_out", left)) : null,
			messages.length ? h("h3", t("fact_messages")) : null,
			rows(messages.slice(-PAGE).toReversed().map((one) => [ref(`m${one.seq}`), " ", h("b", one.from), one.to.length ? ` → ${one.to.join(", ")}` : "", h("small", " ", ago(one.at), " "), line(one.text, 120)])),
		],
	}),
	graph: graphPart,
	spending: spendingPart,
	changes: (id, _redraw, _again, asked = {}) => ({
		load: async () => {
			const report = await get(u`/runs/${id}`);
			const [found, merge] = await Promise.all([find(u`/spaces/${report.run}/diff`, { run: report.id, patch: 1 }), report.status === "running" && !asked.merge ? null : find(u`/runs/${id}/merge`)]);
			return { trees: found?.worktrees ?? [], merge: merge ?? report.delivery, space: report.run };
		},
		draw: ({ trees, merge }) => [
			merge ? mergeFacts(merge) : null,
			trees.length && merge?.state !== "merged" ? h("div.acts", doer("merge", () => post(u`/runs/${id}/merge`).then((made) => void (asked.merge = made)), { scope: "approve", sure: true })) : null,
			trees.length ? null : nothing("no_changes"),
			trees.map(worktree),
		],
	}),
};

// The system's last word on a run that did not succeed.
const endOf = ({ status }, messages) => (["running", "done"].includes(status) ? null : messages.findLast((one) => one.from === "system")?.text);

function summary({ status, exit_code: code, verdict, usage, duration_seconds: seconds, delivery, instructions, failed_calls: failed }, space) {
	const isOver = status !== "running";
	const counts = Object.entries(instructions).filter(([, count]) => count);
	const calls = Object.entries(failed ?? {});
	return facts({
		state: state(status), exit_code: isOver ? `${code}` : "", verdict, space: spaceRef(space), took: isOver ? duration(seconds) : "", used: usageText(usage),
		instructions: counts.length ? counts.map(([word, count]) => [state(word), ` ${count} `]) : null, failed_calls: calls.length ? h("span.bad", calls.map(([name, count]) => `${name} ×${count} `)) : null,
		delivery: delivery && [state(delivery.state), ` ${delivery.into ?? ""} ${delivery.why ?? ""}`],
	});
}

const mergeFacts = ({ id, state: word, into, why, commit, files, output }) => [
	h("h3", t("merge"), " ", id),
	facts({ state: state(word), into, why, commit: commit && h("code", commit), files: files.length ? files.slice(0, 50).join(", ") : null }),
	output ? h("pre.block.got", line(output, 4000)) : null,
];

export const worktree = ({ agent, branch, state: word, stat, patch, truncated }) => [
	h("h3", word === "merged" ? `${t("merged_by")} ` : "", agent, " ", h("code", branch)),
	h("p", `+${stat.added}/-${stat.deleted}`, word === "merged" ? "" : `, ${t("changed_n", stat)}`),
	patch ? diff(patch) : null,
	truncated ? none(t("cut")) : null,
];
