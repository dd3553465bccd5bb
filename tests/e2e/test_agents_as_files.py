"""Agents as files beside a kernel that runs: promoted, kept while they have work, deleted with what was said."""

from tests.project import Project


def test_ephemeral_agents_become_files_and_lose_no_work(kernel_process: Project) -> None:
    """agent create --from: the definition goes over; queued work is kept, under its own name or beside the file."""
    project = kernel_process
    assert project.awk("new", "agent-1", "-m", "sonnet", "-s", "Be kind.").code == 0
    said = project.awk("send", "agent-1", "remember the blue door", "--json").json()
    assert project.awk("cancel", *said["instruction_ids"]).code == 0
    made = project.awk("agent", "create", "alice", "--from", "agent-1", "--role", "reviewer")
    assert (made.code, made.out) == (0, ".agents/alice.yaml\n"), made.err
    rows = {row["name"]: row for row in project.awk("agent", "list", "--json").json()["agents"]}
    assert {name: row["ephemeral"] for name, row in rows.items()} == {"alice": False}
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
