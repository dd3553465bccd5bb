"""The shape of the code stays in the ranges in which it can be read: sizes, imports, names, docstrings."""

import json
import re
import subprocess
from collections import Counter
from itertools import pairwise

import pytest

from tests.architecture.sources import ROOT
from tests.architecture.structure import LIMITS, holds, measure, told

RECORDS = ("tests/architecture/recorded.json", "tests/cost/recorded.json")


def test_every_figure_is_in_its_range(subtests: pytest.Subtests) -> None:
    figures = measure()
    for name in LIMITS:
        with subtests.test(name):
            value, findings = figures[name]
            assert holds(name, value), "\n".join([f"{name} is {value}, wanted {told(name)}", *findings[:20]])


@pytest.mark.parametrize(
    ("name", "value"), [("files", 702), ("file-median", 79), ("file-median", 251), ("used-once", 13)]
)
def test_what_is_out_of_range_is_found(name: str, value: float) -> None:
    assert not holds(name, value)


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True, timeout=60).stdout


def rises(before: dict[str, float], after: dict[str, float], message: str) -> list[str]:
    """Return the recorded figures that rise by more than the lines ``Size budget: NAME +N`` of ``message`` allow."""
    budgets = Counter[str]()
    for name, most in re.findall(r"^Size budget: ([\w-]+) \+(\d+)", message, re.MULTILINE):
        budgets[name] += int(most)
    return [name for name, value in after.items() if value > before.get(name, value) + budgets[name]]


@pytest.mark.parametrize("record", RECORDS)
def test_no_commit_raises_a_recorded_figure(record: str) -> None:
    try:
        commits = git("log", "--first-parent", "--reverse", "--format=%H", "--", record).split()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is no clone with a history")
    # A merge has the messages of all its commits; in a shallow clone the first commit has no parent.
    messages = ["", *(git("log", "--format=%B", f"{one}^..{one}") for one in commits[1:])]
    versions = [(json.loads(git("show", f"{one}:{record}")), text) for one, text in zip(commits, messages, strict=True)]
    versions.append((json.loads((ROOT / record).read_text("utf-8")), ""))
    for (before, _), (after, message) in pairwise(versions):
        assert rises(before, after, message) == []


@pytest.mark.parametrize(
    ("message", "raised"),
    [
        ("", ["lines"]),
        ("Size budget: lines +900", []),
        ("Size budget: lines +899", ["lines"]),
        ("Size budget: lines +450\n\nSize budget: lines +450", []),
    ],
)
def test_a_figure_rises_by_a_stated_budget_only(message: str, raised: list[str]) -> None:
    assert rises({"lines": 1000, "files": 5}, {"lines": 1900, "files": 5}, f"Build issue 31\n\n{message}\n") == raised
