"""A small agent that speaks the Agent Client Protocol for real: a process, sessions on disk, MCP servers, a shell.

Its model is asked in Anthropic's dialect at the address that follows the ``@`` in FAKE_ACP_KEY. What it is able to do
its arguments say (``--http --load --resume --models``), and with ``--hostile=WORD`` what it does in bad days. Standard
library only: it runs as a program of its own.
"""

import json
import os
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))
from tests.worker.backends import fake_cursor

GIANT_BYTES = 5 * 1024 * 1024
OPTIONS = [
    {"optionId": "yes", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "always", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]
MODES = [{"id": "auto", "name": "Asks nobody"}, {"id": "ask", "name": "Asks before any change"}]


class Cancelled(Exception):
    """The client wants it to stop."""


class Agent:
    """One process of it. Requests are read by a thread of their own, so that a prompt can be cancelled."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.hostile = next((word.partition("=")[2] for word in words if word.startswith("--hostile=")), "")
        self.model = "preset"
        self.mode = "auto"
        self.servers: list[fake_cursor.Server] = []
        self.messages: list[dict[str, Any]] = []
        self.session = ""
        self.cancelled = threading.Event()
        self._answers: dict[Any, dict[str, Any]] = {}
        self._heard = threading.Condition()
        self._asked = 0
        self._work: threading.Thread | None = None

    def serve(self) -> None:
        for line in sys.stdin.buffer:
            frame = json.loads(line)
            if "method" not in frame:
                with self._heard:
                    self._answers[frame["id"]] = frame
                    self._heard.notify_all()
            elif frame["method"] == "session/cancel":
                self.cancelled.set()
                with self._heard:
                    self._heard.notify_all()
            elif frame["method"] == "session/prompt":
                self._work = threading.Thread(target=self._prompt, args=(frame,), daemon=True)
                self._work.start()
            else:
                self._answer(frame)

    def say(self, **fields: Any) -> None:
        write(json.dumps({"jsonrpc": "2.0", **fields}).encode() + b"\n")

    def update(self, what: str, **fields: Any) -> None:
        told = {"sessionUpdate": what, **fields}
        self.say(method="session/update", params={"sessionId": self.session, "update": told})

    def ask(self, method: str, params: dict[str, Any], id_: Any = None) -> dict[str, Any]:
        self._asked += 1
        key = f"asked-{self._asked}" if id_ is None else id_
        self.say(id=key, method=method, params=params)
        with self._heard:
            self._heard.wait_for(lambda: key in self._answers or self.cancelled.is_set(), 30)
            if key not in self._answers or self.cancelled.is_set():
                raise Cancelled
            return self._answers[key]

    def leave(self, call: dict[str, Any]) -> bool:
        asked = {"sessionId": self.session, "toolCall": call, "options": OPTIONS}
        if self.mode == "auto":
            return True
        outcome = self.ask("session/request_permission", asked)["result"]["outcome"]
        return outcome.get("optionId") in ("yes", "always")

    def _answer(self, frame: dict[str, Any]) -> None:
        params = frame["params"]
        match frame["method"]:
            case "initialize":
                able: dict[str, Any] = {"loadSession": "--load" in self.words}
                able["mcpCapabilities"] = {"http": "--http" in self.words}
                able["sessionCapabilities"] = {"resume": {}} if "--resume" in self.words else {}
                version = 99 if self.hostile == "version" else 1
                self.say(id=frame["id"], result={"protocolVersion": version, "agentCapabilities": able})
            case "session/new":
                if "login" in self.words:
                    self.say(id=frame["id"], error={"code": -32000, "message": "Authentication required"})
                    return
                self.session = f"s-{uuid.uuid4()}"
                self._open(params)
                models: dict[str, Any] = (
                    {"models": {"availableModels": [], "currentModelId": "preset"}} if "--models" in self.words else {}
                )
                if "--modeless" not in self.words:
                    models["modes"] = {"currentModeId": self.mode, "availableModes": MODES}
                self.say(id=frame["id"], result={"sessionId": self.session, **models})
            case "session/load" | "session/resume":
                self.session = params["sessionId"]
                if not self._store.exists():
                    self.say(id=frame["id"], error={"code": -32002, "message": "no such session"})
                    return
                self._open(params)
                self.messages = json.loads(self._store.read_text("utf-8"))
                if frame["method"] == "session/load":
                    self._replay()
                self.say(id=frame["id"], result={})
            case "session/set_mode":
                self.mode = params["modeId"]
                self.say(id=frame["id"], result={})
            case "session/set_model":
                self.model = params["modelId"]
                if self.model == "nope":
                    self.say(id=frame["id"], error={"code": -32602, "message": "unknown model"})
                else:
                    self.say(id=frame["id"], result={})
            case method:
                self.say(id=frame["id"], error={"code": -32601, "message": f"Method not found: {method}"})

    def _open(self, params: dict[str, Any]) -> None:
        os.chdir(params["cwd"])
        for one in params["mcpServers"]:
            pairs = {key: {pair["name"]: pair["value"] for pair in one.get(key, [])} for key in ("env", "headers")}
            self.servers.append(fake_cursor.Server(one["name"], {**one, **pairs}))

    @property
    def _store(self) -> Path:
        return Path(os.environ["HOME"]) / ".fake-acp" / f"{self.session}.json"

    def _replay(self) -> None:
        for message in self.messages:
            kind = "user_message_chunk" if message["role"] == "user" else "agent_message_chunk"
            self.update(kind, content={"type": "text", "text": f"said before: {json.dumps(message['content'])[:100]}"})
        self.update("tool_call", toolCallId="old", title="old", status="completed", rawInput={"a": 1})

    def _prompt(self, frame: dict[str, Any]) -> None:
        text = "".join(block.get("text", "") for block in frame["params"]["prompt"])
        key, _, endpoint = os.environ.get("FAKE_ACP_KEY", "").partition("@")
        model = Asking(endpoint, key, self.model)
        try:
            if self.hostile:
                HOSTILE[self.hostile](self, frame)
            self._keep({"role": "user", "content": text})
            stop = self._turns(model)
        except Cancelled:
            stop = "cancelled"
        except Refused as refused:
            self.say(id=frame["id"], error={"code": refused.code, "message": str(refused), "data": refused.body})
            return
        usage = {
            "inputTokens": model.usage["inputTokens"],
            "outputTokens": model.usage["outputTokens"],
            "cachedReadTokens": model.usage["cacheReadTokens"],
        }
        self.say(id=frame["id"], result={"stopReason": stop, "usage": usage})
        if self.hostile == "after-end":
            self.update("agent_message_chunk", content={"type": "text", "text": "and one more thing"})
            self.say(id="late", method="session/request_permission", params={"sessionId": self.session})
            self.say(id="later", method="fs/read_text_file", params={"path": "/etc/passwd"})

    def _turns(self, model: "Asking") -> str:
        while True:
            reply = asked(lambda: model.ask(self.messages, ["shell", *self._tools()]), self.cancelled)
            self._keep({"role": "assistant", "content": fake_cursor.plain(reply)})
            for start in range(0, len(reply.text), 20):
                self.update("agent_message_chunk", content={"type": "text", "text": reply.text[start : start + 20]})
            if not reply.calls:
                return "end_turn"
            self._keep({"role": "user", "content": [self._called(call) for call in reply.calls]})

    def _tools(self) -> list[str]:
        return [f"{server.name}-{tool}" for server in self.servers for tool in server.tools]

    def _called(self, call: dict[str, Any]) -> dict[str, Any]:
        server = next((one for one in self.servers if call["name"].startswith(f"{one.name}-")), None)
        told = {"toolCallId": call["id"], "title": call["name"], "kind": "other", "rawInput": call["input"]}
        if server is None:
            told |= {"kind": "execute"}
        else:
            tool = f"mcp__{server.name}__{call['name'].removeprefix(f'{server.name}-')}"
            told |= {"_meta": {"claudeCode": {"toolName": tool}}}
        self.update("tool_call", **told, status="pending")
        if not self.leave({**told, "title": call["input"].get("command", call["name"])}):
            result: dict[str, Any] = {"rejected": {"reason": "it was rejected"}}
        elif server is not None:
            result = server.call(call["name"].removeprefix(f"{server.name}-"), call["input"])
        else:
            result = fake_cursor.shell(str(call["input"].get("command", "")), os.getcwd())
        failed = "success" not in result or result["success"].get("isError", False)
        content = [{"type": "content", "content": {"type": "text", "text": json.dumps(result)}}]
        state = "failed" if failed else "completed"
        self.update("tool_call_update", toolCallId=call["id"], status=state, content=content)
        return {"type": "tool_result", "tool_use_id": call["id"], "content": json.dumps(result)}

    def _keep(self, message: dict[str, Any]) -> None:
        self.messages.append(message)
        self._store.parent.mkdir(parents=True, exist_ok=True)
        new = self._store.with_suffix(".new")
        new.write_text(json.dumps(self.messages), "utf-8")
        new.rename(self._store)


class Refused(Exception):
    def __init__(self, code: int, text: str, body: Any) -> None:
        super().__init__(text)
        self.code = code
        self.body = body


class Asking(fake_cursor.Model):
    """Whom it asks; a refusal keeps the status and the body."""

    def ask(self, messages: list[dict[str, Any]], tools: list[str]) -> fake_cursor.Reply:
        try:
            return super().ask(messages, tools)
        except fake_cursor.Refused as refused:
            status = str(refused).partition("]")[0].removeprefix("[")
            raise Refused(int(status) if status.isdecimal() else -32603, str(refused), None) from refused


def asked(work: Callable[[], Any], cancelled: threading.Event) -> Any:
    """What ``work`` gives. Raises Cancelled as soon as the client wants that, and whatever ``work`` raises."""
    found: list[Any] = []
    done = threading.Event()

    def run() -> None:
        try:
            found.append((True, work()))
        except (Refused, OSError, ValueError) as error:
            found.append((False, error))
        done.set()

    threading.Thread(target=run, daemon=True).start()
    while not done.wait(0.02):
        if cancelled.is_set():
            raise Cancelled
    well, value = found[0]
    if not well:
        raise value
    return value


def half(agent: Agent, _frame: dict[str, Any]) -> None:
    """A frame that breaks off, with another one behind it."""
    write(b'{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end\n')


def giant_update(agent: Agent, _frame: dict[str, Any]) -> None:
    agent.update("agent_message_chunk", content={"type": "text", "text": "x" * GIANT_BYTES})


def giant_request(agent: Agent, _frame: dict[str, Any]) -> None:
    """A request that is too large to be read, and so to be answered."""
    agent.ask("session/request_permission", {"sessionId": agent.session, "toolCall": {"title": "x" * GIANT_BYTES}})


def wrong_ids(agent: Agent, frame: dict[str, Any]) -> None:
    """Answers that nobody waits for, under ids of every kind."""
    ids: tuple[Any, ...] = (0, 1, 2, 999, -1, "3", "x", 2**70, 1.5, None, [1], {})
    for id_ in ids:
        agent.say(id=id_, result={"stopReason": "end_turn"} if id_ != frame["id"] else {})


def unknown(agent: Agent, _frame: dict[str, Any]) -> None:
    """Asks for what nobody offered; goes on only if each is refused."""
    for method in ("fs/read_text_file", "fs/write_text_file", "terminal/create", "session/request_permission", "_x/y"):
        answer = agent.ask(method, {"path": "/etc/passwd", "content": "x", "command": "id"})
        assert answer["error"]["code"] in (-32601, -32602), answer
    agent.say(method="_x/notified", params={"a": [1]})
    agent.update("what_is_this", content=[1, 2], toolCallId=7)
    agent.update("tool_call", toolCallId=None, title={"a": 1})
    write(b'[{"jsonrpc":"2.0","id":1,"result":{}}]\n' + b"[" * 100_000 + b"\n")


def flood(agent: Agent, _frame: dict[str, Any]) -> None:
    """Asks for leave of very many things at once."""
    for number in range(500):
        call = {"toolCallId": f"f{number}", "title": "sleep 1", "kind": "execute", "rawInput": {"command": "sleep 1"}}
        params = {"sessionId": agent.session, "toolCall": call, "options": OPTIONS}
        agent.say(id=f"f{number}", method="session/request_permission", params=params)


def leave_for_good(agent: Agent, _frame: dict[str, Any]) -> None:
    call = {"toolCallId": "g", "title": "rm -r", "kind": "delete", "rawInput": {"path": "x"}}
    params = {"sessionId": agent.session, "toolCall": call, "options": OPTIONS[1:2]}
    outcome = agent.ask("session/request_permission", params)["result"]["outcome"]
    assert outcome == {"outcome": "cancelled"}, outcome


def calls(agent: Agent, _frame: dict[str, Any]) -> None:
    """Begins very many calls, of which none comes back."""
    for number in range(1000):
        agent.update("tool_call", toolCallId=f"c{number}", title="bash", rawInput={"a": 1})


def other_mode(agent: Agent, _frame: dict[str, Any]) -> None:
    agent.mode = "auto"
    agent.update("current_mode_update", currentModeId="auto")


def after_end(agent: Agent, _frame: dict[str, Any]) -> None:
    """Goes on talking when all has been said: see ``_prompt``."""


HOSTILE: dict[str, Callable[[Agent, dict[str, Any]], None]] = {
    "half": half, "giant-update": giant_update, "giant-request": giant_request, "wrong-ids": wrong_ids,
    "unknown": unknown, "flood": flood, "leave-for-good": leave_for_good, "calls": calls, "after-end": after_end,
    "other-mode": other_mode,
}  # fmt: skip

_writing = threading.Lock()


def write(data: bytes) -> None:
    with _writing:
        while data:
            data = data[os.write(1, data) :]


def fail(broken: threading.ExceptHookArgs) -> None:
    """A bug of this file ends it, and is seen."""
    sys.__excepthook__(broken.exc_type, broken.exc_value or broken.exc_type(), broken.exc_traceback)
    os._exit(70)


if __name__ == "__main__":
    threading.excepthook = fail
    Agent(sys.argv[1:]).serve()
