// Tries the pure functions of the page's modules: given a question as JSON on stdin, prints what they answer as JSON.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

const web = new URL("../../interface/web/", import.meta.url);
const load = (name) => import(new URL(name, web));
const [text, stream, needs, tasks, table, timeline, drawer, dom, words, diff, markdown, spending] = await Promise.all(
	["text", "stream", "needs", "tasks", "table", "timeline", "drawer", "dom", "words", "diff", "markdown", "spending"].map((name) => load(`${name}.js`)),
);
const asked = JSON.parse(readFileSync(0, "utf8"));

// Events come whole out of any pieces.
const sent = ': ping\n\nid: 7\nevent: message\ndata: {"a": "x\\n: y"}\n\nevent: delta\ndata: one\ndata: two\n\nid: 8\nevent: bye\ndata: {}\n\n';
const told = [
	{ id: "7", type: "message", data: '{"a": "x\\n: y"}' },
	{ id: null, type: "delta", data: "one\ntwo" },
	{ id: "8", type: "bye", data: "{}" },
];
for (let at = 0; at <= sent.length; at += 1) {
	const heard = [];
	const body = ReadableStream.from([sent.slice(0, at), sent.slice(at)]).pipeThrough(new TextEncoderStream());
	for await (const events of stream.eventsOf({ body })) heard.push(...events);
	assert.deepEqual(heard, told);
}

// A command of a need is the request that the command makes, or is left to a terminal.
const paths = Object.fromEntries(asked.commands.map((one) => [one, needs.requestOf(one)]));

// A task stands right of all that it needs, no two at one place; a cycle does not hang.
const graph = asked.tasks.map(([id, ...on]) => ({ id, needs: on }));
const drawn = tasks.layout(graph);
const place = new Map(drawn.nodes.map((one) => [one.task.id, one]));
for (const one of graph) for (const id of one.needs.filter((other) => place.has(other))) assert.ok(place.get(id).x < place.get(one.id).x, `${id} before ${one.id}`);
assert.equal(new Set(drawn.nodes.map(({ x, y }) => `${x} ${y}`)).size, graph.length);
assert.equal(tasks.layout([{ id: "a", needs: ["b"] }, { id: "b", needs: ["a"] }]).nodes.length, 2);
assert.deepEqual(tasks.layout([]), { nodes: [], edges: [], width: 0, height: 0 });

// Bars lie within the time that is shown, and what runs goes on until now; each sender has a row, also without a lane.
const now = 10_000;
const second = (n) => new Date(n * 1000).toISOString();
const lanes = [{ agent: "al", marks: [{ kind: "vote", at: second(5), id: "p1", label: "" }], bars: [{ kind: "tool", at: second(2), until: second(4) }, { kind: "attempt", at: second(0), until: null }, { kind: "wait", at: second(0), until: second(1) }] }];
const messages = [{ seq: 1, at: second(5), from: "user", to: ["al"], text: "" }];
const shown = timeline.placed({ lanes, messages }, 2000, 10_000, now);
assert.deepEqual(shown.names, ["user", "al"]);
assert.deepEqual(shown.bars.map(({ kind, row, x, width }) => [kind, row, x, width]), [["attempt", 1, -1, 101], ["tool", 1, 0, 25]]);
assert.deepEqual([shown.marks[0].x, shown.arrows[0].row, shown.arrows[0].goal], [37.5, 0, 1]);
assert.deepEqual(timeline.placed({ lanes: [], messages: [] }, 0, 0, now).names, []);
assert.deepEqual(timeline.zoomed([0, 100], [0, 100], 0.5), [25, 75]);
assert.deepEqual(timeline.zoomed([25, 75], [0, 100], 1, 0, 1), [50, 100]);
assert.equal(timeline.zoomed([25, 75], [0, 100], 2), null);

// A diff is split into files and numbered; a removed line that looks like a header is not one.
const [one, other] = diff.filesOf("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -3,2 +3,2 @@ f\n same\n--- a/y\n+new\ndiff --git a/z b/z\n--- a/z\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n");
assert.deepEqual(one.lines.slice(1), [["same", 3, 3, "same"], ["removed", 4, null, "-- a/y"], ["added", null, 4, "new"]]);
assert.deepEqual([one.file, one.lines.length, other.file, other.lines.map(([kind]) => kind)], ["x", 4, "z", ["at", "removed"]]);
assert.deepEqual(diff.changeOf("a\nb\nc", "a\nx\nc").map(([kind, , , of]) => kind[0] + of), ["sa", "rb", "ax", "sc"]);
assert.deepEqual(diff.changeOf("", "a").map(([kind]) => kind), ["added"]);
for (const input of [null, {}, { path: 1, old: "a", new: "b" }, { path: "a", old: {}, new: "b" }]) assert.equal(diff.callDiff({ tool: "edit", input }), null);
assert.equal(diff.callDiff({ tool: "bash", input: { path: "a", content: "b" } }), null);

