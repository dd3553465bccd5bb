// The message box and the search.

import { find, get, post, u } from "./api.js";
import { agentRef, ago, button, h, hashOf, labelled, none, placeOfId, ref, rows, say, spaceRef, state } from "./dom.js";
import { keyOf } from "./needs.js";
import { stale } from "./stream.js";
import { line, targetOf } from "./text.js";
import { t } from "./words.js";

const AGENTS = 12;
const EACH = 8;
const NAMES = 50;

// A message sent again after a lost answer arrives only once.
export function sendForm(to, fields) {
	let key = null;
	let sent = null;
	const input = (tag, name, more) => h(tag, { name, required: true, ...labelled(`send_${name}`), ...more });
	const target = input("input", "to", { maxlength: 200, autocapitalize: "off", spellcheck: "false" });
	const text = input("textarea", "text", { rows: 2, onkeydown: (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && send(event) });
	const came = h("small");

	async function send(event) {
		event.preventDefault();
		const body = { to: to ?? target.value.trim(), text: text.value };
		if (!body.to || !body.text.trim()) return;
		if (JSON.stringify(body) !== sent) key = crypto.randomUUID();
		sent = JSON.stringify(body);
		try {
			const { message_id, instruction_ids } = await post("/messages", body, key);
			sent = null;
			text.value = "";
			came.replaceChildren(...[message_id, ...instruction_ids.slice(0, 8)].flatMap((id) => [ref(id), " "]));
			say(t("did", { what: t("send") }));
			stale();
		} catch (problem) {
			say("", problem);
		}
	}

	return h("form.send", { onsubmit: send, ...fields }, to ? null : target, text, button(t("send"), null, { type: "submit" }), came);
}

export const keepSend = (section) =>
	section.append(h("h2", { id: "send-box-title" }, t("send_title")), sendForm(null, { id: "send" }));

export const turnParts = (one) =>
	h("article.turn",
		h("p", ref(one.id.split(".")[0]), " ", h("b", one.sender), " ", h("small", one.space, " ", ago(one.at))),
		h("p", line(one.text, 500)),
		(one.calls ?? []).slice(0, 5).map((call) => h("p.call", h("b", call.tool), " ", line(`${call.input} ${call.output ?? ""}`))),
	);

export function searchView({ path, title, body }) {
	const words = path.slice(1).join("/");
	const place = placeOfId(words);
	if (place) return void (location.hash = hashOf(place));
	title.textContent = line(words, 80);
	body.append(none(t("searching")));

	async function load() {
		const [{ agents }, { runs }] = await Promise.all([get("/ps", { all: "true" }), get("/runs", { limit: 200 })]);
		const isIn = (text) => text.toLowerCase().includes(words.toLowerCase());
		const names = agents.sort((a, b) => (b.last_event_at ?? "").localeCompare(a.last_event_at ?? "")).map((one) => targetOf(one.name, one.space));
		const asked = names.slice(0, AGENTS);
		const answers = await Promise.all(asked.map(async (name) => find(u`/agents/${await keyOf(name)}/thread/search`, { query: words.slice(0, 400), limit: EACH })));
		const best = new Map();
		for (const hit of answers.flatMap((one) => one?.found ?? []).sort((a, b) => b.score - a.score)) best.set(hit.turn.id, best.get(hit.turn.id) ?? hit);
		const places = [...new Set(runs.map((one) => one.run))];
		return { agents: names.filter(isIn), spaces: places.filter(isIn), hits: [...best.values()], asked: asked.length, all: names.length };
	}

	const named = (kind, found, make) => found.slice(0, NAMES).map((one) => [state(kind), " ", make(one)]);
	return {
		load,
		draw: ({ agents, spaces, hits, asked, all }) =>
			body.replaceChildren(
				rows([...named("agent", agents, agentRef), ...named("workspace", spaces, spaceRef)]),
				none(t("found_n", { n: hits.length }), asked < all ? t("searched_of", { asked, all }) : ""),
				...hits.map(({ turn }) => turnParts(turn)),
			),
	};
}
