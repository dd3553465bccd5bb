// Drawers for agents, instructions, approvals and messages.

import { find, get, may, post, u } from "./api.js";
import { ago, agentRef, block, button, diff, divs, dots, facts, h, labelled, none, nothing, ref, rows, spaceRef, state, swap, sync } from "./dom.js";
import { tabs } from "./drawer.js";
import { doer, keyOf } from "./needs.js";
import { pager } from "./space.js";
import { statusOf } from "./table.js";
import { sendForm, turnParts } from "./talk.js";
import { argumentsOf, clock, duration, line, spaceOf, targetOf, usageText } from "./text.js";
import { t } from "./words.js";

const QUEUED = 100;
const PAGE = 100;
const ENDED = ["done", "incomplete", "failed", "dead", "cancelled"];

const standing = (word, why, until) => [state(word), why ? ` (${why})` : "", until ? ` ${t("until", { at: clock(until) })}` : ""];

export function agentView({ path: [, target], body }) {
	let key = null;
	const [head, queue, turns] = divs(3);
	body.append(head, may("operate") ? sendForm(target) : "", h("h3", t("queue")), queue, h("h3", t("last_turns")), turns);
	const space = target.includes("@") ? spaceOf(target) : `dm:${target}`;

	function parts(row) {
		const pause = ["paused", "stopped"].includes(row.state) ? "resume" : "pause";
		const steer = (name) => doer(name, () => post(u`/agents/${key}/${name}`));
		const { state: word, reason, until, doing, usage, restarts, last_exit: exit } = row;
		return [
			facts({ state: standing(word, reason, until), doing, says: statusOf(row), model: `${row.backend} ${row.model}`, used: usageText(usage), restarts: restarts || null, exit, space: spaceRef(space) }),
			h("div.acts", steer(pause), ["error", "backoff"].includes(word) ? steer("reset") : null),
		];
	}

	const queued = (one) => [ref(one.id), " ", standing(one.status, one.waits_for), h("small", ` ${one.lane} · `, ago(one.enqueued_at))];
	return {
		wants: (event) => event.agent === target.split("@")[0],
		every: 5000,
		async load() {
			key ??= await keyOf(target);
			return Promise.all([get("/ps", { all: "true" }), get(u`/agents/${key}/queue`, { limit: QUEUED }), find(u`/agents/${key}/thread`, { limit: 20 })]);
		},
		draw([{ agents }, waiting, history]) {
			const row = agents.find((one) => [key, target].includes(targetOf(one.name, one.space)));
			swap(head, { ...row, cpu_percent: 0, rss_bytes: 0 }, () => (row ? parts(row) : nothing()));
			const left = waiting.total - waiting.instructions.length;
			swap(queue, waiting, () => [waiting.total ? rows(waiting.instructions.map(queued)) : nothing(), left > 0 ? none(t("more_of", { n: left })) : null]);
			swap(turns, history, () => history?.turns.toReversed().map(turnParts));
		},
	};
}

// #/instruction/i4, optionally followed by /prompt, /changes or /attempts
export function instructionView({ path: [, id, part = "steps"], body }) {
	const [head, answer, place] = divs(3);
	body.append(head, answer, tabs(["instruction", id], Object.keys(PARTS), part), place);
	const shown = (PARTS[part] ?? PARTS.steps)(place, id, () => view.again());
	const view = {
		wants: (event) => event.instruction === id,
		async load() {
			const info = await get(u`/instructions/${id}`);
			return { info, rest: await shown.load(info) };
		},
		draw({ info, rest }) {
			swap(head, info, () => summary(info));
			const isAsked = info.waits_for === "person" && !ENDED.includes(info.status);
			swap(answer, isAsked, () => isAsked && answerForm(info));
			shown.draw(rest, info);
		},
	};
	return view;
}