// Markdown makes links of few schemes, images none, and HTML stays text; a parser in need leaves the text as it is.
const flat = (made) => (Array.isArray(made) ? made.map(flat).join("") : made?.props ? `«${made.type.name ?? made.type}${made.props.href ? ` ${made.props.href}` : ""}»${flat(made.props.children)}` : String(made ?? ""));
const elements = (of) => flat(markdown.elementsOf(of));
assert.match(elements("[a](https://x.y) <https://z> [b](#c)"), /«a https:\/\/x\.y».*«a https:\/\/z».*«a #c»/);
for (const of of ["[a](javascript:x)", "![a](javascript:x)", "[a](data:text/html,x)", "[a](//x)", "[a](/page)", "<b onclick=x>b</b>", "[a](java\tscript:x)", "[a](&#106;avascript:x)"]) assert.doesNotMatch(elements(of), /«(a|b|img)\b/, of);
assert.match(elements("# h\n\n- [x] a\n\n|a|\n|-|\n|b|"), /«p».*h.*☑.*«table»/s);
for (const of of [">".repeat(5000), "[".repeat(5000), "*a ".repeat(5000), "- ".repeat(3000), "`".repeat(5000), "<".repeat(5000), "|a".repeat(3000), "|a".repeat(2000) + "\n" + "|-".repeat(2000) + "\n" + "a\n".repeat(5000)]) {
	const began = performance.now();
	markdown.elementsOf(of);
	assert.ok(performance.now() - began < 2000, of.slice(0, 5));
}
for (const of of ["a".repeat(2001) + "@", `|${"a|".repeat(200)}\n`.repeat(49) + "a\n".repeat(60)]) assert.equal(markdown.elementsOf(of), null);
assert.notEqual(markdown.elementsOf(`|a|b|\n|-|-|\n${"|c|d|\n".repeat(1000)}${"word ".repeat(2000)}`), null);

assert.deepEqual(spending.columnsOf([{ points: [{ at: second(1), v: 2 }] }, { points: [{ at: second(0), v: 3 }] }], (of) => of.v, 1), [[-1, 0, 1, 2], [0, 0, 2, 0], [0, 3, 0, 0]]);

// The text of a reply grows while it is written, and is dropped once the step is stored.
stream.heard([], [["i1", "ab"], ["i2", "x"]]);
stream.heard([{ type: "instruction.step", instruction: "i2" }], [["i1", "c"]]);
assert.deepEqual([...stream.live], [["i1", "abc"]]);

// Addresses lead to views, and nothing else does.
assert.deepEqual(drawer.pathOf("#/agent/alice%40review%3Amain"), ["agent", "alice@review:main"]);
for (const hash of ["", "#main", "#/", "#/agent", "#/agent/", "#/toString/x", "#/__proto__/x", "#/agent/%E0%A4%A"]) assert.equal(drawer.pathOf(hash), null, hash);
assert.deepEqual(["i4", "i4-2", "i4.3", " r3 ", "m12", "a2"].map((id) => dom.placeOfId(id).join(" ")), ["instruction i4", "instruction i4", "instruction i4", "run r3", "message m12", "approval a2"]);
for (const id of ["x4", "i", "ink", "i4x", "t3"]) assert.equal(dom.placeOfId(id), null, id);

for (const [target, space] of [["@review", "review:main"], ["alice@review:pr-1", "review:pr-1"], ["@review~design", "review:main~design"], ["@r:t~x", "r:t~x"], ["@r:mainline", "r:mainline"]]) {
	assert.equal(text.spaceOf(target), space);
	if (target.startsWith("@")) assert.equal(text.targetOfSpace(space), target);
}
assert.equal(text.targetOfSpace("dm:alice"), "alice");

// The kernel proves its identity once, and again after a lost connection; an expired token ends the session and the stream.
const api = await load("api.js");
const bytes = (words) => new TextEncoder().encode(words);
const hex = (buffer) => Buffer.from(buffer).toString("hex");
const fetched = [];
let answers = () => Response.json({});
const signedOut = [];
let led;
const browser = {
	navigator: { locks: { request: (_name, _options, lead) => (led = lead()) } },
	location: { hash: "#key=k", pathname: "/page" },
	history: { replaceState() {} },
	sessionStorage: { setItem() {}, removeItem() {} },
	document: { hidden: false, addEventListener() {} },
	async fetch(path) {
		const { pathname, searchParams } = new URL(path, "http://kernel");
		fetched.push(pathname);
		if (pathname === "/page/token") return Response.json({ token: "awt_7_x", scopes: ["read"] });
		if (pathname !== "/health") return answers();
		const key = bytes(hex(await crypto.subtle.digest("SHA-256", bytes("awt_7_x"))));
		const signing = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
		return Response.json({ proof: hex(await crypto.subtle.sign("HMAC", signing, bytes(searchParams.get("nonce")))) });
	},
};
for (const [name, value] of Object.entries(browser)) Object.defineProperty(globalThis, name, { value });
assert.equal(await api.signIn((why) => signedOut.push(why)), null);
await api.get("/ps");
await api.get("/ps");
answers = () => Promise.reject(new TypeError("nobody is there"));
await assert.rejects(api.get("/ps"), { status: 0 });
answers = () => Response.json({});
await api.get("/ps");
assert.deepEqual(fetched, ["/page/token", "/health", "/ps", "/ps", "/ps", "/health", "/ps"]);
answers = () => (fetched.filter((path) => path === "/events").length > 1 ? process.exit(1) : Response.json({}, { status: 401 }));
stream.follow(() => {});
await led;
assert.deepEqual([signedOut, api.session], [["expired"], null]);

const escaped = [];
for (let code = 0; code < 0x110000; code += 1) {
	const shown = text.escape(String.fromCodePoint(code));
	if (shown !== String.fromCodePoint(code)) escaped.push([code, shown]);
}
const cells = asked.rows.map((row) => table.COLUMNS.map(([, of]) => text.line(of(row, asked.now_ms) ?? "", 120) || "-"));
const orders = Object.fromEntries(table.COLUMNS.map(([title]) => [title, table.sorted(asked.rows, title, false).map((row) => row.name)]));
process.stdout.write(
	JSON.stringify({ paths, escaped, cells, orders, columns: table.COLUMNS.map(([title, , right]) => [title, Boolean(right)]), words: [...words.words], long: text.line("a\n\tb ".repeat(500), 20) }),
	() => process.exit(0),
);
