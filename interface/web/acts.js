// Buttons and forms that change something.

import { may } from "./api.js";
import { button, Component, h, labelled, say } from "./dom.js";
import { stale } from "./stream.js";
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
