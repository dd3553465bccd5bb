"""Named points: nothing where nobody asked, and exactly there where somebody did."""

import os
import signal
from pathlib import Path

import pytest

from kernel import fault_injection


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """What would have been killed, by which signal; nothing is armed afterwards."""
    calls: list[tuple[int, int]] = []

    def kill(pid: int, number: int) -> None:
        calls.append((pid, number))

    monkeypatch.setattr(fault_injection, "_reached", None)
    monkeypatch.setattr("os.kill", kill)
    return calls


def pass_by(*names: str) -> None:
    for name in names:
        fault_injection.fault_point(name)


def test_a_kernel_that_nobody_armed_passes_every_point(killed: list[tuple[int, int]]) -> None:
    fault_injection.arm({"PATH": "/bin", "HOME": "/"})
    pass_by("a", "b")
    assert killed == []


@pytest.mark.parametrize(
    ("at", "after", "number"),
    [("3", 3, signal.SIGKILL), ("a:2", 3, signal.SIGKILL), ("b:1/SIGINT", 2, signal.SIGINT), ("c:1", None, 0)],
)
def test_the_place_is_a_number_or_a_name_with_one(
    at: str, after: int | None, number: int, killed: list[tuple[int, int]], tmp_path: Path
) -> None:
    log = tmp_path / "points"
    fault_injection.arm({fault_injection.AT: at, fault_injection.LOG: str(log)})
    seen = []
    for name in ("a", "b", "a", "a", "b"):
        fault_injection.fault_point(name)
        seen.append(len(killed))
    assert seen == [int(after is not None and place >= after) for place in range(1, 6)]
    assert killed == ([] if after is None else [(os.getpid(), number)])
    assert log.read_text().split() == ["a", "b", "a", "a", "b"]


def test_nonsense_is_refused_at_once() -> None:
    for at in ("often", "a:x", "a:1/SIGNONE"):
        with pytest.raises((ValueError, KeyError)):
            fault_injection.arm({fault_injection.AT: at})
