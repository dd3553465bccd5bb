"""Health of the kernel: its loop, its memory, and what the service manager is told."""

import logging
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import trio
import trio.testing

from kernel.services.health import (
    NAP_SECONDS,
    STUCK_SECONDS,
    LoopWatchdog,
    MemoryPressure,
    SystemdNotifier,
    free_part,
    notifier_from,
)
from tests.shorthand import running


class Manager:
    """A service manager's end of the notify socket."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._end.bind(f"\0{address[1:]}" if address.startswith("@") else address)
        self._end.setblocking(False)

    def told(self) -> list[str]:
        """Every state since the last question."""
        told: list[str] = []
        try:
            while True:
                told.append(self._end.recv(4096).decode())
        except BlockingIOError:
            return told

    def close(self) -> None:
        self._end.close()


@pytest.mark.parametrize("abstract", [False, True])
async def test_a_service_manager_hears_ready_watchdog_and_stopping(
    tmp_path: Path, abstract: bool, autojump_clock: trio.testing.MockClock
) -> None:
    manager = Manager(f"@awk-test-{tmp_path}" if abstract else str(tmp_path / "notify"))
    environ = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "6000000", "WATCHDOG_PID": "7"}
    watchdog = LoopWatchdog(
        notifier=notifier_from(environ, 7), now=trio.current_time, arm=lambda _: None, disarm=lambda: None
    )
    async with running(watchdog.run):
        watchdog.ready("2 agents")
        await trio.sleep(6.5)
        watchdog.stopping()
    told = manager.told()
    assert told[:2] == ["WATCHDOG=1", "READY=1\nSTATUS=2 agents"]
    assert told.count("WATCHDOG=1") >= 3 and told[-1] == "STOPPING=1"
    manager.close()


def test_without_a_service_manager_nobody_is_told_and_nothing_fails(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    for environ in ({}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "vsock:1:2"}, {"NOTIFY_SOCKET": gone}):
        notifier_from(environ, 7).tell("READY=1")
    for usec, pid in (("x", "7"), ("0", "7"), ("-1", "7"), ("1000", "8")):
        found = notifier_from({"NOTIFY_SOCKET": gone, "WATCHDOG_USEC": usec, "WATCHDOG_PID": pid}, 7)
        assert found == SystemdNotifier(gone)
    assert notifier_from({"NOTIFY_SOCKET": gone, "WATCHDOG_USEC": "1000"}, 7) == SystemdNotifier(gone, 0.001)


async def test_a_turn_of_the_loop_that_takes_long_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Warn at 1 s."""
    time = [100.0]
    watchdog = LoopWatchdog(notifier=SystemdNotifier(), now=lambda: time[0], arm=lambda _: None, disarm=lambda: None)
    with caplog.at_level(logging.WARNING):
        async with running(watchdog.run):
            for took in (0.9, 2.5):
                await trio.testing.wait_all_tasks_blocked()
                time[0] += took
                await trio.testing.wait_all_tasks_blocked()
    lags = [record.getMessage() for record in caplog.records if "loop_lag" in record.getMessage()]
    assert len(lags) == 1 and "2.5 s" in lags[0]


async def test_the_dump_is_put_off_as_long_as_the_loop_turns(autojump_clock: trio.testing.MockClock) -> None:
    """Dump at 5 s; and none is left armed behind."""
    calls: list[tuple[float, str]] = []
    watchdog = LoopWatchdog(
        notifier=SystemdNotifier(),
        now=trio.current_time,
        arm=lambda seconds: calls.append((trio.current_time() + seconds, "arm")),
        disarm=lambda: calls.append((0.0, "disarm")),
    )
    with trio.move_on_after(100):
        await watchdog.run()
    *arms, last = calls
    assert last[1] == "disarm"
    assert [fires for fires, _ in arms] == [n * NAP_SECONDS + STUCK_SECONDS + NAP_SECONDS for n in range(20)]


def test_a_loop_that_stands_still_is_shown_where_it_stands() -> None:
    script = """
import time, trio
from kernel.services import health
health.STUCK_SECONDS = health.NAP_SECONDS = 0.1
async def main():
    async with trio.open_nursery() as nursery:
        await nursery.start(health.LoopWatchdog(notifier=health.SystemdNotifier(), now=time.monotonic).run)
        the_culprit()
        nursery.cancel_scope.cancel()
def the_culprit():
    time.sleep(0.6)
trio.run(main)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True)
    assert "the_culprit" in done.stderr


GIB = 1 << 30


def test_memory_is_looked_at_once_a_second() -> None:
    now = [0.0]
    looks: list[float] = []

    def look() -> float:
        looks.append(now[0])
        return 0.05

    memory = MemoryPressure(clock=lambda: now[0], look=look)
    answers = [memory.pressed(0.1) for now[0] in (0.0, 0.5, 0.99, 1.0, 1.5)]
    assert (answers, looks) == ([True] * 5, [0.0, 1.0])
    assert not memory.pressed(0.05)


def test_it_sees_the_machine_it_runs_on() -> None:
    assert 0.0 <= free_part() <= 1.0
    assert not MemoryPressure(clock=lambda: 0.0).pressed(0.0)


@pytest.mark.promise("PF15")
@pytest.mark.parametrize(
    ("limit", "used", "cached", "pressed"),
    [
        (str(GIB), GIB - 1, 0, True),
        (str(GIB), GIB - 1, GIB // 2, False),
        ("max", GIB, 0, False),
        ("nonsense", GIB, 0, False),
        ("0", 0, 0, False),
    ],
)
def test_the_limit_of_a_container_counts(limit: str, used: int, cached: int, pressed: bool, tmp_path: Path) -> None:
    group = tmp_path / "outer/inner"
    group.mkdir(parents=True)
    (tmp_path / "outer/memory.max").write_text(f"{limit}\n")
    (tmp_path / "outer/memory.current").write_text(f"{used}\n")
    (tmp_path / "outer/memory.stat").write_text(f"anon 1\ninactive_file {cached}\nactive_file 0\n")
    own = tmp_path / "own"
    own.write_text("1:name=systemd:/\n0::/outer/inner\n")
    memory = MemoryPressure(clock=lambda: 0.0, look=lambda: min(free_part(tmp_path, own), 1.0))
    elsewhere = MemoryPressure(clock=lambda: 0.0, look=lambda: free_part(tmp_path, tmp_path / "nothing"))
    assert memory.pressed(0.01) == pressed
    assert not elsewhere.pressed(0.01)
