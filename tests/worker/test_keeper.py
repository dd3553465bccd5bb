"""A keeper without a zygote: ``python -m worker --keeper FD``, what the exec launcher runs."""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from protocol.ipc import Bound, Exited, Fork, KeeperFrame, Kill, Started
from protocol.ndjson import encode

TIMEOUT = 20.0
ORDER = Fork(attempt="i1-1", lock="", cookie="c", cwd="/", env={"PATH": os.environ["PATH"]})


class Keeper:
    """Its process and the kernel's end of its lifeline."""

    def __init__(self, lock: Path) -> None:
        self.lock = lock
        lock.touch()
        self.link, theirs = socket.socketpair()
        self.link.settimeout(TIMEOUT)
        with theirs:
            command = [sys.executable, "-I", "-u", "-m", "worker", "--keeper", str(theirs.fileno())]
            null, pipe = subprocess.DEVNULL, subprocess.PIPE
            self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=null, stdout=pipe, env={})
        self._lines = self.link.makefile("rb")

    def keep(self, *argv: str) -> None:
        self.link.sendall(encode(msgspec.structs.replace(ORDER, argv=argv, lock=str(self.lock))))

    def started(self) -> Started:
        heard = msgspec.json.decode(self._lines.readline(), type=KeeperFrame)
        assert isinstance(heard, Started)
        return heard

    def exited(self) -> Exited:
        heard = msgspec.json.decode(self._lines.readline(), type=KeeperFrame)
        assert isinstance(heard, Exited)
        return heard

    def output(self) -> bytes:
        """All that its child prints; its own copy of the pipe must be closed."""
        assert self.process.stdout is not None
        return self.process.stdout.read()

    def end(self) -> None:
        self._lines.close()
        self.link.close()
        self.process.wait(TIMEOUT)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    made = Keeper(tmp_path / "alive")
    yield made
    made.end()


def test_it_reports_start_and_end_and_leaves_the_pipes_to_its_child(keeper: Keeper) -> None:
    """contracts 6: started{pid}, exited{code, rusage}."""
    keeper.keep("sh", "-c", "echo hi; exit 3")
    assert keeper.started().keeper == keeper.process.pid
    assert keeper.output() == b"hi\n"
    exited = keeper.exited()
    assert (exited.code, exited.killed) == (3, False)
    assert keeper.process.wait(TIMEOUT) == 0


@pytest.mark.promise("P8")
def test_a_later_kill_can_only_bring_the_end_nearer(keeper: Keeper) -> None:
    keeper.keep("sh", "-c", "trap '' TERM; echo up; sleep 1000")
    keeper.started()
    assert keeper.process.stdout is not None
    assert keeper.process.stdout.readline() == b"up\n"
    # At once, since the keeper leaves with its tree.
    keeper.link.sendall(b"".join(encode(Kill(after_seconds=seconds)) for seconds in (1000.0, 0.05, 1000.0)))
    exited = keeper.exited()
    assert (exited.signal, exited.killed) == (9, True)


BWRAP = os.environ.get("AGENT_WORKER_TEST_BWRAP") or shutil.which("bwrap")
CROWD = "for n in $(seq 40); do sleep 1000 & done; echo up; wait"
"""Forty sleepers, and not one more."""
GREEDY = f"{sys.executable} -c 'import time; held = bytearray(96 << 20); time.sleep(1000)'"


@pytest.mark.promise("PF14", "PF15")
@pytest.mark.parametrize(
    ("script", "bound", "why"),
    [
        (CROWD, Bound(processes=20), "processes at once; the limit is 20 (limits.processes)"),
        (f"{GREEDY} & {GREEDY} & wait", Bound(memory_bytes=160 << 20), "and may use 160 MiB (limits.memory)"),
    ],
)
def test_a_tree_that_uses_too_much_is_ended_as_a_whole(keeper: Keeper, script: str, bound: Bound, why: str) -> None:
    keeper.keep("sh", "-c", script)
    keeper.started()
    keeper.link.sendall(encode(bound))
    exited = keeper.exited()
    assert (exited.signal, exited.killed) == (9, False)
    assert (exited.exceeded or "").endswith(why)


@pytest.mark.promise("PF14", "XF19")
@pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed (AGENT_WORKER_TEST_BWRAP names one)")
def test_what_a_sandbox_keeps_in_memory_counts(keeper: Keeper) -> None:
    box = (str(BWRAP), "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/tmp",
           "--dir", "/tmp/a b", "--tmpfs", "/tmp/a b")  # fmt: skip
    keeper.keep(*box, "sh", "-c", "for n in '/tmp' '/tmp/a b'; do head -c 60M /dev/zero > \"$n/x\"; done; sleep 1000")
    keeper.started()
    keeper.link.sendall(encode(Bound(memory_bytes=100 << 20)))
    assert (exited := keeper.exited()).signal == 9
    assert re.search(r"and (1[12]\d) MiB of files in memory .*may use 100 MiB \(limits.memory\)", exited.exceeded or "")


@pytest.mark.promise("PF15")
def test_a_tree_within_its_bounds_is_left_alone(keeper: Keeper) -> None:
    keeper.keep("sleep", "1000")
    keeper.started()
    keeper.link.sendall(encode(Bound(memory_bytes=64 << 20, processes=1)))
    keeper.link.sendall(encode(Kill(after_seconds=0.0)))
    exited = keeper.exited()
    assert (exited.exceeded, exited.killed) == (None, True)


def test_it_signs_the_lock_for_the_next_kernel(keeper: Keeper) -> None:
    keeper.keep("sleep", "1000")
    started = keeper.started()
    words = [line.split() for line in keeper.lock.read_text().splitlines()]
    assert [(role, int(pid)) for role, pid, _start in words] == [("keeper", started.keeper), ("child", started.pid)]


@pytest.mark.promise("IF07")
def test_noise_on_the_lifeline_is_ignored(keeper: Keeper) -> None:
    keeper.keep("sh", "-c", "read x; exit 5")
    keeper.link.sendall(b'noise\n{"t":"dance"}\n')
    keeper.started()
    exited = keeper.exited()
    assert exited.code == 5


@pytest.mark.promise("P7")
def test_a_lifeline_that_closes_before_the_order_is_no_order(keeper: Keeper) -> None:
    keeper.link.shutdown(socket.SHUT_WR)
    assert keeper.process.wait(TIMEOUT) == 1
