// REST client: token, requests, errors, and the check that the server is still our kernel.

const KEPT = "awk-page";
const OTHERS_MS = 400; // time for another tab to share its session

// An error from the kernel: what failed and what to do. `status` 0: no answer.
export class Problem extends Error {
	constructor(status, body) {
		super(body?.detail ?? body?.title ?? status);
		this.status = status;
		this.hint = body?.hint;
	}
}

export let session = null;
export const channel = new BroadcastChannel("awk-page");
let signedOut = () => {};
let proven = null; // a promise: true if the server that answers now is our kernel

function keep(found) {
	session = found;
	if (found) sessionStorage.setItem(KEPT, JSON.stringify(found));
	else sessionStorage.removeItem(KEPT);
}

export function may(scope) {
	const steps = ["read", "operate", "approve", "admin"];
	return session !== null && session.scopes.some((one) => steps.indexOf(one) >= steps.indexOf(scope));
}

// Exchanges the key in the URL for a token, or uses that of this or another tab. Returns the reason if it has none.
export async function signIn(whenOut) {
	signedOut = whenOut;
	channel.addEventListener("message", ({ data }) => data.ask === "session" && session && channel.postMessage({ session }));
	const key = new URLSearchParams(location.hash.slice(1)).get("key");
	if (key === null) {
		keep(JSON.parse(sessionStorage.getItem(KEPT)) ?? (await askOthers()));
		return session ? null : "no_key";
	}
	history.replaceState(null, "", location.pathname);
	try {
		const body = JSON.stringify({ key });
		const answer = await fetch("/page/token", { method: "POST", headers: { "Content-Type": "application/json" }, body });
		if (!answer.ok) return "bad_key";
		keep(await answer.json());
		return null;
	} catch {
		return "no_kernel";
	}
}

const askOthers = () =>
	new Promise((resolve) => {
		channel.addEventListener("message", ({ data }) => data.session && resolve(data.session));
		setTimeout(resolve, OTHERS_MS, null);
		channel.postMessage({ ask: "session" });
	});

// After a lost connection another program may listen: it must prove that it knows the token before it gets it.
export function distrust() {
	proven = null;
}

async function isOurKernel() {
	const number = /^awt_(\d+)_/.exec(session?.token)?.[1];
	if (!number) return true;
	const bytes = (text) => new TextEncoder().encode(text);
	const hex = (buffer) => Array.from(new Uint8Array(buffer), (one) => one.toString(16).padStart(2, "0")).join("");
	const nonce = hex(crypto.getRandomValues(new Uint8Array(16)));
	const answer = await fetch(`/health?nonce=${nonce}&token=${number}`, { cache: "no-store" });
	const { proof } = await answer.json();
	const digest = hex(await crypto.subtle.digest("SHA-256", bytes(session.token)));
	const key = await crypto.subtle.importKey("raw", bytes(digest), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
	return proof === hex(await crypto.subtle.sign("HMAC", key, bytes(nonce)));
}

export async function request(method, path, { body, headers, signal } = {}) {
	let answer;
	try {
		proven ??= isOurKernel();
		if (!(await proven)) throw new Error("another program listens there");
		const sent = { Authorization: `Bearer ${session?.token}`, "Content-Type": "application/json", ...headers };
		answer = await fetch(path, { method, signal, headers: sent, body: body && JSON.stringify(body), cache: "no-store" });
	} catch (error) {
		distrust();
		throw error.name === "AbortError" ? error : new Problem(0);
	}
	if (answer.status === 401) {
		keep(null);
		signedOut("expired");
	}
	if (!answer.ok) throw new Problem(answer.status, await answer.json().catch(() => null));
	return answer;
}

export const u = (parts, ...values) => String.raw({ raw: parts }, ...values.map(encodeURIComponent));

export async function get(path, query = {}) {
	const given = Object.entries(query).filter(([, value]) => value != null);
	return (await request("GET", `${path}?${new URLSearchParams(given)}`)).json();
}

export const find = (path, query) => get(path, query).catch((problem) => (problem.status > 399 ? null : Promise.reject(problem)));

// A repeated request with the same `key` has no second effect.
export async function post(path, body = {}, key = crypto.randomUUID(), method = "POST") {
	return (await request(method, path, { body: method === "DELETE" ? undefined : body, headers: { "Idempotency-Key": key } })).json();
}
