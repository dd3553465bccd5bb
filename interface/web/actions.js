// What a person may do about something that needs them: the commands of `awk needs` as requests, and their buttons.

import { at, get, may, post } from "./api.js";
import { button, h, link } from "./dom.js";
import { stale } from "./refresh.js";
import { oneLine } from "./text.js";
import { t } from "./words.js";

/** The space of a target: @review is review:main, alice@review:x~y is review:x~y. */
export function spaceOf(target) {
  const [place, below] = target.slice(target.indexOf("@") + 1).split("~");
  return `${place.includes(":") ? place : `${place}:main`}${below ? `~${below}` : ""}`;
}

const workflow = (target) => ["workflows", ...spaceOf(target).split("~")[0].split(":")];
const each = (ids, make) => ids.trim().split(/\s+/).map(make);
const call = (...path) => ({ method: "POST", path });
const ID = "[a-z]+\\d+";

/** Commands and what they are over REST. `show`: it is decided where all of it is seen. `sure`: asked once more. */
const COMMANDS = [
  [`(?:approve|deny) (${ID})`, (id) => ({ scope: "approve", show: ["approval", id] })],
  [`answer (${ID}) .*`, (id) => ({ scope: "approve", show: ["instruction", id] })],
  [`cancel ((?:${ID} ?)+)`, (ids) => ({ sure: true, calls: each(ids, (id) => call("instructions", id, "cancel")) })],
  [`retry (${ID})`, (id) => ({ calls: [call("instructions", id, "retry")] })],
  ["reset (\\S+)", (agent) => ({ calls: [call("agents", { agent }, "reset")] })],
  ["continue (@\\S+)", (target) => ({ scope: "approve", calls: [call(...workflow(target), "continue")] })],
  ["continue (\\S+)", (agent) => ({ scope: "approve", calls: [call("agents", { agent }, "continue")] })],
  ["stop (@\\S+)", (target) => ({ sure: true, calls: [{ method: "DELETE", path: workflow(target) }] })],
  [
    `task (done|cancel) (@\\S+) ((?:${ID} ?)+)`,
    (what, target, ids) => ({
      sure: what === "cancel",
      calls: each(ids, (id) => call("spaces", spaceOf(target), "tasks", id, what)),
    }),
  ],
  [
    "proposal vote ([^@\\s]+)(@\\S+) (\\S+)",
    (id, target, choice) => ({
      scope: "approve",
      calls: [{ ...call("spaces", spaceOf(target), "proposals", id, "vote"), body: { choice } }],
    }),
  ],
  [
    "proposal cancel ([^@\\s]+)(@\\S+)",
    (id, target) => ({ sure: true, calls: [call("spaces", spaceOf(target), "proposals", id, "cancel")] }),
  ],
  [
    "agent memory (\\S+) tray (approve|reject) (\\S+)",
    (agent, what, id) => ({ scope: "approve", calls: [call("agents", { agent }, "tray", id, what)] }),
  ],
  [
    "agent soul (\\S+) (approve|reject) (\\S+)",
    (agent, what, id) => ({ scope: "approve", calls: [call("agents", { agent }, "soul", id, what)] }),
  ],
  ["webhook retry (\\S+)", (id) => ({ calls: [call("webhooks", id, "retry")] })],
].map(([pattern, make]) => [new RegExp(`^awk ${pattern}$`), make]);

/** What a command of a need is over REST: {scope, calls, show, sure}; null: only a terminal does that. */
export function requestOf(command) {
  for (const [pattern, make] of COMMANDS) {
    const found = pattern.exec(command);
    if (found) return { scope: "operate", ...make(...found.slice(1)) };
  }
  return null;
}

/** The key by which the kernel has an agent: one that a workflow only refers to is its own everywhere. */
export async function keyOf(target) {
  if (!target.includes("@")) return target;
  const name = target.split("@")[0];
  const { members } = await get(at("spaces", spaceOf(target), "members")).catch(() => ({ members: [] }));
  return members.find((one) => one.name === name)?.agent || target;
}

/** Carries out the calls of a request, one after the other; the agent of a path is looked up first. */
export async function carryOut({ calls }) {
  for (const { method, path, body } of calls) {
    const parts = [];
    for (const part of path) parts.push(typeof part === "string" ? part : await keyOf(part.agent));
    await post(at(...parts), body, { method });
  }
}

/** Says in the line that screen readers hear what came of something. */
export function say(text, bad = false) {
  const place = document.getElementById("said");
  place.replaceChildren(h("span", { class: bad ? "bad" : null }, oneLine(text, 600)));
}

/** Says what was refused and what to do about it. */
export const sayProblem = (problem) =>
  say(problem.status === 0 ? t("no_answer") : [problem.message, problem.hint].filter(Boolean).join(". "), true);

/** A button that does something; one that ends something asks once more. Absent where the token does not open it. */
export function doer(label, act, { scope = "operate", sure = false, name, key } = {}) {
  if (!may(scope)) return null;
  let armed = false;
  const settle = (next) => {
    armed = next;
    made.textContent = next ? t("sure", { what: label }) : label;
    made.classList.toggle("armed", next);
  };
  const made = button(
    label,
    async () => {
      if (sure && !armed) return settle(true);
      made.setAttribute("aria-disabled", "true");
      try {
        await act();
        say(t("did", { what: label }));
        stale();
      } catch (problem) {
        sayProblem(problem);
      }
      made.removeAttribute("aria-disabled");
      settle(false);
    },
    { "data-action": name ?? label, "data-key": key, onblur: () => settle(false) },
  );
  return made;
}

/** The ways to settle a need: buttons, links to where it is decided, and commands that only a terminal has. */
export function needActions(need) {
  return need.actions.map(({ label, command }) => {
    const asked = requestOf(command);
    const key = `${need.kind}:${need.id} ${label}`;
    const shown = t(`action_${label.split(",")[0].replaceAll(" ", "_")}`) ?? oneLine(label, 60);
    if (asked === null) return may("operate") ? h("code", { class: "command", title: oneLine(label) }, oneLine(command)) : null;
    if (!may(asked.scope)) return null;
    if (asked.show) return link(asked.show, shown, { class: "button", "data-action": command.split(" ")[1], "data-key": key });
    return doer(shown, () => carryOut(asked), { scope: asked.scope, sure: asked.sure, name: command.split(" ")[1], key });
  });
}
