// Forms that start a run, open a space and create an agent.

import { form } from "./acts.js";
import { post, request } from "./api.js";
import { h, link, ref, render } from "./dom.js";
import { Parser } from "./stream.js";
import { t } from "./words.js";

const split = (text) => Array.from(text.matchAll(/"([^"]*)"|(\S+)/g), ([, quoted, plain]) => quoted ?? plain);
const quoted = (text) => (/^[\w./@:=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
const name = { required: true, maxlength: 64, autocapitalize: "off", spellcheck: "false" };

// The run continues when its stream is closed: only its id is read.
async function startRun({ workflow, tag, params, cost }, key) {
	const body = { workflow: workflow.trim(), ...(tag.trim() && { tag: tag.trim() }), params: split(params), ...(cost && { max_cost_usd: Number(cost) }), attended: true };
	const answer = await request("POST", "/run", { body, headers: { "Idempotency-Key": key } });
	const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
	const parser = new Parser();
	for (;;) {
		const { value, done } = await reader.read();
		const accepted = done ? null : parser.push(value).find((one) => one.type === "accepted");
		if (!done && !accepted) continue;
		reader.cancel().catch(() => {});
		return accepted ? ref(JSON.parse(accepted.data).id) : null;
	}
}

async function openSpace({ name: named, members, open }, key) {
	const { space } = await post("/spaces", { name: named.trim(), members: split(members.replaceAll(",", " ")), open }, key);
	return link(["space", space, "channel"], space);
}

// A token of the page never creates agents, so this makes the command for a terminal.
function createCommand({ name: named, model, system }) {
	const words = ["awk", "agent", "create", named.trim(), "--model", model.trim(), ...(system.trim() ? ["--system", system.trim()] : [])];
	return [t("in_terminal"), " ", h("code", words.map(quoted).join(" "))];
}

const FORMS = {
	"start_run": [startRun, [["workflow", "start_workflow", name], ["tag", "start_tag", { maxlength: 64 }], ["params", "start_params", { maxlength: 2000 }], ["cost", "start_cost", { type: "number", min: 0.01, step: "any" }]]],
	"open_space": [openSpace, [["name", "space_name", name], ["members", "space_members", { maxlength: 2000 }], ["open", "space_open", { type: "checkbox" }]]],
	"create_agent": [createCommand, [["name", "agent_name", name], ["model", "agent_model", name], ["system", "agent_system", { tag: "textarea", rows: 2 }]]],
};

export const keepStart = (section) =>
	render([
		h("h2", { id: "start-title" }, t("start")),
		Object.entries(FORMS).map(([key, [act, fields]]) => h("details", { id: key.replace("_", "-") }, h("summary", t(key)), form(fields, t(key === "create_agent" ? "show_command" : key), act, { kind: "stack" }))),
	], section);
