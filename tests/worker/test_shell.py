"""The mock's shell: bounded, killed with its group, and without our standard input."""

import os
from pathlib import Path

import trio

from worker.shell import OUTPUT_LIMIT_BYTES, Shell
from worker.tool import Outcome

ENV = {"PATH": "/usr/bin:/bin"}


def shell(tmp_path: Path) -> Shell:
    """A shell in ``tmp_path``."""
    return Shell(cwd=str(tmp_path), env=ENV, idempotency_key="i1")


async def test_output_and_error_are_one_stream(tmp_path: Path) -> None:
    """A person who reads the entry sees what a terminal would have shown."""
    assert await shell(tmp_path).run("shell", {"command": "echo a; echo b >&2; echo c"}, "k") == Outcome("a\nb\nc\n")


async def test_a_flood_is_cut_and_does_not_block(tmp_path: Path) -> None:
    """CF15: output is capped; the command still ends."""
    with trio.fail_after(10):
        outcome = await shell(tmp_path).run("shell", {"command": "head -c 3000000 /dev/zero | tr '\\0' x; exit 2"}, "k")
    assert outcome.is_error
    assert outcome.text.endswith(f"[... output over {OUTPUT_LIMIT_BYTES} bytes left out ...][exit 2]")


async def test_standard_input_is_empty(tmp_path: Path) -> None:
    """CF15: what a command reads is never ours."""
    with trio.fail_after(10):
        assert await shell(tmp_path).run("shell", {"command": "cat; echo end"}, "k") == Outcome("end\n")


async def test_binary_output_is_text(tmp_path: Path) -> None:
    """IF03: invalid UTF-8 becomes U+FFFD."""
    assert (await shell(tmp_path).run("shell", {"command": "printf '\\377'"}, "k")).text == "�"


async def test_a_missing_directory_is_a_result() -> None:
    """The script goes on; what was wrong is in the entry."""
    outcome = await Shell(cwd="/no/such/place", env=ENV, idempotency_key="").run("shell", {"command": "true"}, "k")
    assert outcome.is_error
    assert "/no/such/place" in outcome.text


async def test_a_background_process_does_not_hold_the_call(tmp_path: Path) -> None:
    """A child that keeps the pipe open is killed with the group when the shell has ended."""
    with trio.fail_after(10):
        outcome = await shell(tmp_path).run("shell", {"command": "sleep 3600 & echo $!"}, "k")
    assert await _gone(int(outcome.text))


async def test_a_process_that_left_the_group_holds_the_call_for_a_moment_only(tmp_path: Path) -> None:
    """What leaves the group is the keeper's to kill; the call must end all the same."""
    with trio.fail_after(10):
        outcome = await shell(tmp_path).run("shell", {"command": "setsid sleep 20 & echo on"}, "k")
    assert outcome.text == "on\n"


async def test_cancellation_kills_the_group(tmp_path: Path) -> None:
    """timeouts.tool and stop: no process of the call outlives it."""
    os.mkfifo(tmp_path / "pids")
    async with trio.open_nursery() as nursery:
        with trio.fail_after(10):
            run = shell(tmp_path).run
            nursery.start_soon(run, "shell", {"command": "sleep 3600 & echo $$ $! > pids; trap '' TERM; wait"}, "k")
            pids = await trio.to_thread.run_sync((tmp_path / "pids").read_text)
            nursery.cancel_scope.cancel()
    assert [await _gone(int(pid)) for pid in pids.split()] == [True, True]


async def _gone(pid: int) -> bool:
    """Whether ``pid`` ends within seconds (an orphan that was killed is reaped by init)."""
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        with trio.move_on_after(5):
            await trio.lowlevel.wait_readable(watch)
            return True
    finally:
        os.close(watch)
    return False
