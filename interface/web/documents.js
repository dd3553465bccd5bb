// Documents of a workspace: the list, and of one its text and its history.

import { at, get } from "./api.js";
import { ago, block, button, diff, h, link, swap } from "./dom.js";
import { watch } from "./refresh.js";
import { oneLine, size } from "./text.js";
import { t } from "./words.js";

const PAGE = 200;
const path = (route, space, file) => `${at("spaces", space, route)}/${file.split("/").map(encodeURIComponent).join("/")}`;

/** The documents of a space, as a list. */
export function documentsPart({ space, body, failed, keep }) {
  const place = h("div");
  body.append(place);
  const draw = (found) =>
    swap(place, found, () => [
      found.documents.length === 0 ? h("p", { class: "none" }, t("no_documents")) : null,
      h("ul", { class: "rows" }, found.documents.map((one) => h("li", {}, link(["doc", space, one.file], oneLine(one.file, 200)), h("small", {}, ` ${t("version_n", { n: one.version })} · ${size(one.size)}${one.owner ? ` · ${t("owner", { name: oneLine(one.owner, 60) })}` : ""}${one.author ? ` · ${oneLine(one.author, 60)}` : ""} `, one.at ? ago(one.at) : null)))),
      found.total > found.documents.length ? h("p", { class: "none" }, t("more_of", { n: found.total - found.documents.length })) : null,
    ]);
  keep(watch({ load: () => get(at("spaces", space, "documents"), { limit: PAGE }), draw, failed, wants: (event) => event.type === "message" && event.space === space }));
}

/** The drawer of #/doc/review:main/notes.md. */
export function documentView({ path: [, space, ...parts], title, body, failed, keep }) {
  const file = parts.join("/");
  let version = null; // null: the newest
  let change = null;
  title.textContent = oneLine(file, 200);
  const back = link(["space", space, "documents"], t("tab_documents"));
  const head = h("p", { class: "head" });
  const text = h("div");
  const versions = h("div");
  body.append(h("p", {}, back), head, text, h("h3", {}, t("history")), versions);

  async function load() {
    const [found, history, changed] = await Promise.all([
      get(path("documents", space, file), { version }),
      get(path("document-history", space, file), { limit: PAGE }),
      change === null ? null : get(path("document-diff", space, file), { from: change - 1, to: change }),
    ]);
    return { found, history, changed };
  }

  function draw({ found, history, changed }) {
    head.replaceChildren(t("version_n", { n: found.version }), found.owner ? ` · ${t("owner", { name: oneLine(found.owner, 60) })}` : "", ` · ${size(found.size)}`);
    swap(text, [found, changed], () => (changed ? diff(changed.diff || t("no_change")) : block(found.content, { "aria-label": oneLine(file, 100) }, 20_000)));
    swap(versions, [history, version, change], () => [
      h("ol", { class: "rows", reversed: true }, history.versions.map(row)),
      history.next ? h("p", { class: "none" }, t("more_of", { n: history.total - history.versions.length })) : null,
    ]);
  }

  const row = (one) =>
    h(
      "li",
      {},
      button(t("version_n", { n: one.version }), () => ((version = one.version), (change = null), view.again()), { "data-key": `v${one.version}`, "aria-pressed": String(version === one.version && change === null) }),
      " ",
      button(`+${one.added}/-${one.removed}`, () => ((version = one.version), (change = one.version), view.again()), { "data-key": `d${one.version}`, "aria-label": t("change_of", { n: one.version }), "aria-pressed": String(change === one.version) }),
      ` ${t(`did_${one.action}`) ?? oneLine(one.action, 20)} · ${oneLine(one.author, 60)} `,
      one.instruction ? [link(["instruction", one.instruction], one.instruction, { class: "id" }), " "] : null,
      h("small", {}, ago(one.at), one.reason ? ` · ${oneLine(one.reason, 200)}` : ""),
    );

  const view = watch({ load, draw, failed, wants: (event) => event.type === "message" && event.space === space });
  keep(view);
}
