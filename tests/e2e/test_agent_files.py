"""Agents as files: of the user, for every project, and of run time, which become files and lose no work."""

import json
import subprocess

import pytest

from tests.project import Project

CAROL = "backend: mock\nmock: [{ text: %s }]\n"


def test_an_agent_of_the_user_is_in_every_project_that_has_none_of_its_name(project: Project) -> None:
    users = project.home / ".agents"
    users.mkdir(parents=True)
    (users / "carol.yaml").write_text(CAROL % "from home")
    (users / "dave.yaml").write_text("backend: mock\nmockery: []\n")
    project.agent("bob", "text: from here")
    for _ in ("without a kernel", "with one"):
        rows = {one["name"]: one["file"] for one in json.loads(project.awk("agent", "list", "--json").out)["agents"]}
        files = {"bob": ".agents/bob.yaml", "carol": "~/.agents/carol.yaml", "dave": "~/.agents/dave.yaml"}
        assert rows.items() <= files.items() and rows.keys() >= {"bob", "carol"}
        assert json.loads(project.awk("agent", "info", "carol", "--json").out)["file"] == "~/.agents/carol.yaml"
        assert project.awk("send", "carol", "hi", "--wait").out == "from home\n"
    checked = project.awk("validate")
    assert (checked.code, "~/.agents/dave.yaml" in checked.out) == (78, True)
    assert "mockery" in checked.out + checked.err
    assert project.awk("validate", "carol").out.split() == ["ok", "~/.agents/carol.yaml"]
    assert json.loads(project.awk("config", "carol", "--json").out)["path"] == "~/.agents/carol.yaml"
    (users / "carol.yaml").write_text(CAROL % "from home again")
    assert project.awk("send", "carol", "hi", "--wait").out == "from home again\n"
    project.agent("carol", "text: from the project")
    assert project.awk("send", "carol", "hi", "--wait").out == "from the project\n"
    (project.root / ".agents/carol.yaml").unlink()
    assert project.awk("send", "carol", "hi", "--wait").out == "from home again\n"


def test_what_an_agent_of_the_user_runs_is_asked_about_in_each_project(project: Project) -> None:
    (project.home / ".agents").mkdir(parents=True)
    (project.home / ".agents/carol.yaml").write_text("backend: mock\nmock: [{ shell: ./build.sh }, { text: built }]\n")
    refused = project.awk("send", "carol", "go", "--wait")
    assert (refused.code, "carol runs: ./build.sh" in refused.err) == (7, True)


def test_an_agent_of_the_user_is_edited_and_deleted_where_it_is(project: Project) -> None:
    users = project.home / ".agents"
    users.mkdir(parents=True)
    (users / "carol.yaml").write_text(CAROL % "from home")
    written = project.awk("agent", "edit", "carol", "timeouts.idle=5m", "--json")
    assert json.loads(written.out)["file"] == "~/.agents/carol.yaml"
    assert "idle: 5m" in (users / "carol.yaml").read_text()
    refused = project.awk("agent", "edit", "carol", "timeouts.idle=soon")
    assert (refused.code, "~/.agents/carol.yaml" in refused.err) == (78, True)
    assert project.awk("send", "carol", "hi", "--wait").out == "from home\n"
    deleted = json.loads(project.awk("agent", "delete", "carol", "--yes", "--json").out)
    assert deleted["trash"].startswith("~/.agents/.trash/carol-")
    assert not (users / "carol.yaml").exists()
    assert project.awk("agent", "info", "carol").code == 5
    subprocess.run(["sh", "-c", deleted["restore"]], check=True)
    assert project.awk("send", "carol", "hi", "--wait").out == "from home\n"
    (users / "carol.yaml").write_text("mockery: []\n")
    gone = project.awk("agent", "delete", "carol", "--yes")
    assert (gone.code, (users / "carol.yaml").exists()) == (0, False), gone


@pytest.mark.long("tests/kernel/store, tests/interface/test_agent_commands.py")
def test_ephemeral_agents_become_files_and_lose_no_work(shared_kernel: Project) -> None:
    project = shared_kernel
    project.awk("new", "carl", "-m", "sonnet", "-s", "Be brief.")
    project.awk("pause", "carl")
    sent = project.awk("send", "carl", "the secret", "--json").json()
    kept = project.awk("agent", "create", "dora", "--from", "carl")
    assert (kept.code, "carl still exists beside dora" in kept.err) == (0, True)
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
