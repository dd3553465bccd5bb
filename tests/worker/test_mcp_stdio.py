"""The streams of an MCP server that is a program: what it may say, and how it is ended."""

import os
import subprocess
import sys
from pathlib import Path

import mcp_types as types
import msgspec
import psutil
import pytest
import trio.testing
from mcp.shared.message import SessionMessage

from protocol.agent import McpServer
from tests.worker.conftest import Told
from tests.worker.test_mcp_servers import BABBLE, LOCAL, serving
from tests.worker.tools.conftest import use
from worker import mcp_stdio
from worker.mcp_stdio import piped
from worker.subprocesses import Subprocesses

FLOOD = "while True: sys.stdout.buffer.write(b'x' * 65536)"


@pytest.mark.promise("P9", "IF15")
async def test_a_line_without_end_costs_its_server_and_no_memory(
    programs: Subprocesses, told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_stdio, "LINE_BYTES", 1024 * 1024)
    (tmp_path / "flood.py").write_text(BABBLE.replace('            answer(asked, {"content', f"            {FLOOD}#"))
    config = McpServer(command=sys.executable, args=("-I", "-S", str(tmp_path / "flood.py")))
    before = psutil.Process().memory_info().rss
    async with serving({"b": config, "one": LOCAL}, programs, told.tell) as own:
        called = await use(own["mcp__b__babble"], end=False)
        await told.some.wait()
        assert called.is_error
        assert "a line of more than 1 MiB" in called.text
        assert "a line of more than 1 MiB" in (await use(own["mcp__b__babble"], end=False)).text
        assert (await use(own["mcp__one__add"], a=1, b=2)).text == "3"
    assert len(told.lines) == 1
    assert told.lines[0].startswith("MCP server b has exited: stopped because it sent a line of more than 1 MiB")
    assert psutil.Process().memory_info().rss - before < 64 * 1024 * 1024


@pytest.mark.promise("P9")
async def test_a_server_that_only_floods_is_told_in_place_of_its_tools(
    programs: Subprocesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_stdio, "LINE_BYTES", 1024 * 1024)
    config = McpServer(command=sys.executable, args=("-I", "-S", "-c", f"import sys\n{FLOOD}"))
    async with serving({"b": config}, programs) as own:
        assert "a line of more than 1 MiB" in (await use(own["mcp__b__unavailable"])).text


TIDY = "trap 'sleep 0.1; echo tidied > tidy; exit' TERM; echo up; while :; do sleep 0.05; done"


@pytest.mark.promise("P8")
async def test_one_that_stays_is_asked_to_leave_and_its_whole_group_waited_for(
    programs: Subprocesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_stdio, "LEAVE_SECONDS", 0.5)
    words = ("sh", "-c", '"$@"; :', "sh", "sh", "-c", TIDY)
    with trio.fail_after(20):
        process = await programs.open(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None
        async with piped(process):
            assert await process.stdout.receive_some(3) == b"up\n"
            family = psutil.Process(process.pid).children(recursive=True)
    assert (tmp_path / "tidy").read_text() == "tidied\n"
    assert psutil.wait_procs(family, timeout=5)[1] == []


@pytest.mark.promise("P8")
async def test_one_that_withstands_is_killed(programs: Subprocesses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_stdio, "LEAVE_SECONDS", 0.1)
    with trio.fail_after(20):
        words = ("sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done")
        process = await programs.open(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None
        async with piped(process):
            await process.stdout.receive_some(3)
    assert process.returncode == -9


@pytest.mark.promise("P9")
async def test_a_call_that_is_given_up_while_it_is_written_spoils_no_other(
    programs: Subprocesses, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "gate")
    words = ("sh", "-c", "cat gate; exec cat > heard")
    long, short = _call(1, "x" * 1024 * 1024), _call(2, "y")
    with trio.fail_after(20):
        process = await programs.open(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        async with piped(process) as (_, pipes):
            async with trio.open_nursery() as nursery:
                for message in (long, short):
                    nursery.start_soon(pipes.send, message)
                    await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
            await trio.to_thread.run_sync((tmp_path / "gate").write_text, "")
            await pipes.send(_call(3, "z"))
    heard = [msgspec.json.decode(line) for line in (tmp_path / "heard").read_bytes().splitlines()]
    assert [one["id"] for one in heard] == [1, 3]


def _call(number: int, text: str) -> SessionMessage:
    return SessionMessage(types.JSONRPCRequest(jsonrpc="2.0", id=number, method="tools/call", params={"text": text}))
