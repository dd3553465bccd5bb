// Tries the pure functions of the page's modules: given a question as JSON on stdin, prints what they answer as JSON.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

const web = new URL("../../interface/web/", import.meta.url);
const load = (name) => import(new URL(name, web));
const [text, stream, needs, tasks, table, runs, drawer, dom, words] = await Promise.all(
	["text", "stream", "needs", "tasks", "table", "runs", "drawer", "dom", "words"].map((name) => load(`${name}.js`)),
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
	const parser = new stream.Parser();
	assert.deepEqual([...parser.push(sent.slice(0, at)), ...parser.push(sent.slice(at))], told);
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

// Bars and ticks are within the time that is shown; what runs goes on until now.
const now = Date.parse("2026-01-01T00:00:10Z");
const second = (n) => new Date(now - 10_000 + n * 1000).toISOString();
const { lanes } = runs.lanesOf([{ attempts: [{ started_at: second(0), ended_at: second(5) }, { started_at: second(6), ended_at: null }], steps: [{ at: second(1) }] }], now);
assert.deepEqual(lanes, [{ bars: [[0, 0.5], [0.6, 0.4]], ticks: [0.1] }]);
assert.deepEqual(runs.lanesOf([], now).lanes, []);

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
