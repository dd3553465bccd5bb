"""Consent kept by a command, used by a kernel that runs already, taken back under it, and asked for after a restore."""

import json
from pathlib import Path

import pytest

from tests.e2e.processes import wait_until
from tests.project import Project, empty_project


@pytest.mark.promise("P19", "CF20")
def test_consent_is_kept_used_and_taken_back(shared_kernel: Project) -> None:
    project = shared_kernel
    project.write(
        ".agents/ticker.yaml", "backend: mock\nschedule: { wakeup: 1s }\nmock:\n  - { shell: echo t >> t.log }\n"
    )
    project.agent("alice", "shell: 'echo a >> a.log'", "text: ok")
    project.write(
        ".workflows/w.yaml",
        "agents: { alice: { ref: alice } }\nsetup: [{ shell: echo s >> s.log }]\nkickoff: '@alice go'\n",
    )
    log = project.root / "a.log"
    refused = (("send", "alice", "x"), ("run", "w"), ("trust",))
    assert {project.awk(*words).code for words in refused} == {7}
    ticks = project.root / "t.log"
    assert not ticks.exists()
    assert project.awk("trust", "--yes").code == 0
    assert project.awk("send", "alice", "x", "--wait").code == 0
    assert project.awk("run", "w").code == 0
    assert (log.read_text(), (project.root / "s.log").read_text()) == ("a\na\n", "s\n")
    wait_until(ticks.exists)
    project.agent("alice", "shell: 'echo b >> a.log'", "text: ok")
    changed = project.awk("send", "alice", "x")
    assert (changed.code, "changed since it was trusted: alice runs: echo b >> a.log" in changed.err) == (7, True)
    assert project.awk("trust", "revoke", "--all").code == 0
    assert project.awk("run", "w").code == 7
    assert log.read_text() == "a\na\n"


@pytest.mark.promise("P19")
def test_a_workflow_with_trees_or_schedules_asks_before_it_starts(shared_kernel: Project) -> None:
    project = shared_kernel
    project.agent("alice", "text: ok")
    body = "kickoff: '@alice go'\nagents: {{ alice: {{ ref: alice{} }} }}\n"
    project.write(".workflows/s.yaml", body.format(", schedule: { wakeup: '0 9 * * 1-5', timezone: UTC }"))
    project.write(".workflows/t.yaml", f"{body.format('')}workspace: {{ git: worktree }}\n")
    for name, said in (
        ("s", "alice wakes by itself at 0 9 * * 1-5 (UTC), and is told: what a wakeup is for"),
        ("t", "its agents work in git working trees"),
    ):
        refused = project.awk("run", name)
        assert refused.code == 7
        assert said in refused.err
        assert "hint: repeat with --trust" in refused.err
    assert project.awk("run", "s", "--trust").code == 0


@pytest.mark.promise("P19")
@pytest.mark.long("tests/kernel/services/test_timers.py")
def test_a_schedule_spends_nothing_until_somebody_agreed_to_it(project: Project) -> None:
    ticker = "backend: mock\nmock: [{{text: hi}}]\nschedule: {{wakeup: {}, prompt: look around}}\n"
    project.write(".agents/ticker.yaml", ticker.format("1s"))
    project.agent("alice", "text: ok")
    warned = project.awk("validate")
    assert (warned.code, "does not run until you trust it" in warned.err) == (0, True)
    refused = project.awk("trust")
    assert refused.code == 7
    assert "ticker wakes by itself every 1s, and is told: look around" in refused.out
    assert "ticker has no budget: nothing bounds what it spends when it wakes" in refused.out
    assert "this is not trusted; to trust the files: awk trust --yes" in refused.err
    assert project.awk("send", "alice", "x", "--wait").code == 0
    told = project.until("schedule.untrusted")
    assert (told["agent"], told["data"]["wakeup"]) == ("ticker", "1s")
    notice = "1 schedule does not run until you trust it (look at it and keep it: awk trust ticker)"
    assert project.ask("GET", "/status")["notice"] == notice
    assert notice in project.awk("ps").err
    assert project.awk("send", "ticker", "asked", "--wait").code == 0, "who asks needs no schedule"
    assert project.awk("trust", "ticker", "--yes").code == 0
    project.until("instruction.queued", holds=lambda event: bool(event["data"]["lane"] == "background"))
    assert project.ask("GET", "/status")["notice"] is None
    project.write(".agents/ticker.yaml", ticker.format("2s"))
    wait_until(lambda: bool(project.ask("GET", "/status")["notice"] == notice))
    assert project.awk("trust").code == 7


RESTORED = """
name: w
agents:
  k:
    backend: mock
    mock: [{shell: "until test -e go; do sleep 0.1; done; touch PWN"}]
kickoff: "@k begin"
"""


@pytest.mark.promise("P19", "P76")
def test_a_command_that_only_a_restored_database_has_runs_once_its_owner_trusts_it(
    project: Project, tmp_path: Path
) -> None:
    project.write(".workflows/w.yaml", RESTORED)
    assert project.awk("start", "w", "--trust").code == 0
    wait_until(lambda: project.awk("ps", "--json").json()["agents"][0]["state"] == "running")
    file = str(tmp_path / "hostile.awkbackup")
    assert project.awk("backup", file).code == 0

    (tmp_path / "b").mkdir()
    other = empty_project(tmp_path / "b")
    other.write("go", "")
    told = other.awk("restore", file)
    assert told.code == 0, told.err
    assert "1 of workflows: continued without consent" in told.out
    seen = other.awk("trust")
    assert seen.code == 7
    assert "touch PWN" in seen.out
    assert other.awk("start").code == 0
    try:
        wait_until(lambda: bool(other.awk("needs", "--json").json()["items"]))
        [need] = other.awk("needs", "--json").json()["items"]
        assert need["kind"] == "dead"
        assert "not trusted" in need["text"]
        assert need["actions"][0]["command"].endswith("awk trust"), json.dumps(need)
        assert not (other.root / "PWN").exists()
        assert other.awk("trust", "--yes").code == 0
        assert other.awk("retry", need["id"]).code == 0
        wait_until((other.root / "PWN").exists)
    finally:
        other.stop()


def test_a_dotenv_file_reaches_agents_by_consent(project: Project) -> None:
    """env_file: not before awk trust, not after a change; a bad file does not prevent the start."""
    project.write(".agents.yaml", "env_file: .env\n")
    project.write(".env", "TOKEN='a b'\n")
    project.agent("bob", 'shell: "echo token=$TOKEN"', more="env: [TOKEN]")

    def told() -> str:
        said = project.send("bob")
        assert project.awk("wait", said, "--for", "done").code == 0
        steps = project.awk("show", said, "--steps", "--full").out
        assert project.awk("stop", "--yes").code == 0
        return steps

    assert project.awk("start").code == 0
    assert "token=a b" not in told()
    assert ".env sets TOKEN" in project.awk("trust", "--json").out
    assert project.awk("trust", "--yes").code == 0
    assert project.awk("start").code == 0
    assert "token=a b" in told()
    for text in ("TOKEN=changed\n", "no variable\n"):
        project.write(".env", text)
        assert project.awk("start").code == 0
        assert "token=changed" not in told()
    assert project.awk("validate").code == 78
