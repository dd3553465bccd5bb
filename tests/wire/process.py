"""What only a kernel process tells: events of workers, trees and the kernel itself, and commands about its files.

Figures and order differ from one recording to the next, so each event and each document is recorded by its shape.
"""

import http.client
import json
import os
import subprocess
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any, Final

from tests.interface.conftest import Cli
from tests.project import SECONDS, Project, empty_project
from tests.wire.normal import document

_FILES: Final = {
    ".workflows/trees.yaml": """\
        agents:
          alice:
            backend: mock
            mock:
              - { shell: echo work > made.txt }
              - { tool: channel_send, args: { message: half } }
              - { text: done }
        workspace: { git: worktree }
        kickoff: "@alice go"
        """,
    ".agents/solo.yaml": "backend: mock\nmock: [{ text: hello }]\n",
}
_COMMANDS: Final = (
    "run trees --trust --json", "ask solo hi --json", "df --json", "doctor --json",
    "worktree list --json", "diff r1 --json", "backup kept.backup --json", "merge r1 --into main --json",
    "prune --dry-run --json", "service print --json", "upgrade --status --json", "projects --json",
    "worktree rm alice --run r1 --force --json",
)  # fmt: skip
_RESTORE: Final = "restore kept.backup --force --json"
_GIT: Final = ("-c", "user.name=a", "-c", "user.email=a@localhost")


def shape(values: list[Any]) -> Any:
    """Return what JSON values have in common: all keys of objects, and what lists hold; each other value is ``_``."""
    objects = [value for value in values if isinstance(value, dict)]
    lists = [value for value in values if isinstance(value, list)]
    if objects:
        keys = sorted({key for one in objects for key in one})
        return {key: shape([one[key] for one in objects if key in one]) for key in keys}
    return [shape(items)] if (items := [item for one in lists for item in one]) else "_"


def told(root: Path) -> str:
    """Return the shapes of all events of a kernel process from its start to its stop, and of documents about it."""
    project = empty_project(root)
    for name, text in _FILES.items():
        project.write(name, text)
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), (*_GIT, "commit", "-q", "-m", "first")):
        subprocess.run(("git", *words), cwd=project.root, env=project.environ, check=True)
    assert project.awk("start").code == 0
    events: list[Any] = []
    follower = Thread(target=_follow, args=(project, events))
    follower.start()
    cli = Cli(project.root, project.state_home, {"GIT_CONFIG_GLOBAL": os.devnull})
    try:
        documents: dict[str, Any] = {}
        for command in _COMMANDS:
            if command.startswith("backup"):
                project.until("worktree.kept")  # before the work is merged, and the tree may be removed
            documents[command] = _document(cli, command)
        project.ask("POST", "/nodes", {"name": "g1", "node": {"via": "join"}, "host": "127.0.0.1"})
        project.write(".agents/broken.yaml", "modle: x\n")
        project.until("definition.broken")
    finally:
        project.stop()
        follower.join(SECONDS)
    documents[_RESTORE] = _document(cli, _RESTORE)
    types = {event["type"]: [one for one in events if one["type"] == event["type"]] for event in events}
    parts = [f"## event {kind}\n{document(shape(types[kind]))}\n" for kind in sorted(types)]
    parts += [f"## $ {words}\n{document(shape([found]))}\n" for words, found in documents.items()]
    return "\n".join(parts)


def _document(cli: Cli, words: str) -> Any:
    found = json.loads(cli(*words.split()).out)
    assert found["schema"] != "awk/error/1", found
    return found


def _follow(project: Project, events: list[Any]) -> None:
    record = project.record()
    with closing(http.client.HTTPConnection(record["host"], record["port"], timeout=SECONDS)) as connection:
        connection.request("GET", "/events?since=0", headers={"Authorization": f"Bearer {record['token']}"})
        lines = (line for line in connection.getresponse() if line.startswith(b"data: "))
        events.extend(json.loads(line.removeprefix(b"data: ")) for line in lines)
