// One message, and to whom it came.

import { at, get } from "./api.js";
import { ago, block, h, link, state, swap } from "./dom.js";
import { facts } from "./drawer.js";
import { watch } from "./refresh.js";
import { oneLine } from "./text.js";
import { t } from "./words.js";

/** A message as it stands in a channel. */
export function messageParts(one) {
  return [
    h("p", { class: "head" }, h("b", {}, oneLine(one.from, 80)), one.to.length ? ` → ${oneLine(one.to.join(", "), 160)}` : "", " ", h("small", {}, link(["message", `m${one.seq}`], `m${one.seq}`, { class: "id" }), " ", one.kind === "said" ? "" : `${oneLine(one.kind, 20)} `, one.instruction ? [link(["instruction", one.instruction], one.instruction, { class: "id" }), " "] : null, ago(one.at))),
    one.cleared ? h("p", { class: "none" }, t("cleared")) : block(one.text, { class: "block said" }, 2000),
  ];
}

/** The drawer of #/message/m12. */
export function messageView({ path, title, body, failed, keep }) {
  const id = path[1];
  title.textContent = oneLine(id, 40);
  const place = h("div");
  body.append(place);
  const draw = ({ message, receipts }) =>
    swap(place, [message, receipts], () => [
      facts([[t("fact_space"), link(["space", message.space, "channel"], oneLine(message.space, 120))]]),
      messageParts(message),
      receipts.length ? h("h3", {}, t("receipts")) : null,
      h("ul", { class: "rows" }, receipts.map((one) => h("li", {}, oneLine(one.agent, 120), " ", state(one.state), " ", one.instruction_id ? link(["instruction", one.instruction_id], one.instruction_id, { class: "id" }) : null))),
    ]);
  keep(watch({ load: () => get(at("messages", id)), draw, failed, wants: (event) => event.type.startsWith("instruction.") && event.type !== "instruction.step" }));
}
