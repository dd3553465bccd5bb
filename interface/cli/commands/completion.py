"""``awk completion``: a shell script that completes commands, options, files and live targets.

The script calls ``awk _complete KIND``, which prints one candidate per line and ignores all errors.
"""

import argparse
import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import one_line
from interface.discovery import given_endpoint, prove, recorded_endpoint
from interface.failure import Failure, Unreachable
from interface.http_client import Connection
from protocol.names import DEFAULT_TAG, NAME, split_space

PATIENCE_SECONDS: Final = 0.3


def candidates(context: Context, kind: str) -> list[str]:
    """Return the sorted candidates of a ``kind``, such as agents or runs; empty for unknown kinds."""
    source = _SOURCES.get(kind)
    if source is None:
        return []
    lookup = _Lookup(context)
    found: set[str] = set()
    try:
        found.update(source(lookup))
    except (KeyError, TypeError):  # rows of another kernel version: keep the candidates found before
        return sorted(found)
    finally:
        lookup.close()
    return sorted(found)


class _Lookup:
    """Names from project files and kernel for completion; empty if unavailable."""

    def __init__(self, context: Context) -> None:
        self._root = context.project.root
        self._environ = context.environ
        self._context = context
        self._connection: Connection | None = None
        self._token = ""
        self._asked = False

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def files(self, folder: str) -> Iterator[str]:
        """Yield the names of the agents or workflows that files in ``folder`` of the project define."""
        try:
            found = os.listdir(os.path.join(self._root, folder))
        except OSError:
            return
        for name in found:
            stem, suffix = os.path.splitext(name)
            if suffix == ".yaml" and NAME.fullmatch(stem):
                yield stem

    def kept(self, folder: str) -> list[str]:
        """Return the names of the entries of ``folder`` in the project's state directory."""
        try:
            return os.listdir(os.path.join(self._context.project.state, folder))
        except OSError:
            return []

    def rows(self, path: str, key: str) -> list[dict[str, Any]]:
        """Return the rows of the list ``key`` in the kernel's answer at ``path``."""
        try:
            if not self._asked:
                self._asked = True
                endpoint = given_endpoint(self._environ) or recorded_endpoint(self._context.project)
                if endpoint is not None:
                    self._connection = prove(endpoint, PATIENCE_SECONDS).connection
                    self._token = endpoint.token
            connection = self._connection
            if connection is None:
                return []
            answer = connection.request("GET", path, {"Authorization": f"Bearer {self._token}"})
            document: Mapping[str, Any] = json.loads(answer.body())
            return list(document[key]) if answer.status == 200 else []
        except (Failure, Unreachable, ValueError, KeyError, TypeError):
            return []


_Source = Callable[[_Lookup], Iterator[str]]


def _ids(path: str, rows: str) -> _Source:
    return lambda lookup: (str(row["id"]) for row in lookup.rows(path, rows))


def _files(*folders: str) -> _Source:
    return lambda lookup: (name for folder in folders for name in lookup.files(folder))


def _all(*sources: _Source) -> _Source:
    return lambda lookup: (word for source in sources for word in source(lookup))


def _agents(lookup: _Lookup) -> Iterator[str]:
    yield from lookup.files(".agents")
    names = (str(row["name"]) for row in lookup.rows("/agents", "agents"))
    yield from (name for name in names if "@" not in name)  # members of workflows are listed with their workflows


def _channel(row: Mapping[str, Any]) -> str:
    return f"@{row['name']}" if row["tag"] == DEFAULT_TAG else f"@{row['name']}:{row['tag']}"


def _channels(lookup: _Lookup) -> Iterator[str]:
    yield from map(_channel, lookup.rows("/workflows", "workflows"))


def _targets(lookup: _Lookup) -> Iterator[str]:
    yield from _agents(lookup)
    for row in lookup.rows("/workflows", "workflows"):
        yield _channel(row)
        yield from (f"{member}{_channel(row)}" for member in row["members"])


