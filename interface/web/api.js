// The kernel over REST: the token, requests with their refusals, and the proof that it is still the same kernel.

const KEPT = "awk-page-session";
const CHANNEL = "awk-page";
const OTHERS_MS = 400; // so long other tabs have to say the token

/** A refusal of the kernel: what, and what to do. `status` 0: nobody answered. */
export class Problem extends Error {
  constructor(status, body) {
    super(body?.detail || body?.title || `${status}`);
    this.status = status;
    this.code = body?.code ?? "";
    this.hint = body?.hint ?? "";
  }
}

/** The session: token, scopes, project. Null before somebody has signed in. */
export let session = null;
let signedOut = () => {};
let channel = null;
let proven = null; // a promise: whether the kernel that answers now is ours

function keep(found) {
  session = found;
  if (found) sessionStorage.setItem(KEPT, JSON.stringify(found));
  else sessionStorage.removeItem(KEPT);
}

/** Whether the token opens what needs `scope`. */
export function may(scope) {
  const steps = ["read", "operate", "approve"];
  const best = Math.max(...(session?.scopes ?? []).map((one) => steps.indexOf(one.split(":")[0])));
  return best >= steps.indexOf(scope);
}

/** Takes the key out of the address, or the token of this tab, or that of another tab. Returns null or a reason. */
export async function signIn(whenOut) {
  signedOut = whenOut;
  channel = new BroadcastChannel(CHANNEL);
  channel.addEventListener("message", ({ data }) => {
    if (data?.ask === "session" && session) channel.postMessage({ session });
  });
  const key = new URLSearchParams(location.hash.slice(1)).get("key");
  if (key !== null) {
    history.replaceState(null, "", location.pathname);
    try {
      const answer = await fetch("/page/token", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ key }),
      });
      if (!answer.ok) return "bad_key";
      keep(await answer.json());
      return null;
    } catch {
      return "no_kernel";
    }
  }
  const kept = sessionStorage.getItem(KEPT);
  keep(kept ? JSON.parse(kept) : await askOthers());
  return session ? null : "no_key";
}

function askOthers() {
  return new Promise((resolve) => {
    const hear = ({ data }) => data?.session && end(data.session);
    const end = (found) => {
      channel.removeEventListener("message", hear);
      clearTimeout(limit);
      resolve(found);
    };
    const limit = setTimeout(end, OTHERS_MS, null);
    channel.addEventListener("message", hear);
    channel.postMessage({ ask: "session" });
  });
}

/** The token is worth nothing any more. */
export function signOut() {
  keep(null);
  signedOut("expired");
}

/** A request with the token; a 401 signs out. Raises Problem. */
export async function request(method, path, { body, key, headers, signal } = {}) {
  let answer;
  try {
    proven ??= isOurKernel();
    if (!(await proven)) throw new Error("another program listens there");
    answer = await fetch(path, {
      method,
      signal,
      headers: {
        Authorization: `Bearer ${session?.token}`,
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...(key ? { "Idempotency-Key": key } : {}),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    distrust();
    throw new Problem(0, null);
  }
  if (answer.status === 401) signOut();
  if (!answer.ok) throw new Problem(answer.status, await answer.json().catch(() => null));
  return answer;
}

/** GET: a document. Values of `query` that are null are left out. */
export async function get(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  const answer = await request("GET", given.length ? `${path}?${new URLSearchParams(given)}` : path);
  return answer.json();
}

/** POST (or another method): the answer. Repeated with the same `key` it is done once. */
export async function post(path, body = {}, { method = "POST", key = crypto.randomUUID() } = {}) {
  const answer = await request(method, path, { body: method === "DELETE" ? undefined : body, key });
  return answer.json().catch(() => null);
}

/** A path with its parts quoted: at("agents", name, "pause"). */
export const at = (...parts) => `/${parts.map((part) => encodeURIComponent(part)).join("/")}`;

/** The connection was lost: whoever listens next has to prove that it is the kernel before it is sent the token. */
export function distrust() {
  proven = null;
}

/** Whether what listens there knows the token without being told it. */
async function isOurKernel() {
  const number = /^awt_(\d+)_/.exec(session?.token ?? "")?.[1];
  if (!number || !crypto.subtle) return true;
  const bytes = (text) => new TextEncoder().encode(text);
  const hex = (buffer) => [...new Uint8Array(buffer)].map((one) => one.toString(16).padStart(2, "0")).join("");
  const nonce = hex(crypto.getRandomValues(new Uint8Array(16)));
  const answer = await fetch(`/health?nonce=${nonce}&token=${number}`, { cache: "no-store" });
  const { proof } = await answer.json();
  const digest = hex(await crypto.subtle.digest("SHA-256", bytes(session.token)));
  const key = await crypto.subtle.importKey("raw", bytes(digest), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return proof === hex(await crypto.subtle.sign("HMAC", key, bytes(nonce)));
}
