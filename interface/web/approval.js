// One request for approval: the whole call, and then the buttons. Nothing is granted of which not all was shown.

import { at, get, post } from "./api.js";
import { doer } from "./actions.js";
import { ago, h, link, state, swap } from "./dom.js";
import { facts } from "./drawer.js";
import { watch } from "./refresh.js";
import { canonical, clock, oneLine, targetOf } from "./text.js";
import { t } from "./words.js";

/** The pattern that grants this very call from now on, and no other; null where no pattern is of it alone. */
export function alwaysPattern(input) {
  const pattern = canonical(input);
  return pattern === null || pattern.includes("*") || pattern.length > 10_000 ? null : pattern;
}

/** The drawer of #/approval/a3. */
export function approvalView({ path, title, body, failed, keep }) {
  const id = path[1];
  title.textContent = t("approval_of", { id: oneLine(id, 20) });
  const place = h("div");
  const reason = h("input", { name: "reason", maxlength: 2000, "aria-label": t("reason"), placeholder: t("reason") });
  const acts = h("div", { class: "acts" });
  body.append(place, acts);

  function draw(found) {
    swap(place, found, () => [
      facts([
        [t("fact_state"), state(found.state)],
        [t("fact_agent"), link(["agent", targetOf(found.agent, found.space)], oneLine(targetOf(found.agent, found.space), 120))],
        [t("fact_instruction"), link(["instruction", found.instruction_id], found.instruction_id)],
        [t("fact_tool"), h("code", {}, oneLine(found.tool, 200))],
        [t("fact_asked"), ago(found.requested_at)],
        [t("fact_expires"), found.state === "open" ? clock(found.expires_at) : null],
        [t("fact_why"), oneLine(found.reason, 2000)],
        [t("fact_decided"), found.decided_by ? `${oneLine(found.decided_by, 80)} ${oneLine(found.decision_reason, 500)}` : null],
      ]),
      // All of it, as JSON with each value on its line, so that no text can look like a key.
      h("pre", { class: "block given whole", tabindex: 0, role: "region", "aria-label": t("given") }, JSON.stringify(found.input, null, 2)),
    ]);
    if (acts.dataset.state === found.state) return;
    acts.dataset.state = found.state;
    const pattern = alwaysPattern(found.input);
    const decide = (what, more) => () => post(at("approvals", id, what), { ...more, reason: reason.value });
    const buttons = [
      doer(t("action_approve_once"), decide("approve"), { scope: "approve", name: "approve" }),
      pattern && doer(t("action_always"), decide("approve", { always: pattern }), { scope: "approve", sure: true, name: "always" }),
      doer(t("action_deny"), decide("deny"), { scope: "approve", name: "deny" }),
    ].filter(Boolean);
    acts.replaceChildren(...(found.state === "open" && buttons.length ? [reason, ...buttons] : []));
  }

  keep(watch({ load: () => get(at("approvals", id)), draw, failed, wants: (event) => event.type.startsWith("approval.") }));
}
