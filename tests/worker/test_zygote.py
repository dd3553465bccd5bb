"""The zygote and the keeper from outside: over their sockets, as the kernel sees them."""

import array
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from protocol.ipc import STANDBY, Fork, Kill, Ping, Retire
from protocol.ndjson import encode
from worker.__main__ import GRACE_SECONDS, work

TIMEOUT = 20.0


class Peer:
    """One end of a socket that speaks lines of JSON."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        end.settimeout(TIMEOUT)
        self._lines = end.makefile("rb")

    def hear(self) -> dict[str, Any]:
        """The next frame; an empty one at the end."""
        heard: dict[str, Any] = json.loads(self._lines.readline() or "{}")
        return heard

    def close(self) -> None:
        self._lines.close()
        self.socket.close()


class Zygote:
    """A zygote of its own, and what it was asked to start."""

    def __init__(self, undo: ExitStack, folder: Path) -> None:
        self._undo = undo
        self._folder = folder
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-I", "-u", "-m", "worker", "--zygote", str(theirs.fileno()), ""]
        with theirs:
            self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env={})
        undo.callback(self._end)
        self.control = Peer(ours)
        undo.callback(self.control.close)

    def _end(self) -> None:
        self.process.kill()
        self.process.wait()

    def order(self, script: str, *, lock: Path | None = None) -> Fork:
        path = lock or self._folder / "alive"
        if lock is None:
            path.touch()
        env = {"PATH": os.environ["PATH"]}
        return Fork(attempt="i1-1", lock=str(path), cookie="c", argv=("sh", "-c", script), cwd="/", env=env)

    def send(self, order: Fork, descriptors: int = 4) -> Peer:
        """Send an order with its descriptors; the kernel's end of the lifeline. Stdout goes nowhere."""
        ours, theirs = socket.socketpair()
        with theirs, Path(os.devnull).open("r+b") as null:
            fds = array.array("i", [null.fileno()] * 3 + [theirs.fileno()])[:descriptors]
            self.control.socket.sendmsg([encode(order)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        peer = Peer(ours)
        self._undo.callback(peer.close)
        return peer


@pytest.fixture
def zygote(tmp_path: Path) -> Iterator[Zygote]:
    with ExitStack() as undo:
        made = Zygote(undo, tmp_path)
        frame = made.control.hear()
        assert (frame["t"], frame["pid"]) == ("preloaded", made.process.pid)
        yield made


@pytest.mark.promise("P7")
def test_it_ends_when_the_kernel_is_gone_and_so_do_keepers_and_trees(zygote: Zygote) -> None:
    keeper = zygote.send(zygote.order("trap '' TERM; sleep 1000"))
    started = keeper.hear()
    tree = os.pidfd_open(started["pid"])
    keeper.close()
    zygote.control.close()
    assert zygote.process.wait(TIMEOUT) == 0
    os.close(tree)
    with pytest.raises(ProcessLookupError):
        os.kill(started["pid"], 0)


def test_it_lives_on_for_its_keepers_when_another_took_over(zygote: Zygote) -> None:
    keeper = zygote.send(zygote.order("exec sleep 1000"))
    assert keeper.hear()
    zygote.control.socket.sendall(encode(Retire()))
    zygote.control.close()
    # Without the word it would end its keepers after the grace; nothing tells that it does not but time.
    assert select.select([keeper.socket], [], [], GRACE_SECONDS + 0.3)[0] == []
    keeper.socket.sendall(encode(Kill()))
    assert keeper.hear()["killed"]
    assert zygote.process.wait(TIMEOUT) == 0


def test_a_keeper_that_is_not_wanted_starts_nothing(zygote: Zygote, tmp_path: Path) -> None:
    order = zygote.order(f"touch {tmp_path}/ran", lock=tmp_path / "gone")
    assert zygote.send(order).hear()["failed"].startswith("ESTALE: ")
    assert not (tmp_path / "ran").exists()


@pytest.mark.promise("P7")
def test_an_order_whose_kernel_is_gone_starts_nothing(zygote: Zygote, tmp_path: Path) -> None:
    os.kill(zygote.process.pid, signal.SIGSTOP)
    zygote.send(zygote.order(f"touch {tmp_path}/ran")).close()
    os.kill(zygote.process.pid, signal.SIGCONT)
    assert zygote.send(zygote.order("exit 0", lock=tmp_path / "gone")).hear()
    zygote.control.close()
    assert zygote.process.wait(TIMEOUT) == 0
    assert not (tmp_path / "ran").exists()


@pytest.mark.promise("PF17")
@pytest.mark.parametrize("descriptors", [1, 3])
def test_an_order_without_its_descriptors_is_dropped_and_harms_no_other(zygote: Zygote, descriptors: int) -> None:
    dropped = zygote.send(zygote.order("exit 1"), descriptors)
    assert zygote.send(zygote.order("exit 2")).hear()["t"] == "started"
    assert dropped.hear() == {}


def test_signals_meant_for_others_do_not_end_it(zygote: Zygote) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        zygote.process.send_signal(number)
    keeper = zygote.send(zygote.order("exit 0"))
    assert [keeper.hear()["t"], keeper.hear()["code"]] == ["started", 0]


@pytest.mark.promise("PF25")
def test_it_answers_a_ping_also_behind_an_order(zygote: Zygote) -> None:
    """So that one that is stopped can be told from one that is busy."""
    zygote.send(zygote.order("exec sleep 60"))
    for number in (1, 2):
        zygote.control.socket.sendall(encode(Ping(n=number)))
        assert zygote.control.hear() == {"t": "pong", "n": number}


@pytest.mark.promise("IF07", "IF14")
def test_what_cannot_be_read_is_ignored(zygote: Zygote) -> None:
    zygote.control.socket.sendall(b'{"t":"dance"}\nnoise\n')
    assert zygote.send(zygote.order("exit 0")).hear()["t"] == "started"


def test_a_conversation_on_the_loop_is_rehearsed_to_its_end_every_time() -> None:
    script = "from worker.fork.warmup import os, rehearse, warm_up_trio\nfor _ in range(15): warm_up_trio()\n"
    script += "known = os.listdir('/dev/fd'); rehearse(); assert os.listdir('/dev/fd') == known"
    subprocess.run([sys.executable, "-I", "-c", script], timeout=60, check=True)


def test_only_a_standby_worker_rehearses(monkeypatch: pytest.MonkeyPatch) -> None:
    rehearsed: list[str] = []
    for attempt in ("i1-1", f"{STANDBY}1"):
        monkeypatch.setattr("worker.fork.warmup.rehearse", partial(rehearsed.append, attempt))
        work(Fork(attempt=attempt, lock="", cookie=""), 0, 0, Mock(return_value=0))
    assert rehearsed == [f"{STANDBY}1"]
