"""A bridge between a chat and agent-worker: calls that wait for approval are told there, and people there decide.

The chat signs what it posts to /chat as Slack does, the kernel what it posts to /awk as Standard Webhooks has it. Who
is not in BRIDGE_PEOPLE does nothing, nor does what is no command; AWK_TOKEN (approve:AGENT) decides for its agents.
"""

import base64
import hmac
import json
import re
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from os import environ as env  # noqa: TID251

PEOPLE = set(env["BRIDGE_PEOPLE"].split(","))
COMMAND = re.compile(r"(approve|deny) (a[0-9]{1,15})")
CHAT_KEY = env["CHAT_SECRET"].encode()
AWK_KEY = base64.b64decode(env["AWK_SECRET"].removeprefix("whsec_"))


def ask(url, token, body=None, key="-"):
    fields = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Idempotency-Key": key}
    data = None if body is None else json.dumps(body).encode()
    try:
        asked = urllib.request.Request(url, data, fields)  # noqa: S310
        with urllib.request.urlopen(asked, timeout=10) as answer:  # noqa: S310
            return json.load(answer)
    except urllib.error.HTTPError as refused:
        return json.load(refused)


def say(text):
    plain = text.replace("&", "&amp;").replace("<", "&lt;")  # or an agent could call everybody
    ask(env["CHAT_URL"], env["CHAT_TOKEN"], {"channel": env["CHAT_CHANNEL"], "text": plain})


def from_chat(said):
    event = said.get("event", {})
    order = COMMAND.fullmatch((event.get("text") or "").strip())
    if order and event.get("user") in PEOPLE and event.get("channel") == env["CHAT_CHANNEL"]:
        url, why = f"{env['AWK_URL']}/approvals/{order[2]}/{order[1]}", {"reason": f"{event['user']} in the chat"}
        done = ask(url, env["AWK_TOKEN"], why, said["event_id"])  # what is told twice is done once
        say(f"{order[2]}: {done.get('state') or done['detail']}")


def from_kernel(told):
    call = ask(f"{env['AWK_URL']}/approvals/{told['data']['ids']['id']}", env["AWK_TOKEN"])
    if call.get("state") == "open":
        what = f"{call['tool']} {json.dumps(call['input'])[:500]}"
        say(f"{call['agent']} asks for {what}: approve {call['id']} or deny {call['id']}")


class Bridge(BaseHTTPRequestHandler):
    def do_POST(self):
        chat, length = self.path == "/chat", self.headers.get("Content-Length", "")
        body = self.rfile.read(int(length) if length.isdecimal() and len(length) < 6 else 0)
        if chat:
            at, given = self.headers.get("X-Slack-Request-Timestamp", ""), self.headers.get("X-Slack-Signature", "")
            right = "v0=" + hmac.digest(CHAT_KEY, f"v0:{at}:".encode() + body, "sha256").hex()
        else:
            at, given = self.headers.get("webhook-timestamp", ""), self.headers.get("webhook-signature", "")
            signed = f"{self.headers.get('webhook-id')}.{at}.".encode() + body
            right = "v1," + base64.b64encode(hmac.digest(AWK_KEY, signed, "sha256")).decode()
        known = hmac.compare_digest(given.encode(), right.encode()) and abs(time.time() - int(at)) < 300  # noqa: TID251
        said = json.loads(body) if known else {}
        if known:
            (from_chat if chat else from_kernel)(said)  # who gets no answer tells it again
        self.send_response(200 if known else 401)
        self.end_headers()
        self.wfile.write(said.get("challenge", "").encode())


ThreadingHTTPServer(("127.0.0.1", int(env["BRIDGE_PORT"])), Bridge).serve_forever()
