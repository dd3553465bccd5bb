"""Agents as files beside a kernel that runs: edited, promoted, kept while they have work, deleted with their words."""

import pytest

from tests.project import Project


@pytest.mark.long("tests/kernel/agents/test_catalog.py")
def test_an_agent_may_come_break_and_be_mended_while_the_kernel_runs(shared_kernel: Project) -> None:
    project = shared_kernel
    project.agent("mended", "text: old")
    assert project.until("agent.changed", holds=lambda event: event["agent"] == "mended")
    assert project.awk("ask", "mended", "hi").out == "old\n"
    project.write(".agents/mended.yaml", "backend: mock\nmok: []\n")
    told = project.until("definition.broken")["data"]
    assert (told["path"], told["line"]) == (".agents/mended.yaml", 2)
    listed = project.awk("agent", "list")
    assert ".agents/mended.yaml:2:1 mok: unknown key" in listed.out
    assert project.awk("ask", "mended", "hi").out == "old\n"
    project.agent("mended", "text: mended")
    assert project.awk("ask", "mended", "hi").out == "mended\n"


@pytest.mark.long("tests/kernel/store, tests/interface/test_agent_commands.py")
def test_ephemeral_agents_become_files_and_lose_no_work(shared_kernel: Project) -> None:
    project = shared_kernel
    assert project.awk("new", "agent-1", "-m", "sonnet", "-s", "Be kind.").code == 0
    assert project.awk("pause", "agent-1").code == 0  # what it would say is not asked here
    said = project.awk("send", "agent-1", "remember the blue door", "--json").json()
    assert project.awk("cancel", *said["instruction_ids"]).code == 0
    made = project.awk("agent", "create", "alice", "--from", "agent-1", "--role", "reviewer")
    assert (made.code, made.out) == (0, ".agents/alice.yaml\n"), made.err
    rows = {row["name"]: row for row in project.awk("agent", "list", "--json").json()["agents"]}
    assert (rows["alice"]["ephemeral"], "agent-1" in rows) == (False, False)
    assert "remember the blue door" in project.awk("peek", "alice").out
    assert project.awk("peek", "agent-1").code == 5
    info = project.awk("agent", "info", "alice", "--json").json()
    assert info["definition"]["prompt"] == {"system": "Be kind."}
    assert info["context"]["dir"] == ".agents/alice"

    project.awk("new", "carl", "-m", "sonnet", "-s", "Be brief.")
    project.awk("pause", "carl")
    sent = project.awk("send", "carl", "the secret", "--json").json()
    kept = project.awk("agent", "create", "dora", "--from", "carl")
    assert (kept.code, "carl is kept, beside dora" in kept.err) == (0, True)
    promoted = project.awk("agent", "create", "carl", "--from", "carl")
    assert (promoted.code, "carl keeps its queue" in promoted.err) == (0, True)
    queue = project.awk("queue", "carl", "--json").json()["instructions"]
    assert [row["id"] for row in queue] == sent["instruction_ids"]

    refused = project.awk("agent", "delete", "carl", "--json")
    assert (refused.code, refused.json()["code"]) == (1, "conflict")
    assert (project.root / ".agents/carl.yaml").exists()
    assert project.awk("cancel", *sent["instruction_ids"]).code == 0
    assert project.awk("agent", "delete", "carl").code == 0
    assert "the secret" not in project.awk("peek", "carl").out
    assert "carl" not in project.awk("ls").out
    assert project.awk("agent", "create", "carl", "-m", "sonnet").code == 0
