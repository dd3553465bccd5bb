"""Stories: requests and tool calls, line by line, against a kernel of their own, and the answers to them.

Each file of ``stories`` is one story. Its lines are:

- ``POST /messages {...}``: a request of the user; ``NAME`` before it is the token to use, ``anonymous`` for none
- ``NAME: tool {...}``: a tool call of an attempt, or of ``user``; also ``tools/list`` and, short, ``tools/names``
- ``$ ps --json``: a command, in this process; of its output a JSON document, or the text
- ``with Name: value``: a header of the next request
- ``lease NAME TARGET`` or ``lease NAME iN``: start an attempt whose token is NAME; TARGET is sent a message first
- ``scopes iN SCOPE...``, ``entry iN {...}``, ``end iN TEXT``, ``fail iN``: scopes, entries and end of an attempt
- ``file PATH {...}``: write a file of the project (JSON is YAML)
- ``keep NAME a.b``: store a value of the last answer; ``$NAME`` inserts it, and it can be used as a token
- ``quiet ...``: any of these, left out of the recording
- ``do HOOK``: a step that no request can take, see tests/wire/hooks.py
- ``begin TYPE METHOD PATH {...}``: start a request and wait for an event of TYPE; ``finish`` waits for the answer
"""

import json
import re
import shlex
from copy import copy
from dataclasses import dataclass, field
from functools import partial, reduce
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

from kernel.api.responses import COMMON
from kernel.api.routes import route_of
from kernel.store.attempts import narrow
from kernel.store.transitions.close import close
from kernel.store.transitions.journal import journal
from protocol.discovery import VERSION
from protocol.ipc import Entry
from tests.builders.api import RECORD_TOKEN, TOKEN, ServedKernel, serve_kernel
from tests.interface.conftest import Cli
from tests.interface.kernel_double import KernelDouble
from tests.kernel.api.client import Answer
from tests.kernel.api.mcp.rpc import ENVELOPE, call_of, post
from tests.wire.hooks import ENVIRON, HOOKS, signature
from tests.wire.normal import Lines, Normal, document

FOLDER: Final = Path(__file__).parent / "stories"
STORIES: Final = tuple(sorted(path.stem for path in FOLDER.iterdir()))
REQUEST: Final = re.compile(r"(?:(\w+) )?(GET|POST|PUT|PATCH|DELETE) (\S+)(?: (.*))?")
_CALL: Final = re.compile(r"(\w+): (\S+)(?: (.*))?")
_UNTOLD: Final = frozenset({"date", "content-length", "connection", "transfer-encoding", "server"})
_COMMON: Final = {(name.decode(), value.decode()) for name, value in COMMON}


