"""The example that the demo shows: two agents, one real diff, two planted defects."""

import shutil

import pytest

from tests.architecture.sources import ROOT
from tests.project import Project

EXAMPLE = ROOT / "examples" / "review"


@pytest.fixture(scope="module")
def committed(shared_kernel: Project) -> Project:
    """A repository without the change, and the example's agents and workflow."""
    root = shared_kernel.root
    shutil.copytree(EXAMPLE, root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("before", "after"))
    shutil.copy(EXAMPLE / "before" / "pricing.py", root)
    shared_kernel.commit()
    return shared_kernel


@pytest.fixture
def repository(committed: Project) -> Project:
    """With the planted change in its working tree."""
    shutil.copy(EXAMPLE / "after" / "pricing.py", committed.root)
    return committed


def test_the_reviewer_finds_both_defects_and_approves_once_they_are_answered(repository: Project) -> None:
    ran = repository.awk("run", "review", "--trust", "--json")
    assert ran.code == 0, ran.err
    report = ran.json()
    said = [
        (message["from"], message["text"]) for message in report["messages"] if message["kind"] in ("said", "reply")
    ]
    found, answered, approved = _first(said, "reviewer"), _last(said, "coder"), _last(said, "reviewer")
    assert "`total(prices) / len(prices)` divides by zero" in found
    assert "`range(1, len(prices))` stops one short" in found
    assert answered.startswith("@reviewer 2. Right again")
    assert approved.startswith("APPROVED")
    assert (report["status"], report["instructions"]["done"]) == ("done", 3)


def test_the_reviewer_reads_the_diff_and_not_the_script(repository: Project) -> None:
    repository.write("pricing.py", '"""What an order costs, in cents."""\n')
    ran = repository.awk("run", "review", "--trust", "--json")
    assert ran.code == 0, ran.err
    texts = [message["text"] for message in ran.json()["messages"] if message["from"] == "reviewer"]
    assert texts == ["APPROVED: I found nothing in this diff that would hurt a user."]


def test_the_conversation_in_a_pipe_is_plain_text(repository: Project) -> None:
    """contracts 7: not a terminal, so no colour, no spinner, no truncation; the result is on stdout."""
    ran = repository.awk("run", "review", "--trust")
    assert ran.code == 0, ran.err
    assert "\x1b" not in ran.out + ran.err
    assert "review:main done" in ran.err
    assert "`range(1, len(prices) + 1)` counts the last item too. Please look again.\n" in ran.out
    assert "reviewer: APPROVED" in ran.out


def _first(said: list[tuple[str, str]], sender: str) -> str:
    return next(text for name, text in said if name == sender)


def _last(said: list[tuple[str, str]], sender: str) -> str:
    return _first(said[::-1], sender)
