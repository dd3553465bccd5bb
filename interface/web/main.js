// Signs in, builds the fixed parts of the page, and binds its keys.

import { sendView, startView } from "./acts.js";
import { may, session, signIn } from "./api.js";
import { button, h, hashOf, isPlain, labelled, link, render, say, tick } from "./dom.js";
import { keepDrawer } from "./drawer.js";
import { needsView, overviewView } from "./needs.js";
import { runsView } from "./runs.js";
import { follow, watch } from "./stream.js";
import { agentsView } from "./table.js";
import { line } from "./text.js";
import { language, setLanguage, t } from "./words.js";

const byId = (id) => document.getElementById(id);
const { dataset } = document.body;
const KEYS = { "/": "slash", "?": "question", Esc: "escape", "↑ ↓ j k": "arrows", Enter: "enter", "+ - 0 ← →": "zoom", n: "n", a: "a", r: "r", m: "m" };
let drawer = null;

function signedOut(reason) {
	[dataset.state, dataset.stream] = ["signed-out", "away"];
	document.title = "agent-worker";
	drawer?.end();
	render(null, byId("top"));
	render(h("section.out", h("h1", "agent-worker"), h("p", { role: "alert" }, t(`out_${reason}`) ?? t("no_answer")), h("p", t("out_do")), h("pre.block", "awk open")), byId("main"));
}

function header(project) {
	const find = (event) => {
		event.preventDefault();
		const words = event.target.elements.search.value.trim();
		if (words) location.hash = hashOf(["search", words]);
	};
	const other = language === "en" ? "zh" : "en";
	render([
		h("h1", h("a", { href: "#" }, project)),
		link(["projects"], t("projects")),
		h("p", { id: "stream", role: "status" }),
		h("form", { role: "search", onsubmit: find }, h("input", { id: "search", name: "search", type: "search", ...labelled("search"), maxlength: 200 })),
		button(t("other_language"), () => setLanguage(other), { class: "quiet", lang: other }),
		button(t("help"), openHelp, { class: "quiet" }),
	], byId("top"));
}

function openHelp() {
	const keys = Object.entries(KEYS).map(([key, name]) => [h("dt", h("kbd", key)), h("dd", t(`help_${name}`))]);
	const close = button(t("close"), () => byId("help").close());
	render([h("h2", { id: "help-title" }, t("help")), h("dl", keys), h("p", t(may("operate") ? "help_more" : "help_read")), h("p", t("help_projects"), " ", link(["projects"], t("projects"), { onclick: () => byId("help").close() })), close], byId("help"));
	byId("help").showModal();
}

function keep(place, make, project) {
	const spec = make({ place, project, again: () => view.again(), redraw: () => view.redraw() });
	const view = watch({ ...spec, draw: (found) => found !== undefined && render(spec.draw(found), place) });
}

function says(state) {
	dataset.stream = state;
	const text = state === "hidden" ? "" : t(state === "away" ? "kernel_away" : "kernel_live");
	if (byId("stream") && byId("stream").textContent !== text) byId("stream").textContent = text;
}

function keys(event) {
	const field = event.target.closest("input, textarea, dialog");
	if (event.key === "Escape" && !byId("help").open) {
		if (field?.type === "search" && field.value) return;
		if (field && (field.value || !field.closest("#drawer"))) field.blur();
		else drawer.close();
	}
	if (field || !isPlain(event)) return;
	if (event.key === "?") openHelp();
	const goal = { "/": "#search", n: "#needs a, #needs button", a: "#agents th a", r: "#runs li a", m: "#drawer textarea, #send textarea" }[event.key];
	const found = goal && document.querySelector(goal);
	if (!found) return;
	event.preventDefault();
	found.focus();
}

async function begin() {
	document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
	byId("skip").textContent = t("skip");
	byId("skip").onclick = (event) => {
		event.preventDefault();
		byId("main").focus();
	};
	const refused = await signIn(signedOut);
	if (refused) return signedOut(refused);
	const project = line(session.project.name, 60);
	header(project);
	const parts = { overview: overviewView, needs: needsView, agents: agentsView, runs: runsView, ...(may("operate") ? { "send-box": sendView, start: startView } : {}) };
	render(Object.keys(parts).map((id) => h("section", { id, "aria-labelledby": `${id}-title` })), byId("main"));
	for (const [id, make] of Object.entries(parts)) keep(byId(id), make, project);
	drawer = keepDrawer(byId("drawer"));
	document.addEventListener("keydown", keys);
	setInterval(() => document.hidden || tick(), 1000);
	follow(says);
	dataset.state = "ready";
}

begin().catch((error) => say(`${error}`));
