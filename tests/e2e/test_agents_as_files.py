"""Agents of run time become files while they have work, and lose none of it."""

import pytest

from tests.project import Project


@pytest.mark.long("tests/kernel/store, tests/interface/test_agent_commands.py")
def test_ephemeral_agents_become_files_and_lose_no_work(shared_kernel: Project) -> None:
    project = shared_kernel
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
