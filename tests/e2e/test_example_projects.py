"""The examples of a review, of a vote and of a node, as they are delivered."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.sources import ROOT
from tests.e2e.far_machines import AGENT_WORKER, end_node_processes
from tests.project import Project, empty_project

REVIEW = ROOT / "examples" / "review"


@pytest.fixture
def repository(shared_kernel: Project) -> Project:
    """A repository without the change, the example's agents and workflow, and the planted change in its tree."""
    root = shared_kernel.root
    shutil.copytree(REVIEW, root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("before", "after"))
    if not (root / ".git").exists():
        shutil.copy(REVIEW / "before" / "pricing.py", root)
        shared_kernel.commit()
    shutil.copy(REVIEW / "after" / "pricing.py", root)
    return shared_kernel


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


def test_the_findings_of_the_review_are_in_its_reports(repository: Project) -> None:
    ran = repository.awk("run", "review", "--trust", "--report", "sarif:found.sarif")
    assert ran.code == 0, ran.err
    lines = (repository.root / "pricing.py").read_text().splitlines()
    places = [
        found["locations"][0]["physicalLocation"]
        for found in json.loads((repository.root / "found.sarif").read_text())["runs"][0]["results"]
    ]
    assert [place["artifactLocation"]["uri"] for place in places] == ["pricing.py"] * 2
    said = [lines[place["region"]["startLine"] - 1].strip() for place in places]
    assert said == ["return total(prices) / len(prices)", "for count in range(1, len(prices)):"]


def test_the_reviewer_reads_the_diff_and_not_the_script(repository: Project) -> None:
    repository.write("pricing.py", '"""What an order costs, in cents."""\n')
    ran = repository.awk("run", "review", "--trust", "--json")
    assert ran.code == 0, ran.err
    texts = [message["text"] for message in ran.json()["messages"] if message["from"] == "reviewer"]
    assert texts == ["APPROVED: I found nothing in this diff that would hurt a user."]


def _first(said: list[tuple[str, str]], sender: str) -> str:
    return next(text for name, text in said if name == sender)


def _last(said: list[tuple[str, str]], sender: str) -> str:
    return _first(said[::-1], sender)


VERDICT = ROOT / "examples" / "verdict"


def test_the_second_model_of_an_example_answers(project: Project) -> None:
    shutil.copytree(ROOT / "examples" / "models", project.root, dirs_exist_ok=True)
    assert "The second model answered." in project.awk("send", "writer", "hi", "--wait").out
    assert "mock/second" in project.awk("show", "i1").out


@pytest.fixture
def team(shared_kernel: Project) -> Project:
    shutil.copytree(VERDICT, shared_kernel.root, dirs_exist_ok=True)
    return shared_kernel


def kinds(report: dict[str, Any], *wanted: str) -> list[tuple[str, str]]:
    return [(one["kind"], one["from"]) for one in report["messages"] if one["kind"] in wanted]


def test_a_yes_is_a_success_and_a_no_is_exit_8_and_both_are_told_afterwards(team: Project) -> None:
    """contracts 1 and 7: verdict; the next run of the name votes anew; show and --jsonl say the same."""
    ran = team.awk("run", "release", "--trust", "--json")
    assert ran.code == 0, ran.err
    report = ran.json()
    assert (report["status"], report["verdict"]) == ("done", "yes")
    assert kinds(report, "proposal", "resolved") == [("proposal", "reviewer"), ("resolved", "system")]
    assert len(kinds(report, "vote")) == 2  # of three: the third could change nothing

    team.write("bad.md", "Version 1.3\ntests: red\nrollback: nobody knows\n")
    ran = team.awk("run", "release", "--trust", "--jsonl", "--", "--notes", "bad.md")
    assert ran.code == 8, ran.err
    *_, last = ran.out.splitlines()
    assert '"status":"rejected"' in last.replace('": ', '":')
    shown = team.awk("show", "release", "--json").json()
    assert (shown["status"], shown["exit_code"], shown["verdict"]) == ("rejected", 8, "no")
    assert "release:main rejected" in team.awk("show", "release").out
    listed = team.awk("proposal", "list", "@release").out
    assert re.search(r"^release@release +binding approval +[23]/3 +no won +Release this\?$", listed, re.MULTILINE)
    votes = team.awk("proposal", "show", "release@release").out
    assert "  tester voted no: Nobody says that the tests are green.\n" in votes


def test_without_an_answer_nobody_is_told_that_all_is_well(team: Project) -> None:
    """Fail closed: a run whose vote nobody won, or called for, is incomplete, exit 6, and says why."""
    team.write(".agents/reviewer.yaml", "backend: mock\nmock: [{ text: looks good to me }]\n")
    ran = team.awk("run", "release", "--trust")
    assert ran.code == 6
    assert "release:main incomplete" in ran.err
    assert "no verdict" in ran.out + ran.err


@pytest.fixture
def noded(tmp_path: Path) -> Iterator[Project]:
    """The example in a repository with a commit. The node finds our agent-worker where a user's is on the PATH."""
    made = empty_project(tmp_path)
    shutil.copytree(ROOT / "examples" / "nodes", made.root, dirs_exist_ok=True)
    file = made.root / "moniro.yaml"
    file.write_text(file.read_text().replace("via: command,", f"via: command, command: {AGENT_WORKER},"))
    made.commit()
    yield made
    made.stop()
    end_node_processes(tmp_path)


@pytest.mark.promise("P89")
def test_a_builder_works_on_a_node_and_its_work_comes_back(noded: Project) -> None:
    assert noded.awk("trust", "--yes").code == 0
    ran = noded.awk("run", "build")
    assert (ran.code, ran.err.count("builder: @planner I have built it.") + ran.out.count("I have built it.")) == (0, 1)
    assert noded.ask("GET", "/instructions/i2")["attempts"][-1]["node"] == "big1"
    assert "built.txt" in noded.awk("diff", "@build").out
    assert noded.git("show", "awk/build/r1/builder:built.txt") == "built"