def _proposals(path: str) -> _Source:
    def names(lookup: _Lookup) -> Iterator[str]:
        for row in lookup.rows(path, "proposals"):
            name, tag = split_space(str(row["space"]))
            yield f"{row['id']}{_channel({'name': name, 'tag': tag})}"

    return names


def _in_workspaces(what: str, key: str) -> _Source:
    def names(lookup: _Lookup) -> Iterator[str]:
        for row in lookup.rows("/workflows", "workflows"):
            path = f"/spaces/{row['name']}:{row['tag']}/{what}"
            yield from (str(one[key]) for one in lookup.rows(path, what.partition("?")[0]))

    return names


def _choices(lookup: _Lookup) -> Iterator[str]:
    for row in lookup.rows("/proposals?state=open", "proposals"):
        yield from (str(option["id"]) for option in row["options"])


def _needed(kind: str) -> _Source:
    return lambda lookup: (str(one["id"]) for one in lookup.rows("/needs", "items") if one["kind"] == kind)


def _tasks(lookup: _Lookup) -> Iterator[str]:
    for row in lookup.rows("/workflows", "workflows"):
        yield from (str(task["id"]) for task in lookup.rows(f"/spaces/{row['name']}:{row['tag']}/tasks", "tasks"))


def _runs(lookup: _Lookup) -> Iterator[str]:
    yield from (str(row["id"]) for row in lookup.rows("/runs", "runs"))
    yield from (":".join(split_space(str(row["run"]))) for row in lookup.rows("/runs", "runs"))


_instructions: Final = _all(_ids("/dead", "instructions"), _ids("/instructions", "instructions"))
_approvals: Final = _ids("/approvals", "approvals")

_SOURCES: Final[Mapping[str, _Source]] = {
    "agent": _agents,
    "target": _targets,
    "channel": _channels,
    "workflow": _files(".workflows"),
    "named": _files(".agents", ".workflows"),
    "instruction": _instructions,
    "steered": _all(_instructions, _channels),
    "approval": _approvals,
    "deniable": _all(_approvals, _ids("/approvals/rules", "rules")),
    "proposal": _proposals("/proposals?state=open"),
    "any_proposal": _proposals("/proposals"),
    "space": lambda lookup: (f"@{row['space']}" for row in lookup.rows("/spaces", "spaces")),
    "grant": _ids("/grants", "grants"),
    "choice": _choices,
    "token": _ids("/tokens", "tokens"),
    "resource": _ids("/resources", "resources"),
    "soul": _needed("soul"),
    "tray": _needed("memory"),
    "task": _tasks,
    "rule": _in_workspaces("rules", "name"),
    "document": _in_workspaces("documents", "file"),
    "suggestion": _in_workspaces("suggestions?state=open", "id"),
    "run": _runs,
    "comparison": lambda lookup: iter(lookup.kept("comparisons")),
    "merged": _all(_ids("/runs", "runs"), lambda lookup: (f"@{row['run']}" for row in lookup.rows("/runs", "runs"))),
    "diffed": _all(_targets, _ids("/runs", "runs")),
    "exported": _all(
        _ids("/runs", "runs"), _agents, lambda lookup: map(_channel, lookup.rows("/workflows", "workflows"))
    ),
    "shown": _all(_runs, _instructions),
}
KINDS: Final = frozenset(_SOURCES)


SHELLS = ("bash", "zsh", "fish")
PROGRAMS = ("agent-worker", "awk")


def configure_completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="shell; the first lines of the script explain its installation")


def run_completion(context: Context) -> int:
    from interface.cli.completion import scripts  # noqa: PLC0415  (as below)
    from interface.cli.completion.spec import all_specs  # noqa: PLC0415  (not needed for candidates)

    script = getattr(scripts, f"{context.args.shell}_script")
    context.out.lines(script(tuple(all_specs(context.program)), PROGRAMS).rstrip("\n").split("\n"))
    return Exit.OK


def configure_complete(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", metavar="KIND", help="kind of candidates: target, agent, workflow, instruction ...")


def run_complete(context: Context) -> int:
    try:
        found = candidates(context, context.args.kind)
    except Failure:
        found = []
    context.out.lines(one_line(word) for word in found)
    return Exit.OK
