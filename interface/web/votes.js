// Votes of a workspace: what is decided, by whom, how it stands; and the user's own vote.

import { at, get, post } from "./api.js";
import { doer } from "./actions.js";
import { ago, block, button, h, state, swap } from "./dom.js";
import { facts } from "./drawer.js";
import { watch } from "./refresh.js";
import { clock, oneLine } from "./text.js";
import { t } from "./words.js";

const PAGE = 50;

/** The proposals of a space. */
export function votesPart({ space, body, failed, keep }) {
  let after = null;
  let following = null;
  const place = h("div");
  const more = button(t("next_page"), () => ((after = following), view.again()), { hidden: true });
  const first = button(t("first_page"), () => ((after = null), view.again()), { hidden: true });
  body.append(place, first, more);

  function draw(found) {
    following = found.next;
    more.hidden = found.next === null;
    first.hidden = after === null;
    swap(place, found.proposals, () => [
      found.proposals.length === 0 ? h("p", { class: "none" }, t("no_votes")) : null,
      found.proposals.toReversed().map(card),
    ]);
  }

  const vote = (one, choice) => doer(t("vote", { choice: oneLine(choice, 64) }), () => post(at("spaces", space, "proposals", one.id, "vote"), { choice }), { scope: "approve", name: "vote", key: `${one.id} ${choice}` });

  function card(one) {
    const isOpen = one.state === "open";
    const voted = one.votes.some((found) => found.voter === "user");
    return h(
      "article",
      { class: "card", "data-vote": one.id },
      h("h3", {}, h("span", { class: "id" }, oneLine(one.id, 64)), " ", oneLine(one.title, 200)),
      facts([
        [t("fact_state"), [state(one.state), one.winner ? ` ${oneLine(one.winner, 80)}` : "", one.binding ? ` · ${t("binding")}` : ""]],
        [t("fact_by"), [oneLine(one.creator, 60), " ", ago(one.created_at)]],
        [t("fact_expires"), isOpen ? clock(one.expires_at) : null],
        [t("fact_missing"), isOpen ? oneLine(one.missing.join(", "), 200) : null],
        [t("fact_why"), oneLine(one.reason, 500)],
      ]),
      one.description ? block(one.description, {}, 800) : null,
      h(
        "ul",
        { class: "rows" },
        one.options.map((option) =>
          h("li", {}, h("b", {}, oneLine(option.id, 64)), option.label ? ` ${oneLine(option.label, 200)}` : "", ` ${t("votes_n", { n: one.counts[option.id] ?? 0 })} `, isOpen && !voted ? vote(one, option.id) : null),
        ),
      ),
      one.votes.length ? h("details", {}, h("summary", {}, t("who_voted", { n: one.votes.length })), h("ul", { class: "rows" }, one.votes.map((found) => h("li", {}, h("b", {}, oneLine(found.voter, 60)), ` ${oneLine(found.choice, 64)} ${oneLine(found.reason, 300)}`)))) : null,
      isOpen ? h("div", { class: "acts" }, doer(t("action_call_it_off"), () => post(at("spaces", space, "proposals", one.id, "cancel")), { sure: true, name: "cancel", key: `${one.id} off` })) : null,
    );
  }

  const view = watch({ load: () => get(at("spaces", space, "proposals"), { limit: PAGE, after }), draw, failed, wants: (event) => event.space === space && (event.type.startsWith("proposal.") || event.type === "message") });
  keep(view);
}
