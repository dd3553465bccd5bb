// The box to send with: to an agent, a workspace, or an agent of one. Sent again after a silence it arrives once.

import { get, post } from "./api.js";
import { say, sayProblem } from "./actions.js";
import { button, h, link } from "./dom.js";
import { heard } from "./refresh.js";
import { oneLine, targetOf } from "./text.js";
import { t } from "./words.js";

/** A form that sends; `to` fixes whom to. */
export function sendForm({ to = null, id = null } = {}) {
  let key = null;
  let sent = null;
  const target = h("input", { name: "to", required: true, maxlength: 200, list: "targets", "aria-label": t("send_to"), placeholder: t("send_to"), autocomplete: "off", autocapitalize: "off", spellcheck: "false", onfocus: fillTargets });
  const text = h("textarea", { name: "text", rows: 2, required: true, "aria-label": t("send_text"), placeholder: to ? t("send_text_to", { to: oneLine(to, 80) }) : t("send_text") });
  const came = h("small", { class: "came" });

  async function send(event) {
    event.preventDefault();
    const body = { to: to ?? target.value.trim(), text: text.value };
    if (!body.to || !body.text.trim()) return;
    if (JSON.stringify(body) !== sent) key = crypto.randomUUID();
    sent = JSON.stringify(body);
    try {
      const receipt = await post("/messages", body, { key });
      text.value = "";
      sent = null;
      came.replaceChildren(link(["message", receipt.message_id], receipt.message_id), ...receipt.instruction_ids.slice(0, 8).flatMap((one) => [" ", link(["instruction", one], one)]));
      say(t("sent_to", { to: oneLine(body.to, 80) }));
      heard([{ type: "message" }]);
    } catch (problem) {
      sayProblem(problem);
    }
  }

  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send(event);
  });
  return h("form", { class: "send", id, onsubmit: send }, to ? null : target, text, button(t("send"), () => {}, { type: "submit" }), came);
}

/** Keeps the section with the box for whomever. */
export function keepSend(section) {
  section.append(h("h2", { id: "send-box-title" }, t("send_title")), sendForm({ id: "send" }), h("datalist", { id: "targets" }));
}

async function fillTargets() {
  const list = document.getElementById("targets");
  const [agents, { workflows }] = await Promise.all([get("/agents"), get("/workflows")]).catch(() => [{ agents: [] }, { workflows: [] }]);
  const places = workflows.filter((one) => one.state !== "stopped").map((one) => `@${one.name}${one.tag === "main" ? "" : `:${one.tag}`}`);
  const names = [...places, ...agents.agents.map((one) => targetOf(one.name, null))].slice(0, 200);
  list?.replaceChildren(...names.map((value) => h("option", { value })));
}
