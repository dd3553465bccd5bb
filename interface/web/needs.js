// The overview: whether all is well, what needs a person, and what it costs. Needs: the list of `awk needs`, their count in the title, and a button for each action that resolves one.

import { doer } from "./acts.js";
import { find, get, may, post, u } from "./api.js";
import { ago, button, dots, h, link } from "./dom.js";
import { line, spaceOf } from "./text.js";
import { t } from "./words.js";

const SILENT_MS = 15_000; // a silent step becomes a need, and what it costs grows, without an event
const SETTLING = /^(?!message|instruction.step|worker.log|attempt.started|instruction.leased)/;
const ENDING = /^awk (\w+ )?(cancel|stop|restart) /; // asks for confirmation
const PAGE = 200;

const workflow = (target) => `/workflows/${spaceOf(target).split("~")[0].split(":").map(encodeURIComponent).join("/")}`;
const each = (ids, make) => ids.trim().split(/ +/).map(make);

// Commands with their scope and REST paths; {NAME} is replaced by the agent's key.
const COMMANDS = [
	["(?:approve|deny) (ID)", "approve", (id) => ["approval", id]],
	["answer (ID) .*", "approve", (id) => ["instruction", id]],
	["cancel (IDS)", "operate", (ids) => each(ids, (id) => u`/instructions/${id}/cancel`)],
	["attach (\\S+)", "operate", (agent) => ["agent", agent]],
	["restart (\\S+)", "operate", (agent) => [u`/agents/{${agent}}/restart`]],
	["retry (ID)", "operate", (id) => [u`/instructions/${id}/retry`]],
	["stop (@\\S+)", "operate", (at) => [`DELETE${workflow(at)}`]],
	["continue (@\\S+)", "approve", (at) => [`${workflow(at)}/continue`]],
	["continue (\\S+)", "approve", (agent) => [u`/agents/{${agent}}/continue`]],
	["reset (\\S+)", "operate", (agent) => [u`/agents/{${agent}}/reset`]],
	["task (done|cancel) (@\\S+) (IDS)", "operate", (what, at, ids) => each(ids, (id) => u`/spaces/${spaceOf(at)}/tasks/${id}/${what}`)],
	["proposal vote ([^@ ]+)(@\\S+) (\\S+)", "approve", (id, at, choice) => [u`/spaces/${spaceOf(at)}/proposals/${id}/vote?${choice}`]],
	["proposal cancel ([^@ ]+)(@\\S+)", "operate", (id, at) => [u`/spaces/${spaceOf(at)}/proposals/${id}/cancel`]],
	["agent memory (\\S+) (tray) (approve|reject) (\\S+)", "approve", (agent, part, what, id) => [u`/agents/{${agent}}/${part}/${id}/${what}`]],
	["agent (soul) (\\S+) (approve|reject) (\\S+)", "approve", (part, agent, what, id) => [u`/agents/{${agent}}/${part}/${id}/${what}`]],
	["webhook retry (\\S+)", "operate", (id) => [u`/webhooks/${id}/retry`]],
].map(([pattern, scope, make]) => [new RegExp(`^awk ${pattern.replace("IDS", "(?:ID ?)+").replace("ID", "[a-z]+\\d+")}$`), scope, make]);

// {scope, sure, paths}, or {show}: the place to decide; null: only possible in a terminal.
export function requestOf(command) {
	for (const [pattern, scope, make] of COMMANDS) {
		const found = pattern.exec(command)?.slice(1);
		if (!found) continue;
		const made = make(...found);
		return { scope, sure: ENDING.test(command), [made[0].includes("/") ? "paths" : "show"]: made };
	}
	return null;
}

// The kernel's name for an agent: a workflow does not rename an agent that has a file.
async function keyOf(target) {
	const members = target.includes("@") ? (await find(u`/spaces/${spaceOf(target)}/members`))?.members : [];
	return members?.find((one) => one.name === target.split("@")[0])?.agent || target;
}

async function carryOut(paths) {
	for (const one of paths) {
		const [, method, path, choice] = /^(DELETE)?([^?]+)\??(.*)$/.exec(one);
		const agent = /\{(.*)\}/.exec(path)?.[1];
		const whole = agent ? path.replace(`{${agent}}`, encodeURIComponent(await keyOf(decodeURIComponent(agent)))) : path;
		await post(whole, choice ? { choice: decodeURIComponent(choice) } : {}, undefined, method);
	}
}

