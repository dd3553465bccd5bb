"""Stand-in for cursor-agent, which needs an account: its documented flags, files, events and refusals.

It reads HOME/.cursor, calls MCP servers over HTTP, runs shell commands and stores its chats. Its model is reached in
Anthropic's dialect at the address after the ``@`` in CURSOR_API_KEY. From reports of users: it exits with 0 in an
untrusted directory, starts a new chat for an unknown one, ignores unreachable servers, and lets undecided calls wait.
"""

import argparse
import hashlib
import json
import os
import re
import select
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

VERSION = "2026.08.11-e8db854"
STALL_SECONDS = 0.3
"""Reports say 33 to 40."""


def main() -> int:
    """Be the program once. Returns the exit code."""
    options = parsed(sys.argv[1:])
    if not (options.trust or options.force):
        sys.stdout.write("⚠ Workspace Trust Required\n\nPass --trust, --yolo, or -f if you trust this directory.\n")
        return 0
    key, _, endpoint = os.environ.get("CURSOR_API_KEY", "").partition("@")
    if not key:
        return complain("Authentication required. Please run 'agent login' first, or set CURSOR_API_KEY.")
    prompt = " ".join(options.prompt) or sys.stdin.read()
    if not prompt.strip():
        return complain("No prompt provided for print mode.")
    try:
        Run(options, Model(endpoint, key, options.model)).play(prompt)
    except Refused as refused:
        return complain(str(refused))
    return 0


def parsed(words: list[str]) -> argparse.Namespace:
    """The flags that are documented; one that is not is refused."""
    parser = argparse.ArgumentParser(prog="cursor-agent", description="Start the Cursor Agent", allow_abbrev=False)
    parser.add_argument("-v", "--version", action="version", version=VERSION)
    parser.add_argument("-p", "--print", action="store_true", required=True)
    parser.add_argument("--output-format", choices=("text", "json", "stream-json"), default="text")
    for flag in ("--trust", "--approve-mcps", "--stream-partial-output"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("-f", "--force", "--yolo", action="store_true")
    parser.add_argument("--workspace", default=os.getcwd())
    parser.add_argument("--model", default="auto")
    parser.add_argument("--resume")
    parser.add_argument("prompt", nargs="*")
    return parser.parse_args(words)


def complain(text: str) -> int:
    sys.stderr.write(f"Error: {text}\n")
    return 1


class Refused(Exception):
    """The run breaks off, and there is no result."""


@dataclass
class Reply:
    """What the model said."""

    text: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    blocks: list[dict[str, Any]] = field(default_factory=list)


class Model:
    """Whom it asks. ``usage`` is of the whole run."""

    def __init__(self, endpoint: str, key: str, name: str) -> None:
        self._endpoint = endpoint
        self._key = key
        self._name = name
        self.usage = {"inputTokens": 0, "outputTokens": 0, "cacheReadTokens": 0, "cacheWriteTokens": 0}

    def ask(self, messages: list[dict[str, Any]], tools: list[str]) -> Reply:
        body = {"model": self._name, "stream": True, "messages": messages, "tools": [{"name": name} for name in tools]}
        headers = {"Content-Type": "application/json", "x-api-key": self._key}
        request = urllib.request.Request(f"{self._endpoint}/v1/messages", json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request) as answer:
                return self._read(json.loads(line[6:]) for line in answer if line.startswith(b"data: "))
        except urllib.error.HTTPError as error:
            raise Refused(f"[{error.code}] {json.loads(error.read())['error']['message']}") from error
        except OSError as error:
            raise Refused(f"Connection lost: {error}") from error

    def _read(self, events: Iterator[dict[str, Any]]) -> Reply:
        reply = Reply()
        for event in events:
            match event["type"]:
                case "message_start":
                    counted = event["message"]["usage"]
                    self.usage["inputTokens"] += counted["input_tokens"]
                    self.usage["cacheReadTokens"] += counted["cache_read_input_tokens"]
                case "content_block_start":
                    reply.blocks.append({**event["content_block"], "json": ""})
                case "content_block_delta":
                    delta, block = event["delta"], reply.blocks[-1]
                    block["text"] = block.get("text", "") + delta.get("text", "")
                    block["json"] += delta.get("partial_json", "")
                case "message_delta":
                    self.usage["outputTokens"] += event["usage"]["output_tokens"]
                case _:
                    pass
        reply.text = "".join(block["text"] for block in reply.blocks if block["type"] == "text")
        reply.calls = [block for block in reply.blocks if block["type"] == "tool_use"]
        for call in reply.calls:
            call["input"] = json.loads(call["json"] or "{}")
        return reply


class Server:
    """An MCP server that is configured; without tools where it cannot be reached."""

    def __init__(self, name: str, config: dict[str, Any]) -> None:
        self.name = name
        self._url = config.get("url")
        self._process = None if self._url else _started(config)
        self._headers = {key: _filled(value) for key, value in config.get("headers", {}).items()}
        self._session: str | None = None
        self._id = 0
        self.tools: list[str] = []
        try:
            about = {"name": "cursor", "version": VERSION}
            self._ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about})
            self._ask("notifications/initialized", None)
            self.tools = [tool["name"] for tool in self._ask("tools/list", {})["tools"]]
        except (OSError, ValueError, KeyError):
            pass

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """What a tool answers, in the words of an event."""
        try:
            result = self._ask("tools/call", {"name": tool, "arguments": arguments})
        except (OSError, ValueError, KeyError) as error:
            return {"error": {"error": str(error)}}
        content = [{"text": {"text": part.get("text", "")}} for part in result.get("content", [])]
        return {"success": {"content": content, "isError": bool(result.get("isError"))}}

    def _ask(self, method: str, params: dict[str, Any] | None) -> Any:
        body: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            self._id += 1
            body |= {"id": self._id, "params": params}
        if self._process is not None:
            return self._told(self._process, body)
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-06-18",
            **({"Mcp-Session-Id": self._session} if self._session else {}),
            **self._headers,
        }
        request = urllib.request.Request(str(self._url), json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request) as answer:
            self._session = answer.headers.get("Mcp-Session-Id", self._session)
            said = answer.read()
        return json.loads(said)["result"] if params is not None else None

    def _told(self, process: subprocess.Popen[str], body: dict[str, Any]) -> Any:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(body) + "\n")
        process.stdin.flush()
        if "id" not in body:
            return None
        for line in process.stdout:
            said = json.loads(line)
            if said.get("id") == body["id"]:
                return said["result"]
        raise OSError("Connection closed")


