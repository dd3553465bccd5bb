"""An agent's own MCP servers, the real SDK's among them, over a program's streams and over HTTP."""

import re
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import mcp_types as types
import psutil
import pytest
import trio

from protocol.agent import McpServer
from protocol.tools import server_name_fault
from tests.worker.conftest import Told
from tests.worker.fake_daemon import FakeDaemon
from tests.worker.tools.conftest import use
from worker import mcp_servers
from worker.mcp_stdio import KEPT_BYTES
from worker.subprocesses import Subprocesses
from worker.tool import BuiltinTool

SCRIPT = str(Path(__file__).with_name("stdio_server.py"))
PLAIN = ("-I", "-S", SCRIPT)
LOCAL = McpServer(command=sys.executable, args=PLAIN, env={"TOKEN": "s3"})


def tools(running: tuple[mcp_servers.Server, ...]) -> Mapping[str, BuiltinTool]:
    return {name: own for server in running for name, own in mcp_servers.tools_of(server, "i7").items()}


@asynccontextmanager
async def serving(
    servers: Mapping[str, McpServer], programs: Subprocesses, *tell: mcp_servers.Tell
) -> AsyncGenerator[Mapping[str, BuiltinTool]]:
    """The tools of ``servers``, which run for seconds at most."""
    with trio.fail_after(20):
        async with mcp_servers.running(servers, programs, *tell) as running:
            yield tools(running)


@pytest.mark.promise("P9")
@pytest.mark.parametrize("served", [PLAIN, (SCRIPT, "sdk")], ids=["by hand", "by the SDK"])
async def test_tools_of_a_program_are_offered_and_called(programs: Subprocesses, served: tuple[str, ...]) -> None:
    """contracts 1: its environment is what the file gives it; readOnlyHint counts not; one that dies is told."""
    with trio.fail_after(20):
        config = McpServer(command=sys.executable, args=served, env={"TOKEN": "s3"})
        async with mcp_servers.running({"one": config}, programs) as running:
            own = tools(running)
            assert {name: tool.read_only for name, tool in own.items()} == {
                "mcp__one__look": False, "mcp__one__add": False, "mcp__one__refuse": False,
                "mcp__one__die": False, "mcp__one__pid": False, "mcp__one__breed": False,
            }  # fmt: skip
            assert [(await use(own["mcp__one__look"], name=name)).text for name in ("TOKEN", "PYTHONPATH")] == [
                "s3",
                "unset",
            ]
            assert (await use(own["mcp__one__add"], a=1, b=2)).text == "3"
            assert (await use(own["mcp__one__add"], a="x")).is_error
            assert (await use(own["mcp__one__refuse"])).is_error
            assert (await use(own["mcp__one__die"])).text.startswith("server one has exited: ")
            assert (await use(own["mcp__one__add"], a=1, b=2)).is_error, "and nobody went with it"


@pytest.mark.promise("P19")
async def test_what_only_reads_is_said_by_the_agents_file(programs: Subprocesses) -> None:
    """A server of a repository could call anything read-only, and nobody would be asked."""
    with trio.fail_after(20):
        async with mcp_servers.running({"one": LOCAL}, programs) as running:
            [server] = running

    def reads(*read_only: str) -> set[str]:
        own = mcp_servers.tools_of(server, "i7", read_only)
        return {name.removeprefix("mcp__one__") for name, tool in own.items() if tool.read_only}

    assert reads("mcp__one__look") == {"look"}
    assert reads("mcp__one__p*") == {"pid"}
    assert reads("mcp__two__*", "mcp__one__loo", "look") == set()
    assert reads("mcp__one__*") == {"look", "add", "refuse", "die", "pid", "breed"}


