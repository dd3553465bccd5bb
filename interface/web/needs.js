// What needs a person, first of all: the list of `awk needs`, its number in the title, and what settles each.

import { get } from "./api.js";
import { needActions } from "./actions.js";
import { ago, button, h, link, swap } from "./dom.js";
import { watch } from "./refresh.js";
import { oneLine } from "./text.js";
import { t } from "./words.js";

const PAGE = 200;
const MOVING = new Set(["delta", "progress", "message", "instruction.step", "worker.log", "attempt.started", "instruction.leased"]);

/** Where the thing is shown that a need is about; null: it has no place of its own here. */
export function placeOf({ kind, id, agent, space, run }) {
  if (kind === "approval") return ["approval", id];
  if (kind === "answer" || kind === "dead") return ["instruction", id];
  if (kind === "vote") return ["space", space, "votes"];
  if (kind === "task") return ["space", space, "tasks"];
  if (kind === "limit" && run) return ["run", run];
  if (["agent_error", "credentials", "quota", "limit"].includes(kind)) return ["agent", id];
  return agent ? ["agent", agent] : null;
}

function row(need) {
  const place = placeOf(need);
  const key = `${need.kind}:${need.id}`;
  const text = oneLine(need.text, 300);
  const facts = [
    oneLine(need.id, 80),
    need.space && !need.space.startsWith("dm:") ? t("in_space", { space: oneLine(need.space, 120) }) : null,
    need.blocks.length ? t("blocks", { ids: oneLine(need.blocks.slice(0, 8).join(", "), 120), more: Math.max(need.blocks.length - 8, 0) }) : null,
  ];
  return h(
    "li",
    { class: "need", "data-need": key },
    h("span", { class: "kind", "data-kind": need.kind }, t(`need_${need.kind}`) ?? oneLine(need.kind, 30)),
    h("div", { class: "what" }, place ? link(place, text, { "data-key": key }) : text, h("small", {}, facts.filter(Boolean).join(" · "), need.since ? [" · ", ago(need.since)] : null)),
    h("div", { class: "acts" }, needActions(need)),
  );
}

/** Keeps the section of needs, and the number in the title. */
export function keepNeeds(section, project) {
  let shown = PAGE;
  const list = h("ul", { class: "needs" });
  const head = h("h2", { id: "needs-title" });
  section.append(head, list);

  function draw({ items, total }) {
    document.title = `(${total}) ${project}`;
    head.textContent = total ? t("need_you", { n: total }) : t("nothing_needs_you");
    section.classList.toggle("calm", total === 0);
    const left = total - items.length;
    swap(list, items, () => [
      items.map(row),
      left > 0 ? h("li", {}, button(t("more_of", { n: left }), () => ((shown += PAGE), view.again()))) : null,
    ]);
  }

  const view = watch({ load: () => get("/needs", { limit: Math.min(shown, 1000) }), draw, wants: (event) => !MOVING.has(event.type) });
}
