// Views that keep themselves true: each says which events concern it, and is loaded again at most once a second, however
// many come. Only what is looked at is asked for.

import { Problem } from "./api.js";

const SOON_MS = 50;
const GAP_MS = 1000;
const views = new Set();

/**
 * Loads and draws, now and whenever `wants(event)` says so, until `stop`. `every`: also after so many milliseconds.
 * `live(events)` is handed the events themselves. `failed(problem)` is told of refusals; silence of the kernel is not one.
 */
export function watch({ load, draw, wants = () => false, live = () => {}, failed = () => {}, every = 0 }) {
  let timer = null;
  let busy = false;
  let again = false;
  let ended = false;
  let last = -Infinity;
  let cost = 0;

  async function run() {
    timer = null;
    if (ended || document.hidden) return;
    busy = true;
    again = false;
    last = performance.now();
    try {
      const data = await load();
      if (!ended) draw(data);
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      if (!ended && problem.status !== 0) failed(problem);
    } finally {
      cost = performance.now() - last;
      busy = false;
      if (again) touch();
      else if (every && !ended) timer = setTimeout(run, every);
    }
  }

  function touch() {
    again = true;
    if (busy || ended) return;
    clearTimeout(timer);
    timer = setTimeout(run, Math.max(SOON_MS, last + Math.max(GAP_MS, 4 * cost) - performance.now()));
  }

  const view = { wants, live, touch, now: run };
  views.add(view);
  run();
  return {
    again: () => {
      last = -Infinity;
      touch();
    },
    stop: () => {
      ended = true;
      clearTimeout(timer);
      views.delete(view);
    },
  };
}

/** Events came: whatever they concern is loaded again. */
export function heard(events) {
  for (const view of views) {
    view.live(events);
    if (events.some(view.wants)) view.touch();
  }
}

/** Anything may have changed. */
export function stale() {
  for (const view of views) view.touch();
}
