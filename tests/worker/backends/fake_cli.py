"""An executable that stands where a program is looked for: it plays a recording, or runs the real one and records it.

Written into a folder on PATH with a CONFIG on top, and run by an interpreter without site packages: standard library
only. It leaves word of each process it was (``1.json``, ``2.json``: pid, argv, environment, standard input), and can
tamper with what is said, as programs do in bad days.

A recording is the lines of standard output; the last line (``{"recorded": ...}``) says how the process ended, and which
files it left that belong to what it says.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

GARBAGE = (
    b"Warning: something happened\n",
    b"{not json\n",
    b'{"type": 7}\n',
    b"\xff\xfe\n",
    b"[1, 2]\n",
    b"x" * 200_000,
)
"""Lines that are none of any format; the last one has no end of its own."""


def main(config: dict[str, Any]) -> None:
    """Be the program once, as ``config`` says."""
    number = _leave_word(Path(config["notes"]), talks=config["talks"])
    tamper = config["tamper"]
    if config["talks"]:
        _relay(config, number)
    source = _Recording(config, number) if config["real"] is None else _Real(config, number)
    lines = list(source.lines()) if tamper == "mute" else source.lines()
    if tamper == "garbage":
        _say(b"\n".join(GARBAGE) + b"\n")
    for line in lines[:-1] if isinstance(lines, list) else lines:
        _say(line)
        if tamper == "garbage":
            _say(GARBAGE[1])
    if tamper == "stay":
        _wait()
    os._exit(0) if tamper == "mute" else source.leave()


class _Recording:
    """What a process said once. Files: ``<scenario>.<number>.jsonl``."""

    def __init__(self, config: dict[str, Any], number: int) -> None:
        *self._lines, last = Path(f"{config['recorded']}.{number}.jsonl").read_bytes().splitlines(keepends=True)
        self._ended: dict[str, Any] = {"files": {}, **json.loads(last)["recorded"]}
        self._folder = Path(config["folder"])
        if config.get("calls") is not None:
            visit(config["calls"][number - 1 : number])

    def lines(self) -> Iterator[bytes]:
        for name, text in self._ended["files"].items():
            path = self._folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        return iter(self._lines)

    def leave(self) -> None:
        """End as it ended: by itself, or when it was told to."""
        sys.stderr.write(self._ended["stderr"])
        sys.stderr.flush()
        if self._ended["told"]:
            _wait()
        if self._ended["code"] < 0:
            os.kill(os.getpid(), -self._ended["code"])
        os._exit(self._ended["code"])


class _Real:
    """The real program, under the same arguments, environment and input."""

    def __init__(self, config: dict[str, Any], number: int) -> None:
        self._record = None if config["record"] is None else Path(f"{config['record']}.{number}.jsonl")
        self._replace = config["replace"]
        self._folder = Path(config["folder"])
        self._keeps = config["keeps"]
        self._told = False
        if self._record is None and config["tamper"] is None:
            os.execv(config["real"][0], [*config["real"], *sys.argv[1:]])
        signal.signal(signal.SIGTERM, self._tell)
        self._process = subprocess.Popen(
            [*config["real"], *sys.argv[1:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ)
        )
        self._said: list[bytes] = []

    def lines(self) -> Iterator[bytes]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.append(line)
            yield line

    def leave(self) -> None:
        assert self._process.stderr is not None
        stderr = self._process.stderr.read().decode("utf-8", "replace")
        code = self._process.wait()
        ended = {"recorded": {"code": code, "stderr": stderr, "told": self._told, "files": self._files()}}
        if self._record is not None:
            text = b"".join([*self._said, json.dumps(ended).encode() + b"\n"]).decode("utf-8", "replace")
            for place, name in self._replace.items():
                text = text.replace(place, name)
            self._record.write_text(text, "utf-8")
        sys.stderr.write(stderr)
        sys.stderr.flush()
        os._exit(code if code >= 0 else 128 - code)

    def _files(self) -> dict[str, str]:
        return {
            str(path.relative_to(self._folder)): "".join(
                line for line in path.read_text("utf-8").splitlines(keepends=True) if word in line
            )
            for pattern, word in self._keeps.items()
            for path in self._folder.glob(pattern)
        }

    def _tell(self, number: int, _frame: object) -> None:
        self._told = True
        self._process.send_signal(number)


def _relay(config: dict[str, Any], number: int) -> NoReturn:
    process = subprocess.Popen([*config["real"], *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    stdin, stdout, tamper = process.stdin, process.stdout, config["tamper"]
    assert stdin is not None
    assert stdout is not None
    signal.signal(signal.SIGTERM, lambda told, _frame: process.send_signal(told))

    def pass_on() -> None:
        with open(Path(config["notes"]) / f"{number}.stdin", "ab", buffering=0) as noted, contextlib.suppress(OSError):
            while chunk := os.read(0, 65536):
                noted.write(chunk)
                stdin.write(chunk)
                stdin.flush()
            stdin.close()

    threading.Thread(target=pass_on, daemon=True).start()
    if tamper == "garbage":
        _say(b"\n".join(GARBAGE) + b"\n")
    for line in stdout:
        if tamper == "mute" and b'"stopReason"' in line:
            process.kill()
            os._exit(0)
        _say(line)
        if tamper == "garbage":
            _say(GARBAGE[1])
    if tamper == "stay":
        _wait()
    code = process.wait()
    os._exit(code if code >= 0 else 128 - code)


def _leave_word(notes: Path, *, talks: bool) -> int:
    number = len(list(notes.glob("*.json"))) + 1
    stdin = "" if talks else sys.stdin.buffer.read().decode("utf-8", "replace")
    if not talks and sys.stdin.buffer.seekable():
        os.lseek(0, 0, os.SEEK_SET)
    word = {"pid": os.getpid(), "argv": sys.argv[1:], "env": dict(os.environ), "stdin": stdin}
    (notes / f"{number}.part").write_text(json.dumps(word), "utf-8")
    (notes / f"{number}.part").rename(notes / f"{number}.json")
    return number


def visit(calls: list[tuple[str, dict[str, Any]]]) -> None:
    """List the tools of Daemon MCP, and call these, as ``--mcp-config`` says where it is."""
    import urllib.request

    servers = json.loads(Path(sys.argv[sys.argv.index("--mcp-config") + 1]).read_text("utf-8"))["mcpServers"]
    requests: list[tuple[str, dict[str, Any]]] = [("tools/list", {})]
    requests += [("tools/call", {"name": name, "arguments": arguments}) for name, arguments in calls]
    for number, (method, params) in enumerate(requests):
        about = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "stand-in", "version": "1"},
        }
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": about}}
        headers = {
            **servers["daemon"]["headers"],
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": method,
            **({"mcp-name": params["name"]} if params else {}),
        }
        request = urllib.request.Request(servers["daemon"]["url"], json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=10) as response:
            response.read()


def _say(line: bytes) -> None:
    os.write(1, line)


def _wait() -> None:
    signal.signal(signal.SIGTERM, lambda _number, _frame: os._exit(143))
    while True:
        signal.pause()
