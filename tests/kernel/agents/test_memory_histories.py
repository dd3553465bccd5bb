"""A sample of what ``scripts/soak memory`` tries by the thousand, and proof that its judge is awake."""

import os
from collections import Counter
from pathlib import Path

import pytest

from kernel.agents import context_files
from protocol.memory_files import Memory
from tests.kernel.agents.memory_histories import play_all

pytestmark = pytest.mark.promise("P45", "SF19", "SF17")

ENOUGH = 60
"""Histories in which a planted fault has to be seen."""


def test_nothing_is_lost_through_kills_full_disks_two_writers_and_hands(tmp_path: Path) -> None:
    met: Counter[str] = Counter()
    assert [wrong for _, texts in play_all(range(4), tmp_path, met) for wrong in texts] == []
    assert {"kernel killed", "kernel refused", "two at once", "index killed", "somebody tears"} <= set(met)


@pytest.mark.parametrize(("fault", "first"), [("written in place", 3), ("old one left", 23)])
def test_the_judge_sees_planted_faults(fault: str, first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_place(folder: int, name: str, text: str, *, new: bool = False) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | (os.O_EXCL if new else 0)
        with open(os.open(name, flags, 0o666, dir_fd=folder), "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())

    def nothing_behind(_memory: Memory, _key: str) -> tuple[()]:
        return ()

    if fault == "written in place":
        monkeypatch.setattr(context_files, "put_here", in_place)
    else:
        monkeypatch.setattr(Memory, "behind", nothing_behind)
    found = (texts for _, texts in play_all(range(first, first + ENOUGH), tmp_path, Counter()))
    assert next((texts for texts in found if texts), []) != []
