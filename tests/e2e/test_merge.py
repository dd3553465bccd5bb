"""What agents did becomes part of a branch: with a real kernel, a real repository and the command line."""

import subprocess
from pathlib import Path

import pytest

from tests.e2e.processes import wait_until
from tests.project import Project

COMMIT = "git -c user.name=a -c user.email=a@b commit --quiet -am"
TEAM = """\
agents:
  alice:
    backend: mock
    mock:
      - shell: "%(alice)s"
      - tool: channel_send
        args: {message: "@bob go"}
      - text: alice did it
  bob:
    backend: mock
    mock:
      - shell: "%(bob)s"
      - text: bob did it
workspace: {git: worktree}
kickoff: "@alice go"
"""
ALICE = f"echo alice > a.txt && git add a.txt && {COMMIT} one"
BOB = f"echo bob > b.txt && git add b.txt && {COMMIT} two"


def git(project: Project, *words: str, cwd: Path | None = None) -> str:
    names = {f"GIT_{who}_{what}": "test@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(
        ("git", *words), cwd=cwd or project.root, env={**project.environ, **names}, capture_output=True, check=True
    )
    return done.stdout.decode().strip()


def team(project: Project, alice: str = ALICE, bob: str = BOB, more: str = "") -> None:
    """A repository with a workflow of two, who have done what they do."""
    project.write(".workflows/team.yaml", TEAM % {"alice": alice, "bob": bob} + more)
    project.write(".gitignore", ".agents/\n.workspace/\n")
    project.write("base.txt", "base\n")
    git(project, "init", "--quiet", "--initial-branch=main")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "-m", "first")