@dataclass
class Teller:
    """One story while it is told."""

    kernel: ServedKernel
    cli: Cli
    nursery: trio.Nursery
    normal: Normal
    text: str = ""
    kept: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    last: Any = None
    waiting: trio.Event = field(default_factory=trio.Event)

    async def line(self, line: str) -> None:
        """Carry out one line. Raises ValueError on an unknown one."""
        line = re.sub(r"\$(\w+)", lambda match: self.kept.get(match[1], match[0]), line)
        word, _, rest = line.partition(" ")
        match word, rest.split(" ", 1):
            case "$", _:
                await self._command(rest)
            case "quiet", _:
                beside = copy(self)  # a command that began earlier may write its answer to our text meanwhile
                await beside.line(rest)
                self.last = beside.last
            case "with", [name, value]:
                self.headers[name.rstrip(":")] = value
            case "keep", [name, place]:
                self.kept[name] = str(reduce(_part, place.split("."), self.last))
                self.normal.secrets[self.kept[name]] = f"<{name}>"
            case "begin", [kind, request]:
                await self._begin(kind, request)
            case "finish", _:
                with trio.fail_after(10):
                    await self.waiting.wait()
            case _ if match := REQUEST.fullmatch(line):
                await self._request(*match.groups())
            case _ if match := _CALL.fullmatch(line):
                await self._call(*match.groups())
            case _:
                await self._happen(word, *rest.partition(" ")[::2])

    async def _happen(self, word: str, first: str, rest: str) -> None:
        match word:
            case "lease" if re.fullmatch(r"i\d+", rest):
                await self.kernel.lease(rest, first)
            case "lease":
                await self.kernel.attempt(rest, "work", first)
            case "scopes":
                await self._commit(narrow, first, 1, frozenset(rest.split()))
            case "entry":
                await self._commit(journal, first, 1, _entry(rest))
            case "end":
                await self.kernel.end(first, text=rest)
            case "fail":
                await self._commit(close, first, 1, status="failed", cause="invalid", stderr_tail="boom")
            case "file":
                file = self.kernel.services.files.catalog.root / first
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(rest, "utf-8")
            case "do":
                await HOOKS[first](self.kernel)
            case _:
                raise ValueError(f"{word} {first} {rest}")

    async def _commit(self, *change: Any, **how: Any) -> None:
        await self.kernel.services.store.writer.commit(*change, **how)

    async def _begin(self, kind: str, request: str) -> None:
        self.waiting = trio.Event()

        async def ask() -> None:
            await self.line(request)
            self.waiting.set()

        with trio.fail_after(10), self.kernel.services.store.feed.subscribe(types={kind}) as events:
            self.nursery.start_soon(ask)
            await anext(events)

    async def _request(self, name: str | None, method: str, path: str, body: str | None) -> None:
        sent = None if body is None else json.loads(body)
        fields = self.kernel.headers(self._token(name or "user")) | self.headers
        fields |= signature(sent) if name == "signed" else {}
        self.headers = {}
        answer = await self.kernel.ask(method, path, sent, headers=fields)
        route = route_of(method, path.partition("?")[0])
        row = f"{method} {path.partition('?')[0]}" if route is None else f"{route.method} {route.path}"
        shown = {key: value for key, value in fields.items() if key not in ("Host", "Authorization")}
        self._write(f"{name or 'user'}: {method} {path}", shown, sent, answer, "" if row.endswith(path) else row)

    async def _call(self, name: str, tool: str, arguments: str | None) -> None:
        sent = json.loads(arguments or "{}")
        if tool in ("tools/list", "tools/names"):
            body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": ENVELOPE}}
        else:
            body = call_of(tool, sent)
        answer = await post(self.kernel, body, self._token(name) or "")
        self._write(f"{name}: {tool}", {}, sent or None, answer)

    async def _command(self, line: str) -> None:
        ran = await trio.to_thread.run_sync(partial(self.cli, *shlex.split(line)))
        try:
            shown = json.loads(ran.out)
        except ValueError:
            shown = ran.out.rstrip("\n")
        notes = f"{ran.err}-> {ran.code}"
        self.text += self.normal.text(f"## $ {line}\n{notes}\n") + document(self.normal(shown)) + "\n\n"

    def _token(self, name: str) -> str | None:
        return {"user": TOKEN, "record": RECORD_TOKEN, "anonymous": None, "signed": None}.get(
            name, self.kept.get(name, name)
        )

    def _write(self, head: str, fields: dict[str, str], sent: Any, answer: Answer, route: str = "") -> None:
        content = answer.headers.get("content-type", "")
        shown: Any = None
        if "json" in content and "ndjson" not in content:
            shown = answer.json
            result = shown.get("result") if "jsonrpc" in shown else shown
            self.last = result.get("structuredContent", result) if isinstance(result, dict) else shown
        elif "ndjson" in content:
            shown = Lines(json.loads(line) for line in answer.body.decode().splitlines())
        elif "event-stream" in content:
            shown = Lines(_event(block) for block in answer.body.decode().split("\n\n") if block.strip("\n"))
        elif answer.body:
            shown = f"<bytes of {head.rpartition(' ')[2]}>" if "/page" in head else answer.body.decode()
        if head.endswith("/openapi.json"):
            shown = "<see openapi.json>"
        if head.endswith("tools/names"):
            shown = [tool["name"] for tool in shown["result"]["tools"]]
        lines = [f"## {head}", *([f"route: {route}"] if route else ())]
        lines += [f"{name}: {value}" for name, value in fields.items()]
        lines += [] if sent is None else [json.dumps(sent, ensure_ascii=False)]
        more = [item for item in sorted(answer.headers.items()) if item[0] not in _UNTOLD and item not in _COMMON]
        lines += [f"-> {answer.status}", *(f"{name}: {value}" for name, value in more)]
        self.text += "\n".join(map(self.normal.text, lines)) + "\n" + document(self.normal(shown)) + "\n\n"


def _entry(text: str) -> Entry:
    return msgspec.json.decode(msgspec.json.encode({"t": "entry", **json.loads(text)}), type=Entry)


def _part(value: Any, key: str) -> Any:
    return value[int(key)] if key.isdigit() else value[key]


def _event(block: str) -> Any:
    fields = {name: value for name, _, value in (line.partition(": ") for line in block.split("\n"))}
    return {**fields, "data": json.loads(fields["data"])} if "data" in fields else fields


async def tell(story: str, root: Path) -> str:
    """Tell a story in ``root``, an empty folder, and all events that it caused. Returns its recording."""
    lines = (FOLDER / f"{story}.txt").read_text("utf-8").splitlines()
    async with serve_kernel(root, ENVIRON) as kernel, trio.open_nursery() as nursery:
        identity = msgspec.structs.replace(kernel.services.kernel.identity, version=VERSION)
        msgspec.structs.force_setattr(kernel.services.kernel, "identity", identity)  # of the commands, too
        cli = Cli(root / "project", root / "home")
        KernelDouble(token=TOKEN).publish(cli.home, cli.root, url=f"http://{kernel.host}")
        teller = Teller(kernel, cli, nursery, Normal({str(root): "<root>", kernel.host: "<host>"}))
        for line in (*lines, "GET /events?since=0&follow=0"):
            if line and not line.startswith("#"):
                await teller.line(line)
    return teller.text
