// The drawer: details of one object, which the fragment of the URL names.

import { button, dots, h, link, render } from "./dom.js";
import { projectsView } from "./projects.js";
import { runView } from "./runs.js";
import { documentView, searchView, spaceView } from "./space.js";
import { spendingView } from "./spending.js";
import { watch } from "./stream.js";
import { line } from "./text.js";
import { agentView, approvalView, instructionView, messageView } from "./work.js";
import { t } from "./words.js";

const VIEWS = {
	agent: agentView, approval: approvalView, doc: documentView, instruction: instructionView, message: messageView,
	projects: projectsView, run: runView, search: searchView, space: spaceView, spending: spendingView,
};

// #/run/r3 is ["run", "r3"]; null if it is not a path. A view without parameters has one part.
export function pathOf(hash) {
	try {
		const path = hash.slice(2).split("/").map(decodeURIComponent);
		return hash.startsWith("#/") && Object.hasOwn(VIEWS, path[0]) && (path[1] || !VIEWS[path[0]].length) ? path : null;
	} catch {
		return null;
	}
}

export const tabs = (path, names, now) =>
	h("nav.tabs", { "aria-label": t("parts") }, names.map((name) => link([...path, name], t(`tab_${name}`), { "aria-current": name === now ? "page" : null })));

export function keepDrawer(aside) {
	let view = null;
	let opener = null;

	function end() {
		view?.stop();
		view = null;
		render(null, aside);
		aside.hidden = true;
		document.body.classList.remove("open", "wide");
	}

	// A view is {load, draw, wants}: `draw` returns what to show of what `load` found.
	function show() {
		const path = pathOf(location.hash);
		const isOpen = !aside.hidden;
		const inside = aside.contains(document.activeElement);
		if (!isOpen) opener = document.activeElement;
		end();
		if (!path) return isOpen ? back() : undefined;
		const spec = VIEWS[path[0]]({ path, again: () => view.again(), redraw: () => view.redraw() });
		if (!spec) return;
		function draw(found, problem) {
			const refused = problem && line(dots(problem.message, problem.hint), 500);
			const bar = h("div.bar", h("h2", { id: "drawer-title", tabindex: -1 }, spec.title ?? line(path[1], 120)), button(t("close"), close, { id: "close", class: "quiet" }));
			render(h("div", bar, h("p.bad", { role: "alert" }, refused), h("div.body", spec.tabs, found === undefined ? null : spec.draw(found))), aside);
		}
		aside.hidden = false;
		document.body.classList.add("open", ...(spec.wide ? ["wide"] : []));
		view = watch({ ...spec, draw });
		if (!isOpen || inside) document.getElementById("drawer-title").focus({ preventScroll: true });
	}

	function back() {
		const key = opener?.dataset.key;
		const same = opener?.isConnected && opener !== document.body ? opener : key && document.querySelector(`[data-key="${CSS.escape(key)}"]`);
		(same || document.getElementById("main")).focus();
	}

	function close() {
		if (aside.hidden) return;
		history.pushState(null, "", location.pathname);
		show();
	}

	window.addEventListener("popstate", show);
	show();
	return { close, end };
}