ODD = """
import json, sys
TOOLS = [
    {"name": "bare", "description": "no schema"}, {"name": "odd", "inputSchema": {"type": "object"}, "annotations": 3},
    {"description": "no name"}, "no tool", {"name": "sound", "inputSchema": {"type": "object", "required": ["a"]}},
]
for line in sys.stdin:
    asked = json.loads(line)
    result = {"tools": TOOLS}
    if asked["method"] == "initialize":
        result = {"capabilities": {"tools": {}}, "serverInfo": {"name": "o", "version": "1"}}
        result["protocolVersion"] = asked["params"]["protocolVersion"]
    elif asked["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": asked["params"]["name"]}]}
    elif asked["method"] != "tools/list":
        error = {"code": -32601, "message": "no"}
        print(json.dumps({"jsonrpc": "2.0", "id": asked.get("id"), "error": error}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


async def test_a_tool_that_is_not_as_it_should_be_costs_no_other(programs: Subprocesses) -> None:
    """contracts 1: what can be used of it is, and nobody is shown the SDK's own words about it."""
    with trio.fail_after(20):
        odd = McpServer(command=sys.executable, args=("-I", "-S", "-c", ODD))
        async with mcp_servers.running({"o": odd}, programs) as running:
            own = tools(running)
            assert list(own) == ["mcp__o__bare", "mcp__o__odd", "mcp__o__sound"], running[0].fault
            assert (await use(own["mcp__o__bare"])).text == "bare"
            spec = own["mcp__o__sound"].spec
            assert spec is not None and b"required" in bytes(spec.input_schema)


@pytest.mark.promise("P9")
async def test_servers_that_do_not_come_are_told_in_place_of_their_tools(
    programs: Subprocesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_servers, "START_SECONDS", 0.5)
    broken = {
        "missing": McpServer(command="/no/such/server"),
        "chatty": McpServer(command="/bin/echo", args=("hello",)),
        "mute": McpServer(command="/bin/sh", args=("-c", "cat > /dev/null")),
        "away": McpServer(url="http://127.0.0.1:9/mcp"),
    }
    async with serving(broken, programs) as own:
        assert set(own) == {f"mcp__{name}__unavailable" for name in broken}
        said = {name: (await use(tool)).text for name, tool in own.items()}
    assert "/no/such/server" in said["mcp__missing__unavailable"]
    assert "no answer within 0.5 s" in said["mcp__mute__unavailable"]
    assert all(tool.read_only for tool in own.values())


@pytest.mark.promise("P9", "P18")
async def test_a_server_that_ends_at_once_is_told_with_its_last_words(programs: Subprocesses) -> None:
    script = 'head -c 5000 /dev/zero | tr "\\0" x >&2; echo " no such table: $KEY" >&2; exit 3'
    config = McpServer(command="/bin/sh", args=("-c", script), env={"KEY": "s3cr3t-key"})
    async with serving({"dead": config}, programs) as own:
        said = (await use(own["mcp__dead__unavailable"])).text
    assert said.endswith("no such table: [...]\n\nexit code 3")
    assert "s3cr3t" not in said
    assert len(said) < KEPT_BYTES


@pytest.mark.promise("P9")
async def test_a_server_that_goes_in_the_middle_of_the_work_is_told_at_once(programs: Subprocesses, told: Told) -> None:
    async with serving({"one": LOCAL}, programs, told.tell) as own:
        await use(own["mcp__one__die"])
        await told.some.wait()
        assert "exit code 137" in (await use(own["mcp__one__add"], a=1, b=2)).text
    assert len(told.lines) == 1
    assert told.lines[0].startswith("MCP server one has exited: the program has exited")


@pytest.mark.promise("P9")
async def test_a_server_that_is_left_is_told_of_by_nobody(programs: Subprocesses, told: Told) -> None:
    async with serving({"one": LOCAL}, programs, told.tell) as own:
        assert (await use(own["mcp__one__add"], a=1, b=2)).text == "3"
    assert told.lines == []


async def test_a_server_over_http_gets_its_headers(programs: Subprocesses, daemon: FakeDaemon) -> None:
    configured = {
        "web": McpServer(url=daemon.url, headers={"Authorization": f"Bearer {daemon.token}"}),
        "shut": McpServer(url=daemon.url, headers={"Authorization": "Bearer wrong"}),
    }
    async with serving(configured, programs) as own:
        assert (await use(own["mcp__web__big"], size=3)).text == "xxx"
        assert "mcp__shut__unavailable" in own


@pytest.mark.promise("HF18", "P9", "P10")
@pytest.mark.parametrize("way", ["ends", "goes on"])
async def test_a_server_that_babbles_costs_its_call_and_nothing_else(
    programs: Subprocesses, tmp_path: Path, way: str
) -> None:
    (tmp_path / "babble.py").write_text(BABBLE)
    config = McpServer(command=sys.executable, args=("-I", "-S", str(tmp_path / "babble.py")))
    async with serving({"b": config}, programs) as own:
        babble = own["mcp__b__babble"]
        first, second = await use(babble, end=way == "ends"), await use(babble, end=False)
        if way == "ends":
            assert first.is_error and second.is_error
        else:
            assert (first.text, second.text) == ("said", "said")
        assert babble.spec is not None and len(babble.spec.input_schema) < mcp_servers.SCHEMA_LIMIT_BYTES, "P10"


