"""The kernel's own time against a wall clock that anybody may set."""

import time

import pytest

from kernel.boot.clock import KernelClock

YEAR_NS = 365 * 24 * 3600 * 10**9


class Machine:
    """A machine's clocks, in nanoseconds."""

    def __init__(self) -> None:
        self.wall = 1_790_000_000 * 10**9
        self.elapsed = 5 * 10**9
        self.asked: set[int] = set()

    def time_ns(self) -> int:
        return self.wall

    def clock_gettime_ns(self, clock: int) -> int:
        self.asked.add(clock)
        return self.elapsed

    def pass_seconds(self, seconds: int) -> None:
        self.wall += seconds * 10**9
        self.elapsed += seconds * 10**9


@pytest.mark.promise("P21", "TF01")
@pytest.mark.parametrize("jump", [YEAR_NS, -YEAR_NS])
def test_setting_the_wall_clock_does_not_move_the_kernels_time(monkeypatch: pytest.MonkeyPatch, jump: int) -> None:
    machine = Machine()
    monkeypatch.setattr("kernel.boot.clock.time", machine)
    clock = KernelClock()
    began = clock.now_ms()
    assert began == machine.wall // 10**6
    machine.wall += jump
    assert clock.now_ms() == began
    machine.pass_seconds(7)
    assert (clock.now_ms(), clock.wall_ms()) == (began + 7000, machine.wall // 10**6)


@pytest.mark.promise("TF03")
def test_time_that_a_machine_sleeps_through_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    monkeypatch.setattr("kernel.boot.clock.time", machine)
    clock = KernelClock()
    began = clock.now_ms()
    machine.pass_seconds(8 * 3600)
    assert clock.now_ms() == began + 8 * 3600 * 1000
    # Linux has a clock that stands still meanwhile, and one that does not.
    assert machine.asked == {getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)}