function summary(info) {
	const { id, status, agent, space, usage, handover } = info;
	const why = dots(info.waits_for, info.cause, info.unasked);
	const retry = (name, body) => (["failed", "dead"].includes(status) ? doer(name, () => post(u`/instructions/${id}/retry`, body)) : null);
	return [
		facts({
			state: standing(status, why, info.until), agent: agentRef(targetOf(agent, space)), space: spaceRef(space), used: usageText(usage),
			approval: ref(info.approval), continues: ref(info.continues), said_in: info.message_ids.slice(0, 8).map((one) => [ref(one), " "]),
		}),
		block(info.text, "text", 1500),
		handover ? block(handover.done + "\n\n" + handover.next) : null,
		h("div.acts",
			ENDED.includes(status) ? null : doer("cancel", () => post(u`/instructions/${id}/cancel`), { sure: true }),
			retry("retry", {}),
			retry("retry_fresh", { fresh: true }),
		),
	];
}

function answerForm({ id, agent }) {
	const text = h("textarea", { name: "answer", rows: 3, ...labelled("answer") });
	const send = doer("answer", () => post(u`/instructions/${id}/answer`, { text: text.value, as: agent }), { scope: "approve" });
	return send && h("form.send", { id: "answer", onsubmit: (event) => event.preventDefault() }, text, send);
}

const PARTS = {
	steps(place, id, again) {
		const list = h("ol.steps");
		const open = h("div");
		const pages = pager(again, "earlier", "newest");
		place.append(pages.buttons[0], list, open, pages.buttons[1]);
		const path = u`/instructions/${id}/entries`;
		return {
			async load() {
				const { entries: [begun], total } = await get(path, { limit: 1 });
				if (!begun) return { entries: [], start: 0 };
				// Ids only grow and may have gaps, so this many at least follow.
				const start = begun.n - 1;
				const entries = [];
				for (let after = pages.at ?? start + Math.max(total - PAGE, 0); after !== null; ) {
					const page = await get(path, { after, limit: PAGE });
					entries.push(...page.entries);
					after = pages.at === null ? page.next : null;
				}
				return { entries: entries.slice(-PAGE), start };
			},
			draw({ entries, start }, { status }) {
				sync(list, entries, (one) => one.n, (one) => h("li", { "data-step": one.n }, entryParts(one)));
				const first = (entries[0]?.n ?? 1) - 1;
				pages.show(first > start ? Math.max(first - PAGE, start) : null);
				const last = entries.findLastIndex((one) => one.kind === "reply");
				const back = entries.slice(last + 1).filter((one) => one.kind === "tool").length;
				const calls = last < 0 || pages.at !== null || ENDED.includes(status) ? [] : entries[last].calls.slice(back);
				swap(open, [calls, last], () => [entries.length ? null : nothing(), calls.map((one) => h("p.call", h("b", one.tool), ` ${t("not_back")}: `, line(argumentsOf(one.input), 400)))]);
			},
		};
	},
	prompt: (place, id) => ({
		load: () => get(u`/instructions/${id}/prompt`),
		draw: (found) =>
			swap(place, found, () => [
				h("details", h("summary", t("prompt_parts", { n: found.parts.length })), rows(found.parts.map((one) => `${one.name}: ${one.source}, ${one.trust}, ${one.tokens}, ${one.kept}`))),
				block(found.system),
				found.messages.map((one) => [h("h3", one.role), block(one.text)]),
			]),
	}),
	changes: (place) => ({
		load: async ({ agent, space }) => (space.startsWith("dm:") ? null : find(u`/spaces/${space}/diff`, { agent, patch: 1 })),
		draw: (found) =>
			swap(place, found, () => [
				found?.worktrees.length ? null : none(t("no_tree")),
				found?.worktrees.map(({ branch, stat, patch, truncated }) => [
					h("p", h("code", branch), ` +${stat.added}/-${stat.deleted}, ${t("changed_n", stat)}`),
					patch ? diff(patch) : null,
					truncated ? none(t("cut")) : null,
				]),
			]),
	}),
	attempts: (place) => ({
		load: ({ attempts, steps }) => attempts.map((one) => ({ ...one, steps: steps.filter((step) => step.attempt === one.n) })),
		draw: (found) =>
			swap(place, found, () => [
				found.length ? null : nothing(),
				found.map((one) =>
					h("article.turn",
						h("p", h("b", t("attempt_n", one)), " ", t("steps_n", { n: one.steps.length }), " ", h("small", dots(clock(one.started_at), one.ended_at ? clock(one.ended_at) : "…", one.outcome, one.exit, one.node))),
						one.steps.flatMap((step) => step.failed).map((call) => h("p.call", h("b", call.tool), ` ${call.why}: `, line(call.text))),
						one.stderr_tail ? block(one.stderr_tail) : null,
					),
				),
			]),
	}),
};

