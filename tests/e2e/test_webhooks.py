"""Webhooks with a real kernel: what comes in is worked on, its end is told, and a chat decides by examples/bridge."""

import hashlib
import hmac
import http.client
import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from queue import Queue
from typing import Any, Final

import pytest

from kernel.policy.webhooks import Signed, is_genuine, key_of, signature_of
from tests.architecture.sources import ROOT
from tests.builders.http_server import Asked, Reply, serving
from tests.e2e.processes import wait_until
from tests.project import Project

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
KEY = key_of(SECRET) or b""


@pytest.mark.promise("P59", "P60")
def test_a_signed_request_is_worked_on_and_its_end_is_told(project: Project) -> None:
    told: Queue[Signed] = Queue()

    def take(asked: Asked) -> Reply:
        id_, timestamp, signatures = (asked.fields[f"webhook-{name}"] for name in ("id", "timestamp", "signature"))
        told.put(Signed(id_, timestamp, signatures, asked.body))
        return Reply(204)

    project.agent("alice", "text: done")
    with serving(take) as port:
        project.write(
            "moniro.yaml",
            "hooks: {note: {to: alice, secret: $S}}\nwebhooks:\n"
            f"  - url: 'http://127.0.0.1:{port}/'\n"
            "    events: [instruction.ended]\n    secret: $S\n    allow_private: true\n",
        )
        assert project.awk("trust", "--yes").code == 0
        assert project.awk("start", env={"S": SECRET}).code == 0
        body, now = b'{"text": "build 7 failed"}', str(int(time.time()))
        fields = {"webhook-id": "msg_1", "webhook-timestamp": now}
        fields["webhook-signature"] = signature_of(KEY, "msg_1", now, body)
        url = f"{project.record()['url']}/hooks/note"
        with urllib.request.urlopen(urllib.request.Request(url, body, fields), timeout=30) as answer:
            assert answer.status == 202
            (instruction,) = json.load(answer)["instruction_ids"]
        got = told.get(timeout=30)
    assert is_genuine(KEY, got, int(time.time()))
    assert json.loads(got.body)["data"]["ids"]["instruction"] == instruction


BRIDGE: Final = ROOT / "examples/bridge/bridge.py"
ASKS: Final = """
model: mock/x
prompt: { system: hi }
tools: [bash]
mock:
  - { tool: bash, args: { command: "echo '<!channel>' >> NAME.log" } }
  - { text: finished }
"""


def listens(port: int) -> bool:
    with socket.socket() as wire:
        return wire.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def chat_service() -> Generator[tuple[str, Queue[Any]]]:
    """A chat that takes messages of one bot: its address, and what was posted to it."""
    said: Queue[Any] = Queue()

    def take(asked: Asked) -> Reply:
        body = json.loads(asked.body)
        said.put((asked.fields["authorization"], body["channel"], body["text"]))
        return Reply(body=b'{"ok": true}')

    with serving(take) as port:
        yield f"http://127.0.0.1:{port}/api/chat.postMessage", said


class Chatting:
    """People in the chat, whose messages the chat tells the bridge, signed."""

    def __init__(self, port: int, said: Queue[Any]) -> None:
        self._port = port
        self.said = said
        self._events = 0

    def write(self, user: str, text: str, *, channel: str = "C1", event: str = "") -> int:
        self._events += 1
        body = {"user": user, "text": text, "channel": channel, "type": "message"}
        told = {"type": "event_callback", "event_id": event or f"Ev{self._events}", "event": body}
        return self.tell(told)[0]

    def tell(self, told: Any, *, secret: str = "chat", at: int | None = None) -> tuple[int, str]:
        """A request of the chat, or of somebody who says so."""
        body, now = json.dumps(told), str(int(time.time()) if at is None else at)
        signature = hmac.new(secret.encode(), f"v0:{now}:{body}".encode(), hashlib.sha256).hexdigest()
        fields = {"X-Slack-Request-Timestamp": now, "X-Slack-Signature": f"v0={signature}"}
        wire = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)
        wire.request("POST", "/chat", body, fields)
        answer = wire.getresponse()
        found = answer.status, answer.read().decode()
        wire.close()
        return found


