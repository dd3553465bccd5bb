// The event stream: read by hand, resumed by the last id that was seen, and one for all tabs of this browser.
//
// Six open streams would block every other request, so that the visible tabs compete for one lock: who has it reads, and
// tells the others over a channel. A hidden tab neither reads nor leads; seen again it begins with REST, from now on.

import { distrust, request } from "./api.js";

const FLUSH_MS = 250;
const SILENCE_MS = 40_000; // the kernel gives a sign of life every 15 s
const BACKOFF_MS = [250, 500, 1000, 2000, 4000];
const KEPT_AT_ONCE = 5000; // events between two flushes that are handed on one by one; of more only what they touch
const DELTA_CHARACTERS = 4000;

/** Server-sent events out of pieces of text. `push` returns those that are whole: {id, type, data}. */
export class Parser {
  #rest = "";
  push(piece) {
    const blocks = (this.#rest + piece).split("\n\n");
    this.#rest = blocks.pop();
    return blocks.map(Parser.#event).filter((one) => one.data !== "");
  }
  static #event(block) {
    const found = { id: null, type: "message", data: "" };
    for (const line of block.split("\n")) {
      if (line.startsWith(":")) continue;
      const colon = line.indexOf(":");
      const name = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (name === "data") found.data += found.data ? `\n${value}` : value;
      else if (name === "id") found.id = value;
      else if (name === "event") found.type = value;
    }
    return found;
  }
}

/** Of an event what other tabs and views need. */
export function slim({ type, seq, space, agent, instruction, data }) {
  return { type, seq, space, agent, instruction, state: data?.state ?? data?.status, id: data?.id, text: type === "delta" ? data?.text : undefined };
}

/** Many events as fewer: pieces of one reply are joined, and over `most` those that touch the same thing are one. */
export function merged(events, most = KEPT_AT_ONCE) {
  const deltas = new Map();
  const others = new Map();
  for (const event of events) {
    if (event.type === "delta") {
      const before = deltas.get(event.instruction);
      deltas.set(event.instruction, { ...event, text: ((before?.text ?? "") + (event.text ?? "")).slice(-DELTA_CHARACTERS) });
    } else {
      others.set(events.length > most ? `${event.type} ${event.space} ${event.agent} ${event.instruction}` : others.size, event);
    }
  }
  return [...others.values(), ...deltas.values()];
}

/** Follows the events for as long as the page lives. `heard(events)`, `stale()` (look again at everything), `says(state)`. */
export function follow({ heard, stale, says }) {
  const channel = new BroadcastChannel("awk-page");
  const decoderOptions = { stream: true };
  let lastId = null;
  let waiting = [];
  let flushing = null;
  let leaving = null; // ends this tab's turn: its wait for the lock, or its reading
  let state = "away";

  function say(next, shared = true) {
    state = next;
    says(next);
    if (shared) channel.postMessage({ state: next });
  }

  function flush() {
    flushing = null;
    const events = merged(waiting);
    waiting = [];
    if (events.length === 0) return;
    channel.postMessage({ events, lastId });
    heard(events);
  }

  function take(event) {
    if (event.id !== null) lastId = event.id;
    if (event.type === "gap" || event.type === "lagged") {
      channel.postMessage({ stale: true });
      stale();
      return;
    }
    waiting.push(slim(JSON.parse(event.data)));
    if (waiting.length > 4 * KEPT_AT_ONCE) waiting = merged(waiting);
    flushing ??= setTimeout(flush, FLUSH_MS);
  }

  async function read(signal, opened) {
    const silent = new AbortController();
    const both = AbortSignal.any([signal, silent.signal]);
    let watch = setTimeout(() => silent.abort(), SILENCE_MS);
    try {
      const headers = lastId === null ? {} : { "Last-Event-ID": lastId };
      const answer = await request("GET", "/events", { headers, signal: both });
      const reader = answer.body.getReader();
      const decoder = new TextDecoder();
      const parser = new Parser();
      for (let first = true; ; first = false) {
        const { value, done } = await reader.read();
        if (done) return;
        if (first) opened();
        clearTimeout(watch);
        watch = setTimeout(() => silent.abort(), SILENCE_MS);
        for (const event of parser.push(decoder.decode(value, decoderOptions))) if (event.type !== "bye") take(event);
      }
    } finally {
      clearTimeout(watch);
      distrust();
    }
  }

  async function lead(signal) {
    for (let failures = 0; !signal.aborted; failures += 1) {
      try {
        await read(signal, () => {
          failures = -1;
          say("leader", false);
          channel.postMessage({ state: "follower", stale: true });
          stale(); // what was true before may have changed while nobody listened
        });
      } catch (problem) {
        if (problem.status === 401) return;
      }
      if (signal.aborted) return;
      say("away");
      await pause(BACKOFF_MS[Math.min(failures, BACKOFF_MS.length - 1)] ?? BACKOFF_MS[0], signal);
    }
  }

  function enter() {
    leaving = new AbortController();
    const { signal } = leaving;
    channel.postMessage({ ask: "state" });
    stale();
    navigator.locks.request("awk-page-stream", { signal }, () => lead(signal)).catch(() => {});
  }

  function leave() {
    leaving?.abort();
    leaving = null;
    lastId = null; // seen again it does not replay what was missed
    say("hidden", false);
  }

  channel.addEventListener("message", ({ data }) => {
    if (data.ask === "state" && (state === "leader" || state === "away")) channel.postMessage({ state: state === "leader" ? "follower" : state });
    if (leaving === null) return;
    if (data.lastId) lastId = data.lastId;
    if (data.state && state !== "leader") say(data.state, false);
    if (data.stale) stale();
    if (data.events) heard(data.events);
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? leave() : leaving ?? enter()));
  if (!document.hidden) enter();
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => resolve(clearTimeout(timer)), { once: true });
  });
}