function way({ kind, id }, { label, command }) {
	const asked = requestOf(command);
	if (!may(asked?.scope ?? "operate")) return null;
	if (asked === null) return h("code", line(command));
	const [, name] = command.split(" ");
	const shown = t(`action_${label.split(/,| \(/)[0].replaceAll(" ", "_")}`) ?? line(label.split(" (")[0], 60);
	const key = `${kind}:${id} ${command}`;
	if (asked.show) return link(asked.show, shown, { class: "button", "data-action": name, "data-key": key });
	return doer(name, () => carryOut(asked.paths), { ...asked, label: shown, key });
}

export function placeOf({ kind, id, agent, space, run }) {
	if (kind === "approval") return ["approval", id];
	if (kind === "answer" || kind === "dead") return ["instruction", id];
	if (kind === "vote" || kind === "task") return ["space", space, `${kind}s`];
	if (kind === "limit" && run) return ["run", run];
	return ["agent_error", "credentials", "quota", "limit"].includes(kind) ? ["agent", id] : agent ? ["agent", agent] : null;
}

function row(need) {
	const key = `${need.kind}:${need.id}`;
	const place = placeOf(need);
	const blocks = need.blocks.length > 8 ? `${need.blocks.slice(0, 8).join(", ")} … (${need.blocks.length})` : need.blocks.join(", ");
	return h("li.need", { key, "data-need": key },
		h("span.kind", t(`need_${need.kind}`) ?? need.kind),
		h("div.what",
			place ? link(place, line(need.text), { "data-key": key }) : line(need.text),
			h("small", dots(need.id, need.space, blocks && t("blocks", { ids: blocks })), need.since ? [" · ", ago(need.since)] : null),
		),
		h("div.acts", need.actions.map((one) => way(need, one))),
	);
}

export function needsView({ again, place, project }) {
	let limit = PAGE;
	const more = () => again((limit = Math.min(limit + PAGE, 1000)));
	return {
		load: () => get("/needs", { limit }),
		wants: SETTLING,
		every: SILENT_MS,
		draw({ items, total }) {
			document.title = `(${total}) ${project}`;
			place.hidden = total === 0;
			const left = total - items.length;
			return [h("h2", { id: "needs-title" }, t("needs_title")), h("ul.needs", items.map(row), left > 0 ? h("li", button(t("more_of", { n: left }), more)) : null)];
		},
	};
}

// Bars of 24 hours, in a box of 96 x 20.
function spark(values) {
	const most = Math.max(...values, Number.MIN_VALUE);
	const bar = (value, place) => h("rect", { x: place * 4, y: 20 - Math.max((20 * value) / most, 0.5), width: 3, height: Math.max((20 * value) / most, 0.5) });
	return h("svg", { class: "spark", viewBox: "0 0 96 20", preserveAspectRatio: "none", "aria-hidden": true }, values.map(bar));
}

function tile(name, value, more, { values = null, path = null, kind = "" } = {}) {
	const shown = [h("b.big", `${value}`), h("span", t(`tile_${name}`)), h("small", more), values && spark(values)];
	return h("li", { class: `tile ${kind}`, "data-tile": name }, path ? link(path, shown) : h("div", shown));
}

export const overviewView = () => ({
	load: () => get("/overview"),
	wants: /^(instruction.(leased|ended)|workflow|approval)/,
	every: SILENT_MS,
	draw({ running, waiting, idle, needs, failed_today: failed, runs_running: runs, spend_today_usd: spend, tokens_per_minute: tokens, hours }) {
		const of = (key) => hours.map((one) => one[key] ?? 0);
		return [
			h("h2", { id: "overview-title", class: needs || failed ? "unwell" : "well" }, needs ? t("need_you", { n: needs }) : failed ? t("failed_n", { n: failed }) : t("all_well")),
			h("ul.tiles",
				tile("running", running, t("agents_n", { waiting, idle, runs }), { values: of("ended") }),
				tile("spent_today", `$${(spend ?? 0).toFixed(2)}`, t("tokens_n", { n: Math.round(tokens ?? 0) }), { values: of("cost_usd"), path: ["spending", "all"] }),
				tile("need_you", needs, t(needs ? "see_below" : "nothing_needs_you"), { kind: needs ? "wait" : "" }),
				tile("failed_today", failed, t("midnight"), { values: of("failed"), kind: failed ? "bad" : "" }),
			),
		];
	},
});
