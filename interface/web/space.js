// A workspace: channel with a message box, documents, task graph and votes. Search in all of them and in steps.

import { doer, sendForm } from "./acts.js";
import { get, may, post, u } from "./api.js";
import { ago, agentRef, block, button, Component, dots, facts, h, hashOf, Later, link, none, nothing, placeOfId, ref, rows, spaceRef, state } from "./dom.js";
import { diff } from "./diff.js";
import { tabs } from "./drawer.js";
import { markdown } from "./markdown.js";
import { tasksPart } from "./tasks.js";
import { clock, line, size, targetOfSpace } from "./text.js";
import { t } from "./words.js";
import { messageParts } from "./work.js";

const PAGE = 100;

export function pager(again, forward = "next_page", back = "first_page") {
	const pages = {
		at: null,
		buttons: (next) => [button(next == null ? "" : t(forward), () => again((pages.at = next))), button(pages.at === null ? "" : t(back), () => again((pages.at = null)))],
	};
	return pages;
}

// A list that stays at its end if it was there.
class Messages extends Component {
	componentDidMount = () => (this.base.scrollTop = this.base.scrollHeight);
	getSnapshotBeforeUpdate = () => this.base.scrollHeight - this.base.scrollTop - this.base.clientHeight < 40;
	componentDidUpdate = (_props, _state, isLow) => isLow && this.props.follow && this.componentDidMount();
	render = ({ messages }) =>
		h("ol.messages", { ref: (made) => (this.base = made), tabindex: 0, role: "list", "aria-label": t("tab_channel") }, messages.map((one) => h("li", { key: `${one.seq} ${one.cleared}`, "data-seq": one.seq }, messageParts(one))));
}

// #/space/review:main/channel, documents, tasks or votes
export function spaceView({ path: [, space, part = "channel"], again, redraw }) {
	return {
		title: line(targetOfSpace(space), 120),
		tabs: space.startsWith("dm:") ? null : tabs(["space", space], Object.keys(PARTS), part),
		wants: (event) => event.space === space,
		...(PARTS[part] ?? PARTS.channel)(space, again, redraw),
	};
}

const PARTS = {
	channel(space, again) {
		const pages = pager(again, "earlier", "newest");
		return {
			load: () => get(u`/spaces/${space}/channel`, { limit: PAGE, before: pages.at }),
			draw(channel) {
				const [earlier, newest] = pages.buttons(channel.next);
				return [
					h(Later, { kind: "members", label: t("members"), of: channel.total, load: () => get(u`/spaces/${space}/members`), draw: ({ members }) => members.slice(0, 200).map((one) => [agentRef(one.agent || one.name), " ", state(one.state), " "]) }),
					earlier, channel.messages.length ? h(Messages, { messages: channel.messages, follow: pages.at === null }) : nothing(), newest,
					may("operate") ? sendForm(targetOfSpace(space)) : null,
				];
			},
		};
	},
	documents(space) {
		const row = (one) => [
			link(["doc", space, one.file], one.file),
			h("small", ` ${dots(t("version_n", { n: one.version }), size(one.size), one.owner && t("owner", { name: one.owner }), one.author)} `, ago(one.at)),
		];
		return { load: () => get(u`/spaces/${space}/documents`), draw: ({ documents }) => (documents.length ? rows(documents.map(row)) : nothing()) };
	},
	tasks: tasksPart,
	votes(space, again) {
		const pages = pager(again);
		return {
			load: () => get(u`/spaces/${space}/proposals`, { limit: PAGE, after: pages.at }),
			draw: ({ proposals, next }) => [proposals.length ? proposals.toReversed().map((one) => proposal(space, one)) : nothing(), pages.buttons(next)],
		};
	},
};

