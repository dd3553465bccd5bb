// The drawer beside the page: one thing looked at closely. The fragment of the address says which.

import { button, h, hashOf, link } from "./dom.js";
import { oneLine } from "./text.js";
import { t } from "./words.js";
import { agentView } from "./agent.js";
import { approvalView } from "./approval.js";
import { documentView } from "./documents.js";
import { instructionView } from "./instruction.js";
import { messageView } from "./message.js";
import { runView } from "./runs.js";
import { searchView } from "./search.js";
import { spaceView } from "./space.js";

const VIEWS = {
  agent: agentView,
  approval: approvalView,
  doc: documentView,
  instruction: instructionView,
  message: messageView,
  run: runView,
  search: searchView,
  space: spaceView,
};

/** The path that a fragment names: #/run/r3 is ["run", "r3"]; null where it names none. */
export function pathOf(hash) {
  if (!hash.startsWith("#/")) return null;
  try {
    const path = hash.slice(2).split("/").map(decodeURIComponent);
    return Object.hasOwn(VIEWS, path[0]) && path.length > 1 && path[1] ? path : null;
  } catch {
    return null; // half of an escape
  }
}

/** The tabs of a view: links, of which one is where we are. */
export const tabs = (path, names, now) =>
  h(
    "nav",
    { class: "tabs", "aria-label": t("parts") },
    names.map((name) => link([...path, name], t(`tab_${name}`), { "aria-current": name === now ? "page" : null })),
  );

/** Name and value of each fact, those without a value left out. */
export const facts = (rows) =>
  h("dl", { class: "facts" }, rows.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));

/** Opens and closes the drawer by the address. Returns {close, end}. */
export function keepDrawer(aside) {
  let stops = [];
  let opener = null;

  function end() {
    for (const stop of stops) stop();
    stops = [];
    aside.replaceChildren();
    aside.hidden = true;
    document.body.classList.remove("open");
  }

  function show() {
    const path = pathOf(location.hash);
    const isOpen = !aside.hidden;
    if (!isOpen && path) opener = document.activeElement;
    const inside = aside.contains(document.activeElement);
    end();
    if (!path) {
      if (isOpen) back();
      return;
    }
    const title = h("h2", { id: "drawer-title", tabindex: -1 }, oneLine(path[1], 120));
    const problem = h("p", { class: "bad", role: "alert", hidden: true });
    const body = h("div", { class: "body" });
    const failed = (found) => {
      problem.hidden = false;
      problem.textContent = oneLine([found.message, found.hint].filter(Boolean).join(". "), 500);
    };
    aside.replaceChildren(h("div", { class: "bar" }, title, button(t("close"), close, { class: "quiet", id: "close" })), problem, body);
    aside.hidden = false;
    document.body.classList.add("open");
    const keep = (view) => stops.push(view.stop);
    VIEWS[path[0]]({ path, title, body, failed, keep, onEnd: (stop) => stops.push(stop) });
    if (!isOpen || inside) title.focus({ preventScroll: true });
  }

  function back() {
    const same = opener?.isConnected ? opener : opener?.dataset?.key && document.querySelector(`[data-key="${CSS.escape(opener.dataset.key)}"]`);
    (same || document.getElementById("main")).focus();
    opener = null;
  }

  function close() {
    if (aside.hidden) return;
    history.pushState(null, "", location.pathname);
    show();
  }

  window.addEventListener("hashchange", show);
  window.addEventListener("popstate", show);
  show();
  return { close, end };
}

/** Goes to a part of this page. */
export const go = (path) => void (location.hash = hashOf(path));
