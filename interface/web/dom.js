// Elements, made one by one: there is no markup anywhere, so nothing that others wrote can become any.

import { escape, age, clock, oneLine, secondsSince } from "./text.js";
import { t } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const WHOLE = 4000; // characters of a long text that are shown before somebody asks for more

function fill(element, fields, children) {
  for (const [name, value] of Object.entries(fields ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : escape(child));
  }
  return element;
}

/** An HTML element. Fields that begin with `on` are listeners; children that are no nodes are text, escaped. */
export const h = (name, fields, ...children) => fill(document.createElement(name), fields, children);

/** An element of a drawing. */
export const s = (name, fields, ...children) => fill(document.createElementNS(SVG, name), fields, children);

/** A button. `key` names it for focus and tests. */
export const button = (label, act, fields) => h("button", { type: "button", onclick: act, ...fields }, label);

/** How long ago something was, kept true by `tick`. */
export function ago(at) {
  const passed = secondsSince(at);
  return passed === null ? h("span", {}, "-") : h("time", { datetime: at, title: clock(at) }, age(passed));
}

/** Makes the ages below `root` true again. */
export function tick(root) {
  for (const element of root.querySelectorAll("time")) {
    const text = age(secondsSince(element.dateTime) ?? 0);
    if (element.textContent !== text) element.textContent = text;
  }
}

/** A text of others on lines of its own: its beginning, and a button for the rest. */
export function block(text, fields, most = WHOLE) {
  const whole = String(text ?? "");
  const shown = h("pre", { class: "block", tabindex: 0, role: "region", "aria-label": t("text"), ...fields }, whole.slice(0, most));
  if (whole.length <= most) return shown;
  const more = button(t("all_of", { n: whole.length }), () => {
    shown.textContent = escape(whole);
    more.remove();
  });
  return h("div", {}, shown, more);
}

/** Lines of a change, marked by sign and by colour. */
export function diff(text, most = 2000) {
  const lines = String(text).split("\n");
  const kind = { "+": "added", "-": "removed", "@": "place" };
  const made = (some) => some.map((line) => h("span", { class: kind[line[0]] }, `${line}\n`));
  const shown = h("pre", { class: "block diff", tabindex: 0, role: "region", "aria-label": t("changes") }, made(lines.slice(0, most)));
  if (lines.length <= most) return shown;
  const more = button(t("all_of", { n: lines.length }), () => {
    shown.append(...made(lines.slice(most, most + 20000)));
    more.remove();
  });
  return h("div", {}, shown, more);
}

/** The state of something: a shape and a word, so that no colour is needed. */
export function state(word) {
  const shapes = {
    running: "▶", leased: "▶", claimed: "▶", waiting: "◷", backoff: "◷", yielded: "◷", queued: "·", idle: "○", ready: "○",
    open: "○", paused: "‖", stopped: "■", cancelled: "■", error: "✕", failed: "✕", dead: "✕", rejected: "✕", denied: "✕",
    timeout: "✕", done: "✓", resolved: "✓", granted: "✓", merged: "✓", accepted: "✓", incomplete: "◐", expired: "◐",
  };
  return h("span", { class: "state", "data-state": word }, h("span", { "aria-hidden": "true" }, shapes[word] ?? "·"), " ", t(`state_${word}`) ?? oneLine(word, 40));
}

/** What is in `place` becomes `children`, if `data` is other than it was; whoever had the focus has it again. */
export function swap(place, data, make) {
  const seen = JSON.stringify(data);
  if (place.seen === seen) return false;
  place.seen = seen;
  const held = place.contains(document.activeElement) ? document.activeElement : null;
  const key = held?.dataset.key;
  const top = place.scrollTop;
  place.replaceChildren(...[make()].flat(3).filter((one) => one));
  place.scrollTop = top;
  if (held && !held.isConnected) (key && place.querySelector(`[data-key="${CSS.escape(key)}"]`))?.focus({ preventScroll: true });
  return true;
}

/** A link to a part of this page. */
export const link = (path, label, fields) => h("a", { href: hashOf(path), "data-key": path.join("/"), ...fields }, label);

/** The fragment of a place: ["run", "r3"] is #/run/r3. */
export const hashOf = (path) => `#/${path.map((part) => encodeURIComponent(part)).join("/")}`;

/** Arrow keys, j, k, Home and End move the focus among what `selector` finds in `root`; one of them is a tab stop. */
export function roving(root, selector, { sideways = false } = {}) {
  const all = () => [...root.querySelectorAll(selector)];
  const settle = () => {
    const found = all();
    const current = found.find((one) => one === document.activeElement) ?? found.find((one) => one.tabIndex === 0) ?? found[0];
    for (const one of found) one.tabIndex = one === current ? 0 : -1;
  };
  const steps = sideways ? { ArrowRight: 1, ArrowLeft: -1 } : { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 };
  root.addEventListener("focusin", settle);
  root.addEventListener("keydown", (event) => {
    const found = all();
    const place = found.indexOf(document.activeElement);
    if (place < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const next = event.key === "Home" ? 0 : event.key === "End" ? found.length - 1 : place + (steps[event.key] ?? 0);
    if (next === place || !found[next]) return;
    event.preventDefault();
    found[next].focus();
    settle();
  });
  return settle;
}