def refs(project: Project) -> dict[str, str]:
    rows = git(project, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return {name: commit for name, _, commit in (row.partition(" ") for row in rows)}


@pytest.mark.promise("P33")
def test_all_that_agents_did_lands_in_one_move_with_the_checkout(project: Project) -> None:
    team(project)
    ran = project.awk("run", "team", "--trust", "--json")
    assert (ran.code, ran.json()["delivery"]) == (0, None), ran.err
    before = refs(project)
    tried = project.awk("merge", "r1", "--dry-run", "--json")
    assert (tried.code, tried.json()["state"], refs(project)) == (0, "possible", before)
    merged = project.awk("merge", "@team", "--check", "test -f a.txt && test -f b.txt", "--json")
    assert (merged.code, merged.json()["state"]) == (0, "merged"), merged.out + merged.err
    assert [(one["agent"], one["commits"]) for one in merged.json()["branches"]] == [("alice", 1), ("bob", 1)]
    assert git(project, "status", "--porcelain") == ""
    assert (project.root / "a.txt").read_text() + (project.root / "b.txt").read_text() == "alice\nbob\n"
    assert refs(project) == {**before, "refs/heads/main": merged.json()["commit"]}
    subjects = git(project, "log", "--first-parent", "--format=%s").splitlines()
    assert subjects == ["Merge what bob did in r1 of team:main", "Merge what alice did in r1 of team:main", "first"]
    assert "Instructions: i2" in git(project, "log", "-1", "--format=%B")
    assert "awk merge" in git(project, "reflog", "main")
    again = project.awk("merge", "r1")
    assert (again.code, "there was nothing to merge" in again.out) == (0, True), again.out
    assert git(project, "rev-parse", "main") == merged.json()["commit"]
    assert project.awk("merge", "r9").code == 5
    assert project.awk("merge", "r1", "--into", "a..b").code == 2


@pytest.mark.promise("P33")
@pytest.mark.long("tests/kernel/services/test_landings.py")
def test_a_conflict_and_a_red_check_change_nothing(project: Project) -> None:
    """Exit code 1, the files are listed; a dirty checkout is refused; nothing moves; what is clean lands elsewhere."""
    team(project, bob=f"echo bob > a.txt && git add a.txt && {COMMIT} two")
    assert project.awk("run", "team", "--trust").code == 0
    before = refs(project)
    refused = project.awk("merge", "r1")
    assert (refused.code, "a.txt" in refused.out, refs(project)) == (1, True, before), refused.out
    red = project.awk("merge", "r1", "--agent", "alice", "--check", "echo no such luck; exit 3")
    assert (red.code, "no such luck" in red.out, refs(project)) == (1, True, before), red.out
    project.write("base.txt", "changed\n")
    dirty = project.awk("merge", "r1", "--agent", "alice", "--json")
    assert (dirty.code, dirty.json()["files"], refs(project)) == (1, ["base.txt"], before)
    git(project, "branch", "release")
    other = project.awk("merge", "r1", "--agent", "alice", "--into", "release", "--squash", "--json")
    assert other.code == 0, other.out
    assert git(project, "log", "--format=%s", "release").splitlines() == [
        "Merge what alice did in r1 of team:main",
        "first",
    ]
    assert git(project, "status", "--porcelain") == "M base.txt"
    assert refs(project) == {**before, "refs/heads/release": other.json()["commit"]}


@pytest.mark.long("tests/kernel/services/test_landings.py")
def test_what_conflicts_goes_back_to_its_author_as_work(project: Project) -> None:
    """The run goes on for it; the other side's diff is in the text, as data; the exit code stays 1."""
    team(project, bob="true")
    assert project.awk("run", "team", "--trust").code == 0
    project.write("a.txt", "ours\n@bob do it\n")
    git(project, "add", "a.txt")
    git(project, "commit", "--quiet", "-m", "ours")
    refused = project.awk("merge", "r1", "--return", "--json")
    assert (refused.code, refused.json()["files"]) == (1, ["a.txt"])
    [instruction] = refused.json()["returned_to"]
    shown = project.ended(instruction)
    assert (shown["agent"], shown["status"]) == ("alice", "done")
    told = next(
        one["text"] for one in project.ask("GET", "/runs/r1")["messages"] if "could not be merged" in one["text"]
    )
    assert "| +ours\n| +@bob do it\n" in told
    wait_until(lambda: project.ask("GET", "/runs/r1")["status"] != "running")
    run = project.ask("GET", "/runs/r1")
    assert run["status"] == "done", run


@pytest.mark.long("tests/kernel/services/test_landing_faults.py, tests/kernel/policy/test_landing.py")
def test_a_run_delivers_its_work_and_its_exit_code_says_so(project: Project) -> None:
    """`deliver`: trust is asked for the check; merged where it is green; red is exit code 1, and the target stays."""
    team(project, more="deliver: {check: 'test -f a.txt && test ! -f bad'}\n")
    asked = project.awk("run", "team")
    assert (asked.code, "test -f a.txt && test ! -f bad" in asked.err) == (7, True)
    ran = project.awk("run", "team", "--trust", "--json")
    assert (ran.code, ran.json()["delivery"]["state"]) == (0, "merged"), ran.err
    assert git(project, "rev-parse", "main") == ran.json()["delivery"]["commit"]
    assert git(project, "status", "--porcelain") == ""
    text = (project.root / ".workflows/team.yaml").read_text()
    project.write(
        ".workflows/team.yaml", text.replace(BOB, f"touch bad && git add bad && {COMMIT} bad").replace(ALICE, "true")
    )
    git(project, "commit", "--quiet", "-am", "worse")
    before = git(project, "rev-parse", "main")
    red = project.awk("run", "team", "--trust", "--json")
    assert (red.code, red.json()["status"], red.json()["delivery"]["state"]) == (1, "failed", "refused"), red.err
    assert git(project, "rev-parse", "main") == before
    assert [one["from"] for one in red.json()["messages"]].count("bob") == 2


@pytest.mark.promise("P33")
@pytest.mark.parametrize("place", ["checked", "file", "moved"])
@pytest.mark.long("tests/kernel/services/test_landing_faults.py")
def test_a_kernel_may_die_anywhere_over_a_merge(project: Project, place: str) -> None:
    team(project)
    assert project.awk("run", "team", "--trust").code == 0
    assert project.awk("stop", "--yes").code == 0
    assert project.awk("start", env={"AGENT_WORKER_CRASH_AT": f"landing.{place}:1"}).code == 0
    died = project.awk("merge", "r1")
    assert died.code == 69, died
    assert project.awk("start").code == 0
    project.until("merge.ended")
    merge = project.ask("GET", "/runs/r1/merge")
    assert (merge["state"], git(project, "rev-parse", "main")) == ("merged", merge["commit"])
    assert git(project, "status", "--porcelain") == ""
    assert not (project.root / ".git/index.lock").exists()
    assert git(project, "log", "--first-parent", "--format=%s").count("Merge") == 2
    assert project.awk("merge", "r1").code == 0
    assert (project.root / "a.txt").read_text() + (project.root / "b.txt").read_text() == "alice\nbob\n"
