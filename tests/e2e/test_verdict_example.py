"""The example of a vote: three agents decide over a release, and the run's exit code says how."""

import re
import shutil
from typing import Any

import pytest

from tests.architecture.sources import ROOT
from tests.project import Project

EXAMPLE = ROOT / "examples" / "verdict"


@pytest.fixture
def team(shared_kernel: Project) -> Project:
    """The example as a project, as it is delivered."""
    shutil.copytree(EXAMPLE, shared_kernel.root, dirs_exist_ok=True)
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
    assert "there is no verdict" in ran.out + ran.err
