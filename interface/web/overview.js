// The overview: whether all is well, what needs a person, and what it costs.

import { find } from "./api.js";
import { h, link, render } from "./dom.js";
import { watch } from "./stream.js";
import { t } from "./words.js";

const EVERY_MS = 15_000;

// Bars of 24 hours, as [x, y, height] in a box of 96 x 20.
export function sparks(values) {
	const most = Math.max(...values, 0);
	return values.map((value, place) => [place * 4, 20 - (most ? (20 * value) / most : 0), most ? (20 * value) / most : 0]);
}

const spark = (values) =>
	h("svg", { class: "spark", viewBox: "0 0 96 20", preserveAspectRatio: "none", "aria-hidden": true }, sparks(values).map(([x, y, height]) => h("rect", { x, y: Math.min(y, 19.5), width: 3, height: Math.max(height, 0.5) })));

function tile(name, value, more, { values = null, path = null, kind = "" } = {}) {
	const shown = [h("b.big", `${value}`), h("span", t(`tile_${name}`)), h("small", more), values && spark(values)];
	return h("li", { class: `tile ${kind}`, "data-tile": name }, path ? link(path, shown) : h("div", shown));
}

export function keepOverview(section) {
	watch({
		load: () => find("/overview"),
		wants: /^(instruction.(leased|ended)|workflow|approval)/,
		every: EVERY_MS,
		draw(found) {
			if (found === null) return;
			const { running, waiting, idle, needs, failed_today: failed, runs_running: runs, spend_today_usd: spend, tokens_per_minute: tokens, hours } = found;
			const of = (key) => hours.map((one) => one[key] ?? 0);
			render([
				h("h2", { id: "overview-title", class: needs || failed ? "unwell" : "well" }, needs ? t("need_you", { n: needs }) : failed ? t("failed_n", { n: failed }) : t("all_well")),
				h("ul.tiles",
					tile("running", running, t("agents_n", { waiting, idle, runs }), { values: of("ended") }),
					tile("spent_today", `$${(spend ?? 0).toFixed(2)}`, t("tokens_n", { n: Math.round(tokens ?? 0) }), { values: of("cost_usd"), path: ["spending", "all"] }),
					tile("need_you", needs, t(needs ? "see_below" : "nothing_needs_you"), { kind: needs ? "wait" : "" }),
					tile("failed_today", failed, t("midnight"), { values: of("failed"), kind: failed ? "bad" : "" }),
				),
			], section);
		},
	});
}
