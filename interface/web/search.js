// Search: an id leads to its thing, a name to what is called so, other words to what agents said, heard and did.

import { at, get } from "./api.js";
import { ago, h, link, state } from "./dom.js";
import { go } from "./drawer.js";
import { watch } from "./refresh.js";
import { oneLine, targetOf } from "./text.js";
import { t } from "./words.js";

const AGENTS = 12; // whose turns are searched
const EACH = 8;

/** The place of an id; null: it is none. */
export function placeOfId(text) {
  const found = /^([irma])(\d{1,18})(?:[-.]\d+)?$/.exec(text.trim());
  if (!found) return null;
  return [{ i: "instruction", r: "run", m: "message", a: "approval" }[found[1]], `${found[1]}${found[2]}`];
}

/** The drawer of #/search/WORDS. */
export function searchView({ path, title, body, failed, keep }) {
  const words = path.slice(1).join("/");
  title.textContent = t("search_of", { words: oneLine(words, 80) });
  const place = placeOfId(words);
  if (place) {
    history.replaceState(null, "", location.pathname);
    return void go(place);
  }
  const names = h("ul", { class: "rows" });
  const turns = h("div");
  const note = h("p", { class: "none", role: "status" }, t("searching"));
  body.append(names, note, turns);

  async function load() {
    const [{ agents }, { runs }] = await Promise.all([get("/ps", { all: "true" }), get("/runs", { limit: 200 })]);
    const isIn = (text) => text.toLowerCase().includes(words.toLowerCase());
    const targets = agents.map((one) => targetOf(one.name, one.space));
    const asked = [...agents].sort((a, b) => (b.last_event_at ?? "").localeCompare(a.last_event_at ?? "")).slice(0, AGENTS).map((one) => targetOf(one.name, one.space));
    const answers = await Promise.all(asked.map((agent) => get(at("agents", agent, "thread", "search"), { query: words.slice(0, 500), limit: EACH }).catch((problem) => (problem.status ? { found: [] } : Promise.reject(problem)))));
    const hits = answers.flatMap((answer, index) => answer.found.map((hit) => ({ ...hit, agent: asked[index] })));
    const best = new Map();
    for (const hit of hits.sort((a, b) => b.score - a.score)) if (!best.has(hit.turn.id)) best.set(hit.turn.id, hit);
    return {
      agents: targets.filter(isIn).slice(0, 50),
      spaces: [...new Set(runs.map((one) => one.run))].filter(isIn).slice(0, 50),
      hits: [...best.values()],
      asked: asked.length,
      all: targets.length,
      behind: answers.some((answer) => answer.behind),
    };
  }

  function draw({ agents, spaces, hits, asked, all, behind }) {
    names.replaceChildren(
      ...agents.map((one) => h("li", {}, state("agent"), " ", link(["agent", one], oneLine(one, 120)))),
      ...spaces.map((one) => h("li", {}, state("workspace"), " ", link(["space", one, "channel"], oneLine(one, 120)))),
    );
    note.textContent = [t("found_n", { n: hits.length }), asked < all ? t("searched_of", { asked, all }) : "", behind ? t("search_behind") : ""].filter(Boolean).join(" ");
    turns.replaceChildren(
      ...hits.map(({ turn, agent }) =>
        h("article", { class: "turn" },
          h("h3", {}, link(turn.id.startsWith("m") ? ["message", turn.id] : ["instruction", turn.id.split(".")[0]], turn.id, { class: "id" }), " ", oneLine(agent, 120), " ", h("small", {}, oneLine(turn.space, 100), " ", ago(turn.at))),
          h("p", {}, oneLine(turn.text, 400)),
          (turn.calls ?? []).slice(0, 5).map((call) => h("p", { class: "call" }, h("b", {}, oneLine(call.tool, 80)), " ", oneLine(`${call.input} ${call.output ?? ""}`, 300))),
        ),
      ),
    );
  }

  keep(watch({ load, draw, failed }));
}
