// A workspace: channel with a message box, documents, task graph and votes.

import { get, may, post, u } from "./api.js";
import { ago, agentRef, block, button, diff, divs, dots, facts, h, link, none, nothing, ref, rows, state, swap, sync } from "./dom.js";
import { tabs } from "./drawer.js";
import { doer } from "./needs.js";
import { sendForm } from "./talk.js";
import { tasksPart } from "./tasks.js";
import { clock, line, size, targetOfSpace } from "./text.js";
import { t } from "./words.js";
import { messageParts } from "./work.js";

const PAGE = 100;

export function pager(again, forward = "next_page", back = "first_page") {
	let next = null;
	const onward = button(t(forward), () => again((pages.at = next)));
	const first = button(t(back), () => again((pages.at = null)));
	const pages = {
		at: null,
		buttons: [onward, first],
		show(following) {
			next = following;
			onward.hidden = next === null;
			first.hidden = pages.at === null;
		},
	};
	return pages;
}

// #/space/review:main/channel, documents, tasks or votes
export function spaceView({ path: [, space, part = "channel"], title, body }) {
	title.textContent = line(targetOfSpace(space), 120);
	if (!space.startsWith("dm:")) body.append(tabs(["space", space], Object.keys(PARTS), part));
	const view = { wants: (event) => event.space === space, ...(PARTS[part] ?? PARTS.channel)(space, body, () => view.again()) };
	return view;
}

const PARTS = {
	channel(space, body, again) {
		const members = h("p.members");
		const list = h("ol.messages");
		const pages = pager(again, "earlier", "newest");
		const [earlier, newest] = pages.buttons;
		body.append(members, earlier, list, newest, may("operate") ? sendForm(targetOfSpace(space)) : "");
		return {
			load: () => Promise.all([get(u`/spaces/${space}/channel`, { limit: PAGE, before: pages.at }), get(u`/spaces/${space}/members`)]),
			draw([channel, found]) {
				const isLow = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
				swap(members, found, () => found.members.slice(0, 50).map((one) => [agentRef(one.agent || one.name), " ", state(one.state), " "]));
				sync(list, channel.messages, (one) => one.seq + one.cleared, (one) => h("li", { "data-seq": one.seq }, messageParts(one)));
				pages.show(channel.next);
				if (isLow && pages.at === null) list.scrollTop = list.scrollHeight;
			},
		};
	},
	documents(space, body) {
		const place = body.appendChild(h("div"));
		const row = (one) => [
			link(["doc", space, one.file], one.file),
			h("small", ` ${dots(t("version_n", { n: one.version }), size(one.size), one.owner && t("owner", { name: one.owner }), one.author)} `, ago(one.at)),
		];
		return {
			load: () => get(u`/spaces/${space}/documents`),
			draw: ({ documents }) => swap(place, documents, () => (documents.length ? rows(documents.map(row)) : nothing())),
		};
	},
	tasks: tasksPart,
	votes(space, body, again) {
		const place = h("div");
		const pages = pager(again);
		body.append(place, ...pages.buttons);
		return {
			load: () => get(u`/spaces/${space}/proposals`, { limit: PAGE, after: pages.at }),
			draw({ proposals, next }) {
				pages.show(next);
				swap(place, proposals, () => (proposals.length ? proposals.toReversed().map((one) => proposal(space, one)) : nothing()));
			},
		};
	},
};

function proposal(space, one) {
	const isOpen = one.state === "open";
	const asks = isOpen && !one.votes.some((vote) => vote.voter === "user");
	const path = u`/spaces/${space}/proposals/${one.id}`;
	const vote = (choice) => asks && doer("vote", () => post(`${path}/vote`, { choice }), { scope: "approve", label: t("vote", { choice }), key: `${one.id} ${choice}` });
	return h("article.turn", { "data-vote": one.id },
		h("h3", h("span.id", one.id), " ", one.title),
		facts({
			state: [state(one.state), one.winner ? ` ${one.winner}` : "", one.binding ? ` · ${t("binding")}` : ""], by: [one.creator, " ", ago(one.created_at)],
			expires: isOpen ? clock(one.expires_at) : "", missing: isOpen ? one.missing.join(", ") : "", why: one.reason,
		}),
		one.description ? block(one.description, "text", 800) : null,
		rows(one.options.map(({ id, label }) => [h("b", id), ` ${label} · ${t("votes_n", { n: one.counts[id] ?? 0 })} `, vote(id)])),
		one.votes.length ? h("details", h("summary", t("votes_n", { n: one.votes.length })), rows(one.votes.map((found) => [h("b", found.voter), ` ${found.choice} ${found.reason}`]))) : null,
		isOpen ? doer("cancel", () => post(`${path}/cancel`), { sure: true, key: `${one.id} cancel` }) : null,
	);
}

// #/doc/review:main/notes.md: the text or the diff of a version, and the history.
export function documentView({ path: [, space, ...parts], title, body }) {
	const file = parts.map(encodeURIComponent).join("/");
	const path = (what) => `${u`/spaces/${space}/${what}`}/${file}`;
	let [version, change] = [null, null];
	title.textContent = line(parts.join("/"), 200);
	const [place, versions] = divs(2);
	body.append(link(["space", space, "documents"], t("tab_documents")), place, h("h3", t("history")), versions);
	const show = (next, isChange) => view.again(([version, change] = isChange ? [null, next] : [next, null]));
	const row = (one) => [
		button(t("version_n", { n: one.version }), () => show(one.version), { "data-key": one.version, "aria-pressed": `${version === one.version}` }), " ",
		button(`+${one.added}/-${one.removed}`, () => show(one.version, true), { "data-key": `d${one.version}`, "aria-pressed": `${change === one.version}` }),
		` ${one.author} `, ref(one.instruction), h("small", " ", ago(one.at), ` ${one.reason ?? ""}`),
	];
	const view = {
		wants: (event) => event.type === "message" && event.space === space,
		load: () =>
			Promise.all([
				change === null ? get(path("documents"), { version }) : get(path("document-diff"), { from: change - 1, to: change }),
				get(path("document-history"), { limit: PAGE }),
			]),
		draw([found, history]) {
			swap(place, found, () => (found.diff === undefined ? [none(dots(t("version_n", { n: found.version }), found.owner && t("owner", { name: found.owner }))), block(found.content, "text", 20_000)] : diff(found.diff)));
			swap(versions, [history, version, change], () => [rows(history.versions.map(row)), history.next ? none(t("more_of", { n: history.total - history.versions.length })) : null]);
		},
	};
	return view;
}
