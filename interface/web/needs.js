// What needs a person, first of all: the list of `awk needs`, its number in the title, and what settles each.

import { find, get, may, post, u } from "./api.js";
import { ago, button, h, link, say, swap } from "./dom.js";
import { stale, watch } from "./stream.js";
import { line, spaceOf } from "./text.js";
import { t } from "./words.js";

const MOVING = "delta progress message instruction.step worker.log attempt.started instruction.leased".split(" ");
const PAGE = 200;

const workflow = (target) => `/workflows/${spaceOf(target).split("~")[0].split(":").map(encodeURIComponent).join("/")}`;
const each = (ids, make) => ids.trim().split(/ +/).map((id) => ({ path: make(id) }));

/** The commands of needs, and what they are over REST; an `agent` stands in the path as `{}`, once its key is known. */
const COMMANDS = [
	["(?:approve|deny) (ID)", (id) => ({ show: ["approval", id] }), "approve"],
	["answer (ID) .*", (id) => ({ show: ["instruction", id] }), "approve"],
	["cancel (IDS)", (ids) => ({ sure: true, calls: each(ids, (id) => u`/instructions/${id}/cancel`) })],
	["retry (ID)", (id) => ({ calls: [{ path: u`/instructions/${id}/retry` }] })],
	["stop (@\\S+)", (target) => ({ sure: true, calls: [{ path: workflow(target), method: "DELETE" }] })],
	["continue (@\\S+)", (target) => ({ calls: [{ path: `${workflow(target)}/continue` }] }), "approve"],
	["continue (\\S+)", (agent) => ({ calls: [{ agent, path: "/agents/{}/continue" }] }), "approve"],
	["reset (\\S+)", (agent) => ({ calls: [{ agent, path: "/agents/{}/reset" }] })],
	["task (done|cancel) (@\\S+) (IDS)", (what, at, ids) => ({ sure: what === "cancel", calls: each(ids, (id) => u`/spaces/${spaceOf(at)}/tasks/${id}/${what}`) })],
	["proposal vote ([^@ ]+)(@\\S+) (\\S+)", (id, at, choice) => ({ calls: [{ path: u`/spaces/${spaceOf(at)}/proposals/${id}/vote`, body: { choice } }] }), "approve"],
	["proposal cancel ([^@ ]+)(@\\S+)", (id, at) => ({ sure: true, calls: [{ path: u`/spaces/${spaceOf(at)}/proposals/${id}/cancel` }] })],
	["agent memory (\\S+) tray (approve|reject) (\\S+)", (agent, what, id) => ({ calls: [{ agent, path: u`/agents/{}/tray/${id}/${what}` }] }), "approve"],
	["agent soul (\\S+) (approve|reject) (\\S+)", (agent, what, id) => ({ calls: [{ agent, path: u`/agents/{}/soul/${id}/${what}` }] }), "approve"],
	["webhook retry (\\S+)", (id) => ({ calls: [{ path: u`/webhooks/${id}/retry` }] })],
].map(([pattern, make, scope = "operate"]) => [new RegExp(`^awk ${pattern.replace("IDS", "(?:ID ?)+").replace("ID", "[a-z]+\\d+")}$`), make, scope]);

/** A command of a need over REST: {scope, calls, show, sure}; null: only a terminal does that. */
export function requestOf(command) {
	for (const [pattern, make, scope] of COMMANDS) {
		const found = pattern.exec(command);
		if (found) return { scope, ...make(...found.slice(1)) };
	}
	return null;
}

/** The key by which the kernel has an agent: one that a workflow only refers to is its own everywhere. */
export async function keyOf(target) {
	const members = target.includes("@") && (await find(u`/spaces/${spaceOf(target)}/members`))?.members;
	return (members && members.find((one) => one.name === target.split("@")[0])?.agent) || target;
}

async function carryOut(calls) {
	for (const { agent, path, body, method } of calls) {
		await post(agent ? path.replace("{}", encodeURIComponent(await keyOf(agent))) : path, body, undefined, method);
	}
}

/** A button that does something; one that ends something asks once more. Null where the token does not open it. */
export function doer(name, act, { scope = "operate", sure = false, label = t(`action_${name}`) ?? name, key = name } = {}) {
	if (!may(scope)) return null;
	const arm = (armed) => {
		made.classList.toggle("armed", armed);
		made.textContent = armed ? t("sure", { what: label }) : label;
	};
	const press = async () => {
		if (sure && !made.classList.contains("armed")) return arm(true);
		arm(false);
		try {
			await act();
			say(t("did", { what: label }));
			stale();
		} catch (problem) {
			say("", problem);
		}
	};
	const made = button(label, press, { "data-action": name, "data-key": key, onblur: () => arm(false) });
	return made;
}

/** The ways to settle a need: buttons, links to where it is decided, and commands that only a terminal has. */
function way({ kind, id }, { label, command }) {
	const asked = requestOf(command);
	if (!may(asked?.scope ?? "operate")) return null;
	if (asked === null) return h("code", line(command));
	const [, name] = command.split(" ");
	const shown = t(`action_${label.split(",")[0].replaceAll(" ", "_")}`) ?? line(label, 60);
	const key = `${kind}:${id} ${command}`;
	if (asked.show) return link(asked.show, shown, { class: "button", "data-action": name, "data-key": key });
	return doer(name, () => carryOut(asked.calls), { ...asked, label: shown, key });
}

/** Where the thing is shown that a need is about; null: it has no place of its own here. */
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
	return h("li.need", { "data-need": key },
		h("span.kind", t(`need_${need.kind}`) ?? need.kind),
		h("div.what",
			place ? link(place, line(need.text), { "data-key": key }) : line(need.text),
			h("small", [need.id, need.space, blocks && t("blocks", { ids: blocks })].filter(Boolean).join(" · "), need.since ? [" · ", ago(need.since)] : null),
		),
		h("div.acts", need.actions.map((one) => way(need, one))),
	);
}

/** Keeps the section of needs, and the number in the title. */
export function keepNeeds(section, project) {
	let limit = PAGE;
	const head = h("h2", { id: "needs-title" });
	const list = h("ul.needs");
	section.append(head, list);
	const view = watch({
		load: () => get("/needs", { limit }),
		wants: ({ type }) => !MOVING.includes(type),
		draw({ items, total }) {
			document.title = `(${total}) ${project}`;
			head.textContent = total ? t("need_you", { n: total }) : t("nothing_needs_you");
			section.classList.toggle("calm", total === 0);
			const more = () => ((limit = Math.min(limit + PAGE, 1000)), view.again());
			swap(list, [items, total], () => [items.map(row), total > items.length ? h("li", button(t("more_of", { n: total - items.length }), more)) : null]);
		},
	});
}
