// Drawers for agents, instructions, approvals and messages.

import { doer, form, sendForm } from "./acts.js";
import { find, get, may, post, u } from "./api.js";
import { ago, agentRef, block, button, Component, dots, facts, h, labelled, Later, none, nothing, ref, rows, spaceRef, state } from "./dom.js";
import { callDiff } from "./diff.js";
import { tabs } from "./drawer.js";
import { markdown } from "./markdown.js";
import { worktree } from "./runs.js";
import { pager } from "./space.js";
import { live } from "./stream.js";
import { statusOf } from "./table.js";
import { argumentsOf, clock, duration, line, spaceOf, targetOf, usageText } from "./text.js";
import { t } from "./words.js";

const [PAGE, BEFORE] = [100, 5]; // rows, steps before the one that the address names
const ENDED = ["done", "incomplete", "failed", "dead", "cancelled"];

const standing = (word, why, until) => [state(word), why ? ` (${why})` : "", until ? ` ${t("until", { at: clock(until) })}` : ""];
const writes = (id) => (live.get(id) ? [h("p.none", t("writes")), block(live.get(id).slice(-4000), "text", 4000, "said live")] : null);

const turn = (one) =>
	h("article.turn",
		h("p", ref(one.id.split(".")[0]), " ", h("b", one.sender), " ", h("small", one.space, " ", ago(one.at))),
		h("p", line(one.text, 500)),
		(one.calls ?? []).slice(0, 5).map((call) => h("p.call", h("b", call.tool), " ", line(`${call.input} ${call.output ?? ""}`))),
	);

export function agentView({ path: [, target] }) {
	const space = target.includes("@") ? spaceOf(target) : `dm:${target}`;

	function parts(row) {
		const pause = ["paused", "stopped"].includes(row.state) ? "resume" : "pause";
		const steer = (name) => doer(name, () => post(u`/agents/${target}/${name}`).then(() => null));
		const { state: word, reason, until, doing, usage, restarts, last_exit: exit } = row;
		return [
			facts({ state: standing(word, reason, until), doing, says: statusOf(row), model: `${row.backend} ${row.model}`, used: usageText(usage), restarts: restarts || null, exit, space: spaceRef(space) }),
			h("div.acts", steer(pause), ["error", "backoff"].includes(word) ? steer("reset") : null),
		];
	}

	const queued = (one) => [ref(one.id), " ", standing(one.status, one.waits_for), h("small", ` ${one.lane} · `, ago(one.enqueued_at)), writes(one.id)];
	return {
		wants: (event) => event.agent === target.split("@")[0],
		every: 5000,
		load: () => get("/ps", { agent: target }),
		draw({ agents: [row], queue: waiting }) {
			const left = waiting.total - waiting.instructions.length;
			return [
				row ? parts(row) : nothing(),
				may("operate") ? sendForm(target) : null,
				h("h3", t("queue")), waiting.total ? rows(waiting.instructions.map(queued)) : nothing(), left > 0 ? none(t("more_of", { n: left })) : null,
				h(Later, { label: t("last_turns"), of: row?.last_event_at, load: () => get(u`/agents/${target}/thread`, { limit: 20 }), draw: ({ turns }) => turns.toReversed().map(turn) }),
			];
		},
	};
}

// #/instruction/i4, optionally followed by /prompt, /changes or /attempts, or by /steps and the number of a step
export function instructionView({ path: [, id, part = "steps", step], again }) {
	const shown = (PARTS[part] ?? PARTS.steps)(id, again, step === undefined ? null : Number(step) || 0);
	return {
		wants: (event) => event.instruction === id,
		written: id,
		load: shown.load,
		draw: (found) => [
			found.instruction ? summary(found.instruction) : null,
			found.instruction && found.messages?.length ? question(found.instruction, found.messages) : null,
			tabs(["instruction", id], Object.keys(PARTS), part),
			shown.draw(found),
		],
	};
}

