// The message box, and turns of agents.

import { form } from "./acts.js";
import { post } from "./api.js";
import { ago, h, ref, render } from "./dom.js";
import { line } from "./text.js";
import { t } from "./words.js";

export function sendForm(to, more) {
	const target = ["to", "send_to", { required: true, maxlength: 200, autocapitalize: "off", spellcheck: "false" }];
	const text = ["text", "send_text", { tag: "textarea", required: true, rows: 2 }];
	const send = async (given, key) => {
		const { message_id: id, instruction_ids: ids } = await post("/messages", { to: to ?? given.to.trim(), text: given.text }, key);
		return [id, ...ids.slice(0, 8)].map((one) => [ref(one), " "]);
	};
	return form(to ? [text] : [target, text], t("send"), send, { kind: to ? "to" : null, ...more });
}

export const keepSend = (section) =>
	render([h("h2", { id: "send-box-title" }, t("send_title")), sendForm(null, { id: "send" })], section);

export const turnParts = (one) =>
	h("article.turn",
		h("p", ref(one.id.split(".")[0]), " ", h("b", one.sender), " ", h("small", one.space, " ", ago(one.at))),
		h("p", line(one.text, 500)),
		(one.calls ?? []).slice(0, 5).map((call) => h("p.call", h("b", call.tool), " ", line(`${call.input} ${call.output ?? ""}`))),
	);