function entryParts(one) {
	const isTool = one.kind === "tool";
	const took = one.duration_ms === null ? "" : duration(one.duration_ms / 1000);
	return [
		h("p", h("b", isTool ? one.tool : t(`entry_${one.kind}`)), " ", h("small", dots(`#${one.n}`, clock(one.at), took, one.usage && usageText(one.usage))), one.is_error ? [" ", state("failed")] : null),
		one.text ? block(one.text, "text", 4000, "said") : null,
		isTool ? block(argumentsOf(one.input), "given", 800, "given") : null,
		isTool && one.output ? block(one.output, "got", 1500, "got") : null,
	];
}

// #/approval/a3: the whole call, then the buttons. A call can be approved only after all of it was shown.
export function approvalView({ path: [, id], body }) {
	const [place, acts] = divs(2);
	const reason = h("input", { name: "reason", maxlength: 2000, ...labelled("reason") });
	acts.className = "acts";
	body.append(place, acts);
	const decide = (name) => doer(name, () => post(u`/approvals/${id}/${name}`, { reason: reason.value }), { scope: "approve" });
	return {
		load: () => get(u`/approvals/${id}`),
		wants: /^approval/,
		draw(found) {
			const isOpen = found.state === "open";
			swap(place, found, () => [
				facts({
					state: state(found.state), agent: agentRef(targetOf(found.agent, found.space)), instruction: ref(found.instruction_id), tool: h("code", found.tool),
					asked: ago(found.requested_at), expires: isOpen ? clock(found.expires_at) : null, why: line(found.reason, 2000), decided: found.decided_by && `${found.decided_by} ${found.decision_reason}`,
				}),
				// JSON with one value per line: no text can imitate a key.
				block(JSON.stringify(found.input, null, 2), "given", Infinity, "given"),
			]);
			swap(acts, isOpen, () => isOpen && may("approve") && [reason, decide("approve"), decide("deny")]);
		},
	};
}

export function messageParts(one) {
	const kept = /resource:(\w+)/.exec(one.text.slice(-120))?.[1]; // the resource that holds the whole of a long text
	const whole = async (event) => event.target.replaceWith(block((await find(u`/resources/${kept}`))?.content, "text", 2 ** 21));
	return [
		h("p", h("b", one.from), one.to.length ? ` → ${one.to.join(", ")}` : "", " ", h("small", ref(`m${one.seq}`), one.kind === "said" ? " " : ` ${one.kind} `, ref(one.instruction), " ", ago(one.at))),
		one.cleared ? none(t("cleared")) : block(one.text, "text", 2000, "said"),
		kept && button(t("all"), whole),
	];
}

export function messageView({ path: [, id], body }) {
	const receipt = (one) => [one.agent, " ", state(one.state), " ", ref(one.instruction_id)];
	return {
		load: () => get(u`/messages/${id}`),
		wants: /^instruction.(leased|ended)/,
		draw: ({ message, receipts }) => swap(body, [message, receipts], () => [facts({ space: spaceRef(message.space) }), messageParts(message), receipts.length ? h("h3", t("receipts")) : null, rows(receipts.map(receipt))]),
	};
}