@pytest.fixture
def chatting(project: Project) -> Iterator[Chatting]:
    """A kernel with the agents mine and other, a bridge that decides for mine, and a chat."""
    for name in ("mine", "other"):
        project.write(f".agents/{name}.yaml", ASKS.replace("NAME", name))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    hook = f"{{ url: 'http://127.0.0.1:{port}/awk', events: [approval.requested], secret: $S, allow_private: true }}"
    project.write("moniro.yaml", f"webhooks: [{hook}]\n")
    assert project.awk("trust", "--yes").code == 0
    assert project.awk("start", "--trust", env={"S": SECRET}).code == 0
    token = project.awk("token", "create", "--scope", "approve:mine", "--name", "bridge").out.strip()
    with chat_service() as (url, said):
        environ = {
            "AWK_URL": project.record()["url"], "AWK_TOKEN": token, "AWK_SECRET": SECRET, "BRIDGE_PORT": str(port),
            "BRIDGE_PEOPLE": "U1,U2", "CHAT_URL": url, "CHAT_TOKEN": "xoxb", "CHAT_SECRET": "chat",
            "CHAT_CHANNEL": "C1",
        }  # fmt: skip
        with subprocess.Popen([sys.executable, str(BRIDGE)], env=environ, stderr=subprocess.DEVNULL) as bridge:
            wait_until(lambda: listens(port))
            yield Chatting(port, said)
            bridge.kill()


@pytest.mark.promise("P57", "P60")
def test_the_example_is_short_enough_to_copy() -> None:
    lines = [line for line in BRIDGE.read_text().splitlines() if line]
    assert len(lines) <= 60
    compile("\n".join(lines), BRIDGE.name, "exec")


@pytest.mark.promise("P57", "P60")
def test_people_who_are_named_decide_in_the_chat(project: Project, chatting: Chatting) -> None:
    project.send("mine")
    bearer, channel, text = chatting.said.get(timeout=30)
    assert (bearer, channel) == ("Bearer xoxb", "C1")
    call = '{"command": "echo \'&lt;!channel>\' >> mine.log"}'
    assert text == f"mine asks for bash {call}: approve a1 or deny a1"
    for user, words, channel in (
        ("U9", "approve a1", "C1"),
        ("", "approve a1", "C1"),
        ("U1", "approve a1", "C2"),
        ("U1", "please approve a1", "C1"),
        ("U1", "approve a1/../../shutdown", "C1"),
    ):
        assert chatting.write(user, words, channel=channel) == 200
    order = {"type": "event_callback", "event_id": "E", "event": {"user": "U1", "text": "approve a1", "channel": "C1"}}
    assert chatting.tell(order, secret="guessed")[0] == 401
    assert chatting.tell(order, at=int(time.time()) - 600)[0] == 401
    assert chatting.tell({"type": "url_verification", "challenge": "c"}) == (200, "c")
    assert project.ask("GET", "/approvals/a1")["state"] == "open"
    assert chatting.said.empty()
    for _ in range(2):
        assert chatting.write("U2", "approve a1", event="Ev-again") == 200
        assert chatting.said.get(timeout=30)[2] == "a1: granted"
    decided = project.ask("GET", "/approvals/a1")
    assert (decided["state"], decided["decision_reason"]) == ("granted", "U2 in the chat")
    wait_until((project.root / "mine.log").exists)
    project.send("other")
    assert chatting.said.get(timeout=30)[2].startswith("other asks for bash")
    assert chatting.write("U1", "approve a2") == 200
    assert chatting.said.get(timeout=30)[2] == "a2: this token cannot decide approvals of agent other"
    assert chatting.write("U1", "deny a99") == 200
    assert "a99: request" in chatting.said.get(timeout=30)[2]
    assert project.ask("GET", "/approvals/a2")["state"] == "open"