function proposal(space, one) {
	const isOpen = one.state === "open";
	const asks = isOpen && !one.votes.some((vote) => vote.voter === "user");
	const path = u`/spaces/${space}/proposals/${one.id}`;
	const vote = (choice) => asks && doer("vote", () => post(`${path}/vote`, { choice }), { scope: "approve", label: t("vote", { choice }), key: `${one.id} ${choice}` });
	return h("article.turn", { key: one.id, "data-vote": one.id },
		h("h3", h("span.id", one.id), " ", one.title),
		facts({
			state: [state(one.state), one.winner ? ` ${one.winner}` : "", one.binding ? ` · ${t("binding")}` : ""], by: [one.creator, " ", ago(one.created_at)],
			expires: isOpen ? clock(one.expires_at) : "", missing: isOpen ? one.missing.join(", ") : "", why: one.reason,
		}),
		one.description ? markdown(one.description, 800) : null,
		rows(one.options.map(({ id, label }) => [h("b", id), ` ${label} · ${t("votes_n", { n: one.counts[id] ?? 0 })} `, vote(id)])),
		one.votes.length ? h("details", h("summary", t("votes_n", { n: one.votes.length })), rows(one.votes.map((found) => [h("b", found.voter), ` ${found.choice} ${found.reason}`]))) : null,
		isOpen ? doer("cancel", () => post(`${path}/cancel`), { sure: true, key: `${one.id} cancel` }) : null,
	);
}

// #/doc/review:main/notes.md: the text or the diff of a version, and the history.
export function documentView({ path: [, space, ...parts], again }) {
	const file = parts.map(encodeURIComponent).join("/");
	const path = (what) => `${u`/spaces/${space}/${what}`}/${file}`;
	let [version, change, isRaw] = [null, null, !/\.(md|markdown)$/i.test(file)];
	const show = (next, isChange) => again(([version, change] = isChange ? [null, next] : [next, null]));
	const row = (one) => [
		button(t("version_n", { n: one.version }), () => show(one.version), { "aria-pressed": `${version === one.version}` }), " ",
		button(`+${one.added}/-${one.removed}`, () => show(one.version, true), { "aria-pressed": `${change === one.version}` }),
		` ${one.author} `, ref(one.instruction), h("small", " ", ago(one.at), ` ${one.reason ?? ""}`),
	];
	const text = ({ version: number, owner, content }) => [
		h("div.bar", none(dots(t("version_n", { n: number }), owner && t("owner", { name: owner }))), button(t(isRaw ? "as_page" : "as_text"), () => again((isRaw = !isRaw)), { class: "quiet" })),
		isRaw ? block(content, "text", 20_000) : markdown(content, 20_000),
	];
	const history = ({ versions, next, total }) => [rows(versions.map(row)), next ? none(t("more_of", { n: total - versions.length })) : null];
	return {
		title: line(parts.join("/"), 200),
		tabs: link(["space", space, "documents"], t("tab_documents")),
		wants: (event) => event.type === "message" && event.space === space,
		load: () => (change === null ? get(path("documents"), { version }) : get(path("document-diff"), { from: change - 1, to: change })),
		draw: (found) => [
			found.diff === undefined ? text(found) : diff(found.diff),
			h(Later, { key: "history", label: t("history"), of: found.at, load: () => get(path("document-history"), { limit: PAGE }), draw: history }),
		],
	};
}

const FOUND = [null, "message", "step", "document"];

const placeOf = ({ kind, id, space, step }) =>
	kind === "document" ? ["doc", space, ...id.split("/")] : kind === "step" ? ["instruction", id, "steps", ...(step == null ? [] : [`${step}`])] : ["message", id];

// #/search/WORDS: an id leads to its place.
export function searchView({ path, again }) {
	const words = path.slice(1).join("/");
	const place = placeOfId(words);
	if (place) return void (location.hash = hashOf(place));
	let kind = null;
	const pages = pager(again);
	const choose = (one) => button(t(`found_${one ?? "all"}`), () => again([kind, pages.at] = [one, null]), { "aria-pressed": `${kind === one}` });
	const row = (one) =>
		h("article.turn", { key: `${one.kind} ${one.id} ${one.step}` },
			h("p", h("span.kind", t(`found_${one.kind}`)), " ", link(placeOf(one), line(one.id, 120)), " ", h("b", one.agent), " ", h("small", spaceRef(one.space), " ", ago(one.at))),
			h("p", line(one.text, 500)),
		);
	return {
		title: line(words, 80),
		load: () => get("/search", { query: words.slice(0, 400), kind, after: pages.at }),
		draw: ({ found, next }) => [h("div.acts", FOUND.map(choose)), found.length ? found.map(row) : nothing("found_nothing"), pages.buttons(next), none(t("found_hint"))],
	};
}
