// A workspace: its channel with a box to send, its documents, its tasks as a graph, its votes.

import { at, get, may } from "./api.js";
import { button, h, link, state } from "./dom.js";
import { documentsPart } from "./documents.js";
import { tabs } from "./drawer.js";
import { messageParts } from "./message.js";
import { watch } from "./refresh.js";
import { sendForm } from "./send.js";
import { oneLine } from "./text.js";
import { tasksPart } from "./tasks.js";
import { votesPart } from "./votes.js";
import { t } from "./words.js";

const PAGE = 100;

/** The target of a space: review:main is @review, dm:alice is alice. */
export function targetOfSpace(space) {
  const [workflow, tag = "main"] = [space.slice(0, space.indexOf(":")), space.slice(space.indexOf(":") + 1)];
  if (workflow === "dm") return tag;
  const [plain, below] = tag.split("~");
  return `@${workflow}${plain === "main" ? "" : `:${plain}`}${below ? `~${below}` : ""}`;
}

/** The drawer of #/space/review:main/channel, documents, tasks or votes. */
export function spaceView({ path, title, body, failed, keep, onEnd }) {
  const [, space, part = "channel"] = path;
  title.textContent = oneLine(targetOfSpace(space), 120);
  const isPersonal = space.startsWith("dm:");
  if (!isPersonal) body.append(tabs(["space", space], ["channel", "documents", "tasks", "votes"], part));
  const show = { documents: documentsPart, tasks: tasksPart, votes: votesPart }[part] ?? channelPart;
  show({ space, body, failed, keep, onEnd });
}

function channelPart({ space, body, failed, keep }) {
  let before = null; // the message before which the shown page ends; null: the newest
  let next = null;
  const people = h("p", { class: "members" });
  const earlier = button(t("earlier"), () => ((before = next), view.again()), { hidden: true });
  const newest = button(t("newest"), () => ((before = null), view.again()), { hidden: true });
  const list = h("ol", { class: "messages", "aria-label": t("tab_channel") });
  const none = h("p", { class: "none", hidden: true }, t("nothing_said"));
  body.append(people, earlier, none, list, newest, ...(may("operate") ? [sendForm({ to: targetOfSpace(space) })] : []));
  const made = new Map();

  async function load() {
    const [channel, { members }] = await Promise.all([get(at("spaces", space, "channel"), { limit: PAGE, before }), get(at("spaces", space, "members"))]);
    return { channel, members };
  }

  function draw({ channel, members }) {
    const isLow = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
    people.replaceChildren(...members.slice(0, 50).flatMap((one) => [link(["agent", one.agent || one.name], oneLine(one.name, 60)), " ", state(one.state), "  "]));
    const kept = new Set(channel.messages.map((one) => one.seq));
    for (const [seq, element] of made) if (!kept.has(seq)) element.remove(), made.delete(seq);
    channel.messages.forEach((one, index) => {
      if (!made.has(one.seq)) made.set(one.seq, h("li", { "data-seq": one.seq }, messageParts(one)));
      if (list.children[index] !== made.get(one.seq)) list.insertBefore(made.get(one.seq), list.children[index] ?? null);
    });
    next = channel.next;
    earlier.hidden = next === null;
    newest.hidden = before === null;
    none.hidden = channel.messages.length > 0;
    if (isLow && before === null) list.scrollTop = list.scrollHeight;
  }

  const view = watch({ load, draw, failed, wants: (event) => (event.type === "message" && (!event.space || event.space === space)) || (event.space === space && (event.type === "space.cleared" || event.type === "agent.changed")) });
  keep(view);
}
