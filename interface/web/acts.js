// Buttons and forms that change something: they send a message, start a run, open a space or create an agent.

import { may, post, request } from "./api.js";
import { agentRef, button, Component, h, labelled, link, ref, say } from "./dom.js";
import { eventsOf, stale } from "./stream.js";
import { t } from "./words.js";

async function carry(act, label) {
	try {
		const done = await act();
		say(t("did", { what: label }));
		stale();
		return done ?? null;
	} catch (problem) {
		say("", problem);
	}
}

class Doer extends Component {
	render({ name, act, sure, label, id }, { armed }) {
		const press = () => {
			this.setState({ armed: sure && !armed });
			if (!sure || armed) carry(act, label);
		};
		const shown = armed ? t("sure", { what: label }) : label;
		return button(shown, press, { "data-action": name, "data-key": id, class: armed ? "armed" : null, onblur: () => this.setState({ armed: false }) });
	}
}

// A button; `sure` asks for confirmation. Null if the token lacks the scope.
export const doer = (name, act, { scope = "operate", sure = false, label = t(`action_${name}`) ?? name, key = name } = {}) =>
	may(scope) ? h(Doer, { key, id: key, name, act, sure, label }) : null;

class Form extends Component {
	async submit(event) {
		event.preventDefault();
		const { fields, act, label } = this.props;
		const inputs = fields.map(([name]) => event.target.elements[name]);
		const values = Object.fromEntries(inputs.map((one) => [one.name, one.type === "checkbox" ? one.checked : one.value]));
		const given = JSON.stringify(values);
		[this.given, this.key] = [given, given === this.given ? this.key : crypto.randomUUID()]; // sent again after a lost answer, it has one effect
		const came = await carry(() => act(values, this.key), label);
		if (came === undefined) return;
		this.given = null;
		for (const one of inputs) if (one.tagName === "TEXTAREA") one.value = "";
		this.setState({ came });
	}
	render({ fields, label, id, kind }, { came }) {
		const enter = (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.form.requestSubmit();
		const field = ([name, words, { tag = "input", type, ...more } = {}]) => {
			const made = h(tag, { name, type, ...(type === "checkbox" ? {} : labelled(words)), ...more, onkeydown: tag === "textarea" ? enter : null });
			return type === "checkbox" ? h("label", made, " ", t(words)) : made;
		};
		return h("form.send", { id, class: kind, onsubmit: (event) => this.submit(event) }, fields.map(field), button(label, null, { type: "submit" }), h("small", came));
	}
}

// A form of [name, key of its words, more attributes]; `act` receives its values and an idempotency key, and returns what to show.
export const form = (fields, label, act, more) => h(Form, { fields, label, act, ...more });

const name = { required: true, maxlength: 64, autocapitalize: "off", spellcheck: "false" };

// A message box: for `to`, or with a field for whom it is for.
export function sendForm(to, more) {
	const target = ["to", "send_to", { ...name, maxlength: 200 }];
	const text = ["text", "send_text", { tag: "textarea", required: true, rows: 2 }];
	const send = async (given, key) => {
		const { message_id: id, instruction_ids: ids } = await post("/messages", { to: to ?? given.to.trim(), text: given.text }, key);
		return [id, ...ids.slice(0, 8)].map((one) => [ref(one), " "]);
	};
	return form(to ? [text] : [target, text], t("send"), send, { kind: to ? "to" : null, ...more });
}

export const sendView = () => ({ draw: () => [h("h2", { id: "send-box-title" }, t("send_title")), sendForm(null, { id: "send" })] });

const split = (text) => Array.from(text.matchAll(/"([^"]*)"|(\S+)/g), ([, quoted, plain]) => quoted ?? plain);
const quoted = (text) => (/^[\w./@:=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

// The run continues when its stream is closed: only its id is read.
async function startRun({ workflow, tag, params, cost }, key) {
	const body = { workflow: workflow.trim(), ...(tag.trim() && { tag: tag.trim() }), params: split(params), ...(cost && { max_cost_usd: Number(cost) }), attended: true };
	const answer = await request("POST", "/run", { body, headers: { "Idempotency-Key": key } });
	for await (const events of eventsOf(answer)) {
		const accepted = events.find((one) => one.type === "accepted");
		if (accepted) return ref(JSON.parse(accepted.data).id);
	}
}

async function openSpace({ name: named, members, open }, key) {
	const { space } = await post("/spaces", { name: named.trim(), members: split(members.replaceAll(",", " ")), open }, key);
	return link(["space", space, "channel"], space);
}

// Creating agents needs the scope `admin`. Without it, this shows the command for a terminal.
async function createAgent({ name: named, model, system }, key) {
	if (may("admin")) {
		const { name: created } = await post("/agents", { name: named.trim(), model: model.trim(), ...(system.trim() && { system }) }, key);
		return [agentRef(created), " ", t("agent_ends")];
	}
	const words = ["awk", "agent", "create", named.trim(), "--model", model.trim(), ...(system.trim() ? ["--system", system.trim()] : [])];
	return [t("in_terminal"), " ", h("code", words.map(quoted).join(" "))];
}

const FORMS = {
	"start_run": [startRun, [["workflow", "start_workflow", name], ["tag", "start_tag", { maxlength: 64 }], ["params", "start_params", { maxlength: 2000 }], ["cost", "start_cost", { type: "number", min: 0.01, step: "any" }]]],
	"open_space": [openSpace, [["name", "space_name", name], ["members", "space_members", { maxlength: 2000 }], ["open", "space_open", { type: "checkbox" }]]],
	"create_agent": [createAgent, [["name", "agent_name", name], ["model", "agent_model", name], ["system", "agent_system", { tag: "textarea", rows: 2 }]]],
};

export const startView = () => ({
	draw: () => [
		h("h2", { id: "start-title" }, t("start")),
		Object.entries(FORMS).map(([key, [act, fields]]) => h("details", { id: key.replace("_", "-") }, h("summary", t(key)), form(fields, t(key === "create_agent" && !may("admin") ? "show_command" : key), act, { kind: "stack" }))),
	],
});