def _started(config: dict[str, Any]) -> subprocess.Popen[str]:
    words, env = [config["command"], *config.get("args", [])], {**os.environ, **config.get("env", {})}
    return subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


class Run:
    """One run in print mode."""

    def __init__(self, options: argparse.Namespace, model: Model) -> None:
        self._options = options
        self._model = model
        home = Path(os.environ["HOME"]) / ".cursor"
        self._permissions = _json_in(home / "cli-config.json").get("permissions", {})
        servers = _json_in(home / "mcp.json").get("mcpServers", {})
        servers |= _json_in(Path(options.workspace) / ".cursor/mcp.json").get("mcpServers", {})
        self._servers = [Server(name, config) for name, config in servers.items()]
        chats = home / "chats" / hashlib.md5(options.workspace.encode(), usedforsecurity=False).hexdigest()
        known = options.resume and (chats / options.resume / "store.json").exists()
        self._session = options.resume if known else str(uuid.uuid4())
        self._store = chats / self._session / "store.json"
        self._messages: list[dict[str, Any]] = json.loads(self._store.read_text("utf-8")) if known else []
        self._begun = time.monotonic()

    def play(self, prompt: str) -> None:
        """Work until the model asks for no tool. Raises Refused."""
        mode = {"apiKeySource": "env", "cwd": self._options.workspace, "model": self._options.model}
        self._say("system", "init", **mode, permissionMode="default")
        self._say("user", message={"role": "user", "content": [{"type": "text", "text": prompt}]})
        self._keep({"role": "user", "content": prompt})
        said = ""
        while True:
            reply = self._model.ask(self._messages, ["shell", *self._tools()])
            said += reply.text
            self._keep({"role": "assistant", "content": plain(reply)})
            if reply.text:
                content = [{"type": "text", "text": reply.text}]
                self._say("assistant", message={"role": "assistant", "content": content})
            if not reply.calls:
                break
            results = [self._called(call) for call in reply.calls]
            self._keep({"role": "user", "content": results})
        ms = int((time.monotonic() - self._begun) * 1000)
        end = {"duration_ms": ms, "duration_api_ms": ms, "is_error": False, "result": said, "request_id": "r"}
        self._say("result", "success", **end, usage=self._model.usage)

    def _tools(self) -> list[str]:
        return [f"{server.name}-{tool}" for server in self._servers for tool in server.tools]

    def _called(self, call: dict[str, Any]) -> dict[str, Any]:
        server = next((one for one in self._servers if call["name"].startswith(f"{one.name}-")), None)
        if server is not None:
            tool = call["name"].removeprefix(f"{server.name}-")
            args = {"name": call["name"], "args": call["input"], "toolCallId": call["id"]}
            args |= {"providerIdentifier": server.name, "toolName": tool}
            self._tool_call("started", "mcp", call, args)
            result = self._guarded(f"Mcp({server.name}:{tool})", lambda: server.call(tool, call["input"]))
            self._tool_call("completed", "mcp", call, args, result)
        else:
            command = str(call["input"].get("command", ""))
            self._tool_call("started", "shell", call, call["input"])
            result = self._guarded(f"Shell({command})", lambda: shell(command, self._options.workspace))
            self._tool_call("completed", "shell", call, call["input"], result)
        return {"type": "tool_result", "tool_use_id": call["id"], "content": json.dumps(result)}

    def _guarded(self, action: str, run: Any) -> dict[str, Any]:
        if any(fnmatchcase(action, rule) for rule in self._permissions.get("deny", [])):
            return {"rejected": {"reason": f"Rejected by rule: {action}"}}
        allowed = any(fnmatchcase(action, rule) for rule in self._permissions.get("allow", []))
        approved = self._options.approve_mcps or not action.startswith("Mcp(")
        if (allowed or self._options.force) and approved:
            return dict(run())
        select.select([], [], [], STALL_SECONDS)
        return {"rejected": {"reason": f"User rejected: {action}"}}

    def _tool_call(
        self, subtype: str, kind: str, call: dict[str, Any], args: dict[str, Any], result: dict[str, Any] | None = None
    ) -> None:
        body = {"args": args, **({} if result is None else {"result": result})}
        self._say("tool_call", subtype, call_id=call["id"], tool_call={f"{kind}ToolCall": body})

    def _say(self, kind: str, subtype: str | None = None, **more: Any) -> None:
        event = {"type": kind, **({"subtype": subtype} if subtype else {}), **more, "session_id": self._session}
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()

    def _keep(self, message: dict[str, Any]) -> None:
        self._messages.append(message)
        self._store.parent.mkdir(parents=True, exist_ok=True)
        new = self._store.with_suffix(".new")
        new.write_text(json.dumps(self._messages), "utf-8")
        new.rename(self._store)


def plain(reply: Reply) -> list[dict[str, Any]]:
    """The blocks of a reply as they are told again."""
    keys = ("type", "text", "id", "name", "input")
    return [{key: block[key] for key in keys if key in block} for block in reply.blocks]


def shell(command: str, cwd: str) -> dict[str, Any]:
    done = subprocess.run(["/bin/sh", "-c", command], cwd=cwd, capture_output=True, text=True, check=False)
    said = {"command": command, "exitCode": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
    return {"success" if done.returncode == 0 else "error": said}


def _filled(text: str) -> str:
    return re.sub(r"\$\{env:(\w+)\}", lambda found: os.environ.get(found[1], ""), text)


def _json_in(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}


if __name__ == "__main__":
    sys.exit(main())
