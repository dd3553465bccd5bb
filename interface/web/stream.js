// The event stream. All tabs of a browser share one, because six open streams would block every other request: visible tabs
// compete for a lock, and its holder reads the stream for the others.

import { channel, distrust, Problem, request } from "./api.js";

const FLUSH_MS = 250;
const SILENCE_MS = 40_000; // the kernel pings every 15 s
const BACKOFF_MS = [250, 500, 1000, 2000, 4000];
const SOON_MS = 50;
const GAP_MS = 1000;
const LIVE = 20_000;

function eventOf(block) {
	const field = (name) => Array.from(block.matchAll(new RegExp(`(?:^|\n)${name}: ?([^\n]*)`, "g")), ([, value]) => value).join("\n");
	return { id: field("id") || null, type: field("event") || "message", data: field("data") };
}

// The events of an answer, in the pieces they come in.
export async function* eventsOf({ body }) {
	const reader = body.pipeThrough(new TextDecoderStream()).getReader();
	try {
		for (let rest = "", piece; !(piece = await reader.read()).done; ) {
			const blocks = (rest + piece.value).split("\n\n");
			rest = blocks.pop();
			yield blocks.map(eventOf).filter((one) => one.data !== "");
		}
	} finally {
		reader.cancel().catch(() => {});
	}
}

export function follow(says) {
	let lastId = null;
	const waiting = new Map();
	const written = new Map(); // text by instruction
	let timer = null;
	let turn = null; // aborts this tab's wait for the lock, or its reading
	let now = "away";

	function say(state) {
		now = state;
		says(state);
	}

	function flush() {
		timer = null;
		const [events, texts] = [[...waiting.values()], [...written]];
		waiting.clear();
		written.clear();
		channel.postMessage({ events, texts, lastId });
		heard(events, texts);
	}

	function take({ id, type, data }) {
		lastId = id ?? lastId;
		if (type === "gap" || type === "lagged") return lookAgain();
		if (type === "progress") return;
		const { space, agent, instruction, data: more } = JSON.parse(data);
		if (type === "delta") written.set(instruction, `${written.get(instruction) ?? ""}${more?.text ?? ""}`.slice(-LIVE));
		else waiting.set([type, space, agent, instruction].join(), { type, space, agent, instruction });
		timer ??= setTimeout(flush, FLUSH_MS);
	}

	function lookAgain() {
		channel.postMessage({ state: "follower", stale: true });
		stale();
	}

	async function read(signal, opened) {
		const silence = new AbortController();
		const alive = () => setTimeout(() => silence.abort(), SILENCE_MS);
		let watch = alive();
		try {
			const headers = lastId === null ? {} : { "Last-Event-ID": lastId };
			const answer = await request("GET", "/events", { headers, signal: AbortSignal.any([signal, silence.signal]) });
			let first = true;
			for await (const events of eventsOf(answer)) {
				if (first) opened();
				first = false;
				clearTimeout(watch);
				watch = alive();
				events.filter((one) => one.type !== "bye").forEach(take);
			}
		} finally {
			clearTimeout(watch);
			distrust();
		}
	}

	async function lead(signal) {
		for (let failures = 0; !signal.aborted; failures = Math.min(failures + 1, 4)) {
			try {
				await read(signal, () => {
					failures = -1;
					say("leader");
					lookAgain(); // state may have changed while no tab listened
				});
			} catch (problem) {
				if (problem.status === 401) return;
			}
			if (signal.aborted) return;
			say("away");
			channel.postMessage({ state: now });
			await new Promise((resolve) => setTimeout(resolve, BACKOFF_MS[Math.max(failures, 0)]));
		}
	}

	function look() {
		if (document.hidden) {
			turn?.abort();
			turn = null;
			lastId = null; // a visible tab reloads over REST and replays nothing
			say("hidden");
		} else if (turn === null) {
			turn = new AbortController();
			const { signal } = turn;
			channel.postMessage({ ask: "state" });
			stale();
			navigator.locks.request("awk-page-stream", { signal }, () => lead(signal)).catch(() => {});
		}
	}

	channel.addEventListener("message", ({ data }) => {
		if (data.ask === "state" && now === "leader") channel.postMessage({ state: "follower" });
		if (turn === null || now === "leader") return;
		lastId = data.lastId ?? lastId;
		if (data.state) say(data.state);
		if (data.stale) stale();
		if (data.events) heard(data.events, data.texts);
	});
	document.addEventListener("visibilitychange", look);
	look();
}

const views = new Set();

// Loads and draws now, and again for each event that `wants` accepts (a function of the event, or a pattern of types): at most
// once a second, and only while visible. `every`: also every so many ms. `draw` receives what was found, or undefined, and an error.
// `written`: an instruction whose text is drawn while its model writes it.
export function watch({ load = () => null, draw, wants = /^$/, every, written }) {
	let timer = null;
	let busy = false;
	let again = false;
	let last = -Infinity;
	let cost = 0;
	let [found, problem] = [undefined, null];
	const view = { wants, touch, written, again: () => touch(true), redraw: () => views.has(view) && draw(found, problem), stop: () => void (views.delete(view), clearTimeout(timer)) };

	async function run() {
		if (document.hidden || !views.has(view)) return;
		[busy, again, last] = [true, false, performance.now()];
		try {
			[found, problem] = [await load(), null];
			view.redraw();
		} catch (error) {
			if (!(error instanceof Problem)) throw error;
			if (error.status !== 0) problem = error;
			view.redraw();
		} finally {
			busy = false;
			cost = performance.now() - last;
			if (again) touch();
			else if (every) timer = setTimeout(run, every);
		}
	}

	function touch(atOnce) {
		again = true;
		if (busy) return;
		clearTimeout(timer);
		timer = setTimeout(run, atOnce === true ? 0 : Math.max(SOON_MS, last + Math.max(GAP_MS, 4 * cost) - performance.now()));
	}

	views.add(view);
	view.redraw();
	run();
	return view;
}

// The text of unfinished replies, by instruction.
export const live = new Map();

export function heard(events, texts = []) {
	for (const { type, instruction } of events) if (/^instruction\.(step|ended)/.test(type)) live.delete(instruction);
	for (const [id, text] of texts) live.set(id, `${live.get(id) ?? ""}${text}`.slice(-LIVE));
	while (live.size > 50) live.delete(live.keys().next().value);
	for (const { wants, touch, written, redraw } of views) {
		if (events.some((one) => (wants.exec ? wants.test(one.type) : wants(one)))) touch();
		else if (texts.some(([id]) => id === written)) redraw();
	}
}

export const stale = () => views.forEach((view) => view.touch());
