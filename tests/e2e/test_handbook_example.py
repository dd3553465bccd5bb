"""The example of a handbook: an election, tasks given away by a vote, suggestions, a failure that holds, a verdict."""

import shutil
from typing import Any, Final

import pytest

from tests.architecture.sources import ROOT
from tests.e2e.processes import wait_until
from tests.project import Project

EXAMPLE: Final = ROOT / "examples" / "handbook"
TEXT: Final = "# Handbook\n\n## slug(title)\n\nSmall letters, with a dash between words.\n"


@pytest.fixture
def team(shared_kernel: Project) -> Project:
    shutil.copytree(EXAMPLE, shared_kernel.root, dirs_exist_ok=True)
    return shared_kernel


def run(team: Project) -> tuple[int, dict[str, Any]]:
    ran = team.awk("run", "handbook", "--trust", "--json")
    assert ran.out, ran.err
    return ran.code, ran.json()


def place(report: dict[str, Any], words: str, of: str = "") -> int:
    """Where the one message that begins with ``words`` stands among all."""
    (found,) = (
        number
        for number, one in enumerate(report["messages"])
        if one["text"].startswith(words) and of in ("", one["from"])
    )
    return found


def in_order(places: list[int]) -> bool:
    return places == sorted(places)


def it_was_elected_assigned_suggested_and_held(team: Project, report: dict[str, Any]) -> None:
    """A run of the example, by scripts or by other programs: each thing happened once, in its order."""
    steps = [
        place(report, "[RESOLVED:document-owner]"),
        place(report, "[DOC_OWNER] scribe owns the documents"),
        place(report, "@coordinator please", "system"),
        place(report, "[PROPOSAL:shares]", "coordinator"),
        place(report, "[RESOLVED:shares]"),
        place(report, "[TASKS] given by the vote shares"),
        place(report, "[TASK:t1] Write slug.py"),
        place(report, "[DOC_SUGGEST] s1 for handbook.md", "coder"),
        place(report, "[TASK:t1] done", "coder"),
        place(report, "[TASK:t2] Review slug.py"),
        place(report, "[DOC_SUGGEST] s2 for handbook.md, made from", "reviewer"),
        place(report, "[TASK:t2] done", "reviewer"),
        place(report, "[TASK:t3] Measure"),
        place(report, "[TASK:t3] failed", "reviewer"),
        place(report, "[PROPOSAL:accept]", "coordinator"),
        place(report, "[RESOLVED:accept]"),
    ]
    assert in_order(steps), [one["text"] for one in report["messages"]]
    for said, woken in (("[DOC_SUGGEST] s1", "scribe"), ("[TASK:t1] Write", "coder"), ("[TASK:t3] Meas", "reviewer")):
        assert report["messages"][place(report, said)]["to"] == [woken]

    decided = team.awk("doc", "suggestions", "@handbook", "--all", "--json").json()["suggestions"]
    assert [(one["id"], one["author"], one["state"]) for one in decided] == [
        ("s1", "coder", "accepted"),
        ("s2", "reviewer", "rejected"),
    ]
    document = team.awk("doc", "read", "@handbook", "--json").json()
    assert (document["content"], document["owner"], document["author"]) == (TEXT, "scribe", "coder")
    assert (team.root / "slug.py").is_file(), "t1 is done by what its check found"
    assert team.awk("task", "graph", "@handbook").out.splitlines() == [
        "t1 done Write slug.py (@coder)",
        "  t2 done Review slug.py (@reviewer)",
        "    t3 failed Measure it against the old one (@reviewer)",
        "      t4 open Draw what was measured (@scribe; waits for t3)",
    ]


@pytest.mark.promise("P38", "P39")
def test_what_four_agents_elect_assign_suggest_and_vote_takes_effect(team: Project) -> None:
    """Who owns, who does what, what is written, what is held; and run again with their votes turned, exit 8."""
    code, report = run(team)
    assert (code, report["status"], report["verdict"]) == (0, "done", "yes"), report
    it_was_elected_assigned_suggested_and_held(team, report)

    for file in (team.root / ".agents").glob("*.yaml"):
        file.write_text(file.read_text().replace("choice: 'yes'", "choice: 'no'"))
    code, report = run(team)
    assert (code, report["status"], report["verdict"]) == (8, "rejected", "no")
    assert report["messages"][place(report, "[RESOLVED:accept]")]["to"] == ["coordinator"]


@pytest.mark.promise("P39")
def test_what_a_failed_task_holds_asks_for_a_person_and_goes_on_by_the_command_that_it_names(team: Project) -> None:
    assert team.awk("start", "handbook", "--trust").code == 0

    def held() -> list[dict[str, Any]]:
        return [one for one in team.ask("GET", "/needs")["items"] if one["kind"] == "task"]

    wait_until(lambda: bool(held()))
    (need,) = held()
    assert (need["id"], need["agent"]) == ("t4", "scribe")
    assert need["text"].endswith("depends on t3, which will not be done")
    command = need["actions"][0]["command"]
    assert command == "awk task done @handbook t3"
    assert team.awk(*command.split()[1:]).code == 0
    assert held() == []

    def tasks() -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = team.ask("GET", "/spaces/handbook:main/tasks")["tasks"]
        return listed

    wait_until(lambda: tasks()[-1]["state"] == "done")
    assert (tasks()[-1]["id"], tasks()[-1]["ended_by"]) == ("t4", "scribe")
