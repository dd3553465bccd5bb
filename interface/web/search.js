// Search in the store: messages, steps and documents.

import { get } from "./api.js";
import { ago, button, h, hashOf, link, none, nothing, placeOfId, spaceRef } from "./dom.js";
import { pager } from "./space.js";
import { line } from "./text.js";
import { t } from "./words.js";

const KINDS = [null, "message", "step", "document"];

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
		draw: ({ found, next }) => [h("div.acts", KINDS.map(choose)), found.length ? found.map(row) : nothing("found_nothing"), pages.buttons(next), none(t("found_hint"))],
	};
}