BABBLE = """
import json, sys

def answer(asked, result):
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)

for line in sys.stdin:
    asked = json.loads(line)
    match asked["method"]:
        case "initialize":
            told = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
            answer(asked, {**told, "serverInfo": {"name": "b", "version": "1"}})
        case "tools/list":
            schema = {"type": "object", "description": "x" * 100_000}
            answer(asked, {"tools": [{"name": "babble", "inputSchema": schema}]})
        case "tools/call":
            sys.stdout.buffer.write(b"\\xff\\xfe\\n")
            sys.stdout.buffer.flush()
            if asked["params"]["arguments"]["end"]:
                break
            answer(asked, {"content": [{"type": "text", "text": "said"}]})
        case _ if "id" in asked:
            error = {"code": -32601, "message": "no"}
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}), flush=True)
"""


class Breaks:
    """In place of the connection to a server: it lists no tools, and breaks as it is told."""

    tools: tuple[types.Tool, ...] = ()
    next_cursor = None

    def __init__(self, *, before: Exception | None = None, later: Exception | None = None, stays: bool = False) -> None:
        self.up = trio.Event()
        self._before, self._later, self._stays = before, later, stays

    async def list_tools(self, *, cursor: str | None) -> "Breaks":
        return self

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator["Breaks"]:
        if self._before is not None:
            raise self._before
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._break)
            yield self
        if self._stays:
            await trio.sleep_forever()

    async def _break(self) -> None:
        if self._later is not None:
            await self.up.wait()
            raise self._later


async def _nobody(_: str) -> None:
    pass


def _server(
    programs: Subprocesses, connection: Breaks, monkeypatch: pytest.MonkeyPatch, tell: mcp_servers.Tell = _nobody
) -> mcp_servers.Server:
    config = McpServer(url="http://127.0.0.1:9/mcp", headers={"Authorization": "Bearer s3cr3t-key"})
    server = mcp_servers.Server("web", config, programs, tell)
    monkeypatch.setattr(server, "_connected", connection.connected)
    return server


@pytest.mark.promise("P18")
async def test_what_a_server_is_given_is_not_told(programs: Subprocesses, monkeypatch: pytest.MonkeyPatch) -> None:
    quoted = OSError("Illegal header value b'Bearer s3cr3t-key\\n'")
    server = _server(programs, Breaks(before=quoted), monkeypatch)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
    assert server.fault == "Illegal header value b'[...] [...]\\n'"


@pytest.mark.promise("P9")
async def test_a_connection_that_breaks_later_is_told_and_ends_nothing_else(
    programs: Subprocesses, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = Breaks(later=OSError("broken"))
    server = _server(programs, connection, monkeypatch, told.tell)
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run)
            assert server.fault == ""
            connection.up.set()
    assert server.fault == "broken"
    assert told.lines == ["MCP server web has exited: broken"]
    assert (await server.call("t", {}, "k")).text == "server web is unavailable: broken"


@pytest.mark.promise("P9")
async def test_one_that_does_not_let_go_is_let_go_of(programs: Subprocesses, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that never answers the farewell of its session holds no finished attempt up."""
    monkeypatch.setattr(mcp_servers, "LEAVE_SECONDS", 0.05)
    server = _server(programs, Breaks(stays=True), monkeypatch)
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run)
            server.leave()


@pytest.mark.promise("P8", "PF22")
async def test_cancellation_ends_a_server_too(programs: Subprocesses) -> None:
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery, mcp_servers.running({"one": LOCAL}, programs) as running:
            process = psutil.Process(int((await use(tools(running)["mcp__one__pid"])).text))
            nursery.cancel_scope.cancel()
        assert psutil.wait_procs([process], timeout=5)[1] == []


def test_names_are_such_as_every_provider_takes() -> None:
    """Letters, digits, _ and -, at most 64; what had to be changed is told apart by a digest."""
    assert mcp_servers.tool_name("git-hub", "list_issues") == "mcp__git-hub__list_issues"
    assert server_name_fault("a_") is not None, "a_ + __ + x would be a + __ + _x"
    made = [mcp_servers.tool_name("a", tool) for tool in ("x.y", "x_y", "x y", "z" * 80, "z" * 81)]
    assert len(set(made)) == len(made)
    assert all(re.fullmatch("[A-Za-z0-9_-]{1,64}", name) for name in made)
