"""The mock's shell: bounded, killed with its group, and without our standard input."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from protocol.ipc import Stop
from protocol.ndjson import encode
from tests.kernel.procs.trees import gone
from worker.io.poll import PollIO
from worker.kernel_link import ControlChannel, StopRequested, run_blocking
from worker.models.mock import OUTPUT_LIMIT_BYTES, Shell
from worker.tool import ToolOutcome

ENV = {"PATH": "/usr/bin:/bin"}


@contextmanager
def sitting(cwd: Path | str) -> Generator[tuple[PollIO, Shell, int]]:
    """A desk, a shell in ``cwd`` whose waits are that desk's, and where the kernel speaks to it."""
    read, write = os.pipe()
    desk = PollIO(ControlChannel(), read, write)
    try:
        yield desk, Shell(desk=desk, cwd=str(cwd), env=ENV, idempotency_key="i1"), write
    finally:
        os.close(read)
        os.close(write)


async def run(cwd: Path | str, command: str) -> ToolOutcome:
    with sitting(cwd) as (_desk, shell, _kernel), trio.fail_after(10):
        return await trio.to_thread.run_sync(run_blocking, shell.run("shell", {"command": command}, "k"))


async def test_output_and_error_are_one_stream(tmp_path: Path) -> None:
    assert await run(tmp_path, "echo a; echo b >&2; echo c") == ToolOutcome("a\nb\nc\n")


@pytest.mark.promise("CF15")
async def test_a_flood_is_cut_and_does_not_block(tmp_path: Path) -> None:
    outcome = await run(tmp_path, "head -c 3000000 /dev/zero | tr '\\0' x; exit 2")
    assert outcome.is_error
    assert outcome.text.endswith(f"[... output over {OUTPUT_LIMIT_BYTES} bytes left out ...][exit 2]")


@pytest.mark.promise("CF15")
async def test_standard_input_is_empty(tmp_path: Path) -> None:
    """What a command reads is never ours."""
    assert await run(tmp_path, "cat; echo end") == ToolOutcome("end\n")


@pytest.mark.promise("IF03")
async def test_binary_output_is_text(tmp_path: Path) -> None:
    """Invalid UTF-8 becomes U+FFFD."""
    assert (await run(tmp_path, "printf '\\377'")).text == "�"


async def test_a_missing_directory_is_a_result() -> None:
    outcome = await run("/no/such/place", "true")
    assert outcome.is_error
    assert "/no/such/place" in outcome.text


async def test_a_background_process_does_not_hold_the_call(tmp_path: Path) -> None:
    outcome = await run(tmp_path, "sleep 3600 & echo $!")
    await gone([int(outcome.text)])


async def test_a_process_that_left_the_group_holds_the_call_for_a_moment_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.models.mock._LINGER_SECONDS", 0.2)
    outcome = await run(tmp_path, "setsid sleep 20 & echo on")
    assert outcome.text == "on\n"


TREE = "sleep 3600 & echo $$ $! > pids; trap '' TERM; wait"


@pytest.mark.promise("P8")
async def test_a_stop_kills_the_group(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pids")
    with sitting(tmp_path) as (_desk, shell, kernel), trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_until_stopped, shell)
            pids = await trio.to_thread.run_sync((tmp_path / "pids").read_text)
            os.write(kernel, encode(Stop(reason="enough")))
    await gone([int(pid) for pid in pids.split()])


async def _until_stopped(shell: Shell) -> None:
    with pytest.raises(StopRequested):
        await trio.to_thread.run_sync(run_blocking, shell.run("shell", {"command": TREE}, "k"))


async def test_a_timeout_kills_the_group(tmp_path: Path) -> None:
    with sitting(tmp_path) as (desk, shell, _kernel), trio.fail_after(10):
        work = desk.within(0.5, shell.run("shell", {"command": TREE}, "k"))
        assert await trio.to_thread.run_sync(run_blocking, work) is None
    await gone([int(pid) for pid in (tmp_path / "pids").read_text().split()])