function summary(info) {
	const { id, status, agent, space, usage, handover } = info;
	const why = dots(info.waits_for, info.cause, info.unasked);
	const retry = (name, body) => (["failed", "dead"].includes(status) ? doer(name, () => post(u`/instructions/${id}/retry`, body).then(() => null)) : null);
	return [
		facts({
			state: standing(status, why, info.until), agent: agentRef(targetOf(agent, space)), space: spaceRef(space), used: usageText(usage),
			approval: ref(info.approval), continues: ref(info.continues), said_in: info.message_ids.slice(0, 8).map((one) => [ref(one), " "]),
		}),
		info.text ? markdown(info.text, 1500) : null,
		handover ? markdown(`${handover.done}\n\n${handover.next}`) : null,
		h("div.acts",
			ENDED.includes(status) ? null : doer("cancel", () => post(u`/instructions/${id}/cancel`).then(() => null), { sure: true }),
			retry("retry", {}),
			retry("retry_fresh", { fresh: true }),
		),
	];
}

// What a person is asked, above the field for the answer.
const question = ({ id, agent }, asked) =>
	h("section.question", h("h3", t("asked_you")), asked.map(messageParts),
		may("approve") ? form([["answer", "answer", { tag: "textarea", rows: 3, required: true }]], t("action_answer"), ({ answer }, key) => post(u`/instructions/${id}/answer`, { text: answer, as: agent }, key).then(() => null), { id: "answer", kind: "to" }) : null,
	);

const PARTS = {
	steps(id, again, chosen) {
		const pages = pager(again, "earlier", "newest");
		const path = u`/instructions/${id}/entries`;
		const reveal = (made) => made?.scrollIntoView({ block: "center" }); // called once, when the step is first drawn
		if (chosen !== null) pages.at = Math.max(chosen - BEFORE, 0);
		return {
			async load() {
				const found = await get(path, { details: true, limit: PAGE, ...(pages.at === null ? { newest: true } : { after: pages.at }) });
				// An answer ends early if its entries are large.
				for (let after = found.next; pages.at === null && after !== null; ) {
					const { entries, next } = await get(path, { after, limit: PAGE });
					found.entries.push(...entries);
					after = next;
				}
				return found;
			},
			draw({ entries, start, instruction: { status } }) {
				const first = (entries[0]?.n ?? 1) - 1;
				const [earlier, newest] = pages.buttons(first > start ? Math.max(first - PAGE, start) : null);
				const last = entries.findLastIndex((one) => one.kind === "reply");
				const back = entries.slice(last + 1).filter((one) => one.kind === "tool").length;
				const calls = last < 0 || pages.at !== null || ENDED.includes(status) ? [] : entries[last].calls.slice(back);
				return [
					earlier,
					h("ol.steps", entries.map((one) => h("li", { key: one.n, ref: one.n === chosen ? reveal : null, class: dots(one.is_error && "failed", one.n === chosen && "chosen").replace(" · ", " ") || null }, entryParts(one)))),
					entries.length ? null : nothing(), calls.map((one) => h("p.call", h("b", one.tool), ` ${t("not_back")}: `, line(argumentsOf(one.input), 400))),
					ENDED.includes(status) ? null : writes(id), newest,
				];
			},
		};
	},
	prompt: (id) => ({
		load: () => get(u`/instructions/${id}/prompt`),
		draw: (found) => [
			h("details", h("summary", t("prompt_parts", { n: found.parts.length })), rows(found.parts.map((one) => `${one.name}: ${one.source}, ${one.trust}, ${one.tokens}, ${one.kept}`))),
			block(found.system),
			found.messages.map((one) => [h("h3", one.role), block(one.text)]),
		],
	}),
	changes: (id) => ({
		load: async () => {
			const instruction = await get(u`/instructions/${id}`);
			const { agent, space } = instruction;
			return { ...(!space.startsWith("dm:") && (await find(u`/spaces/${space}/diff`, { agent, patch: 1 }))), instruction };
		},
		draw: (found) => (found.worktrees?.length ? found.worktrees.map(worktree) : none(t("no_tree"))),
	}),
	attempts: (id) => ({
		load: async () => ({ instruction: await get(u`/instructions/${id}`) }),
		draw: ({ instruction: { attempts, steps } }) => [
			attempts.length ? null : nothing(),
			attempts.map((one, place, _, own = steps.filter((step) => step.attempt === one.n)) =>
				h("article.turn",
					h("p", h("b", t("attempt_n", one)), " ", t("steps_n", { n: own.length }), " ", h("small", dots(clock(one.started_at), one.ended_at ? clock(one.ended_at) : "…", one.outcome, one.exit, one.node))),
					own.flatMap((step) => step.failed).map((call) => h("p.call.bad", h("b", call.tool), ` ${call.why}: `, line(call.text))),
					one.stderr_tail ? block(one.stderr_tail) : null,
				),
			),
		],
	}),
};

