"""What agents keep, with a kernel and without one: the tools, the commands and the files say the same."""

from pathlib import Path

import pytest

from tests.project import Project

SECRET = "remember: the gateway listens on port 7001 of the blue machine zyzzogeton77"
IN_INDEX = b"zzogeton77"
"""What an index has of its last word: the beginning of a word may stand with the word before it."""
KEEPS = """backend: mock
mock:
  - when: remember
    do:
      - tool: memory_write
        args: {key: gateway, value: "${{ message.text }}", tier: core}
      - tool: note_write
        args: {content: I was told., title: Told}
      - tool: todo_add
        args: {text: check the gateway}
      - text: kept
  - do: [{text: hi}]
"""


def _holding(project: Project, *words: bytes) -> list[Path]:
    """The files of the project, of the kernel's state and of the home that have one of ``words``."""
    return [
        path
        for folder in (project.root, project.state_home, project.home)
        for path in folder.rglob("*")
        if path.is_file() and any(word in path.read_bytes() for word in words)
    ]


@pytest.mark.promise("P45", "P46")
def test_tools_commands_and_files_agree_and_a_purge_leaves_nothing(shared_kernel: Project) -> None:
    project = shared_kernel
    project.write(".agents/keeper.yaml", KEEPS)
    assert project.until("agent.changed", holds=lambda event: event["agent"] == "keeper")
    assert project.awk("ask", "keeper", SECRET).out == "kept\n"
    with_kernel = {what: project.awk("agent", what, "keeper", "--json") for what in ("memory", "notes", "todo")}
    (entry,) = with_kernel["memory"].json()["entries"]
    assert (entry["value"], entry["trust"], entry["file"]) == (SECRET, "user", "core.yaml")
    assert entry["source"]["messages"]
    assert project.awk("agent", "memory", "keeper", "get", "gateway").out == f"{SECRET}\n"
    assert project.awk("agent", "memory", "keeper", "get", "nothing").code == 5
    assert project.awk("agent", "notes", "keeper", "show", "1").out == "# Told\n\nI was told.\n"
    assert project.awk("agent", "todo", "keeper", "done", "1").out == "  1  [x] check the gateway\n"
    assert project.awk("agent", "memory", "keeper", "search", "GATEWAY").out.splitlines()[1].startswith("gateway ")
    assert [path.name for path in _holding(project, IN_INDEX) if path.name.startswith("recall-index")]
    purged = project.awk("agent", "memory", "keeper", "purge", "--source", entry["source"]["messages"][0])
    assert (purged.code, purged.out.startswith("purged 1 entries")) == (0, True), purged.err
    assert _holding(project, SECRET.encode(), IN_INDEX) == []
    assert project.awk("agent", "memory", "keeper", "get", "gateway").code == 5
