// The page: signs in, lays out what is always there, follows the events, and has keys for all of it.

import { may, session, signIn } from "./api.js";
import { say } from "./actions.js";
import { button, h, hashOf, tick } from "./dom.js";
import { keepDrawer } from "./drawer.js";
import { keepNeeds } from "./needs.js";
import { heard, stale } from "./refresh.js";
import { keepRuns } from "./runs.js";
import { keepSend } from "./send.js";
import { follow } from "./stream.js";
import { keepAgents } from "./table.js";
import { oneLine } from "./text.js";
import { language, setLanguage, t } from "./words.js";

const main = document.getElementById("main");
const KEYS = ["slash", "question", "escape", "arrows", "enter", "n", "a", "r", "m"];
let drawer = null;

/** Says how to get in, in place of everything else. */
function signedOut(reason) {
  document.body.dataset.state = "signed-out";
  document.body.dataset.stream = "away";
  document.title = "agent-worker";
  document.getElementById("top").replaceChildren();
  drawer?.end();
  main.replaceChildren(
    h("section", { class: "out" }, h("h1", {}, "agent-worker"), h("p", { role: "alert" }, t(`out_${reason}`)), h("p", {}, t("out_do")), h("pre", { class: "block" }, "awk open")),
  );
}

function header(project) {
  const search = h("input", { id: "search", name: "search", type: "search", placeholder: t("search"), "aria-label": t("search_long"), autocomplete: "off", maxlength: 200 });
  const find = (event) => {
    event.preventDefault();
    if (search.value.trim()) location.hash = hashOf(["search", search.value.trim()]);
  };
  document.getElementById("top").replaceChildren(
    h("h1", {}, oneLine(project, 60)),
    h("p", { id: "stream", role: "status", "aria-live": "polite" }),
    h("form", { role: "search", onsubmit: find }, search),
    button(t("other_language"), () => setLanguage(language === "en" ? "zh" : "en"), { class: "quiet", lang: language === "en" ? "zh" : "en" }),
    button(t("help"), openHelp, { class: "quiet" }),
  );
}

function openHelp() {
  const dialog = document.getElementById("help");
  const rows = KEYS.map((key) => [h("dt", {}, h("kbd", {}, t(`key_${key}`))), h("dd", {}, t(`help_${key}`))]);
  dialog.replaceChildren(
    h("h2", { id: "help-title" }, t("help")),
    h("dl", {}, rows),
    h("p", {}, may("operate") ? t("help_more") : t("help_read")),
    button(t("close"), () => dialog.close()),
  );
  dialog.showModal();
}

function says(state) {
  document.body.dataset.stream = state;
  const line = document.getElementById("stream");
  const text = state === "away" ? t("kernel_away") : state === "hidden" ? "" : t("kernel_live");
  if (line && line.textContent !== text) line.textContent = text;
}

const focus = (selector) => {
  const found = document.querySelector(selector);
  found?.focus();
  return Boolean(found);
};

function keys(event) {
  const typing = event.target.closest("input, textarea, select, dialog");
  if (event.key === "Escape" && !document.getElementById("help").open) {
    if (typing?.value && typing.type === "search") return;
    if (typing && !typing.closest("#drawer")) typing.blur();
    else drawer.close();
    return;
  }
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const act = {
    "/": () => focus("#search"),
    "?": () => (openHelp(), true),
    n: () => focus("#needs a, #needs button, #needs-title"),
    a: () => focus('#agents th a[tabindex="0"]'),
    r: () => focus('#runs a[tabindex="0"]'),
    m: () => focus("#drawer textarea, #send textarea"),
  }[event.key];
  if (act?.()) event.preventDefault();
}

async function begin() {
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  const skip = document.getElementById("skip");
  skip.textContent = t("skip");
  skip.addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  const refused = await signIn(signedOut);
  if (refused) return signedOut(refused);
  const project = oneLine(session.project?.name || "agent-worker", 60);
  document.title = project;
  header(project);
  const section = (id) => h("section", { id, "aria-labelledby": `${id}-title` });
  const parts = ["needs", "agents", "runs", "send-box"].map(section);
  main.replaceChildren(...(may("operate") ? parts : parts.slice(0, 3)));
  keepNeeds(parts[0], project);
  keepAgents(parts[1]);
  keepRuns(parts[2]);
  if (may("operate")) keepSend(parts[3]);
  drawer = keepDrawer(document.getElementById("drawer"));
  document.addEventListener("keydown", keys);
  setInterval(() => document.hidden || tick(document), 1000);
  follow({ heard, stale, says });
  document.body.dataset.state = "ready";
}

begin().catch((problem) => say(String(problem?.message ?? problem), true));