function entryParts(one) {
	const isTool = one.kind === "tool";
	const took = one.duration_ms === null ? "" : duration(one.duration_ms / 1000);
	const change = isTool ? callDiff(one) : null;
	return [
		h("p", h("b", isTool ? one.tool : t(`entry_${one.kind}`)), " ", h("small", dots(`#${one.n}`, clock(one.at), took, one.usage && usageText(one.usage))), one.is_error ? [" ", state("failed")] : null),
		one.text ? markdown(one.text, 4000) : null,
		isTool ? (change ?? block(argumentsOf(one.input), "given", 800, "given")) : null,
		isTool && one.output ? block(one.output, "got", 1500, one.is_error ? "got bad" : "got") : null,
	];
}

// #/approval/a3: the whole call, then the buttons. A call can be approved only after all of it was shown.
export function approvalView({ path: [, id] }) {
	let reason = "";
	const decide = (name) => doer(name, () => post(u`/approvals/${id}/${name}`, { reason }).then(() => null), { scope: "approve" });
	return {
		load: () => get(u`/approvals/${id}`),
		wants: /^approval/,
		draw(found) {
			const isOpen = found.state === "open";
			const change = callDiff(found);
			return [
				facts({
					state: state(found.state), agent: agentRef(targetOf(found.agent, found.space)), instruction: ref(found.instruction_id), tool: h("code", found.tool),
					asked: ago(found.requested_at), expires: isOpen ? clock(found.expires_at) : null, why: line(found.reason, 2000), decided: found.decided_by && `${found.decided_by} ${found.decision_reason}`,
				}),
				change ? [h("h3", t("changes")), change, h("h3", t("raw_call"))] : null,
				// JSON with one value per line: no text can imitate a key.
				block(JSON.stringify(found.input, null, 2), "given", Infinity, "given"),
				isOpen && may("approve") ? h("div.acts", h("input", { name: "reason", maxlength: 2000, oninput: (event) => (reason = event.target.value), ...labelled("reason") }), decide("approve"), decide("deny")) : null,
			];
		},
	};
}

// The resource that holds the whole of a long text, loaded on demand.
class Whole extends Component {
	load = async () => this.setState({ text: (await find(u`/resources/${this.props.id}`))?.content ?? "" });
	render = (_props, { text = null }) => (text === null ? button(t("all"), this.load) : block(text, "text", 2 ** 21));
}

export function messageParts(one) {
	const kept = /resource:(\w+)/.exec(one.text.slice(-120))?.[1];
	return [
		h("p", h("b", one.from), one.to.length ? ` → ${one.to.join(", ")}` : "", " ", h("small", ref(`m${one.seq}`), one.kind === "said" ? " " : ` ${one.kind} `, ref(one.instruction), " ", ago(one.at))),
		one.cleared ? none(t("cleared")) : markdown(one.text),
		kept ? h(Whole, { key: kept, id: kept }) : null,
	];
}

export function messageView({ path: [, id] }) {
	const receipt = (one) => [one.agent, " ", state(one.state), " ", ref(one.instruction_id)];
	return {
		load: () => get(u`/messages/${id}`),
		wants: /^instruction.(leased|ended)/,
		draw: ({ message, receipts }) => [facts({ space: spaceRef(message.space) }), messageParts(message), receipts.length ? h("h3", t("receipts")) : null, rows(receipts.map(receipt))],
	};
}
