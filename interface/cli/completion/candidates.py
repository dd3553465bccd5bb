"""What a word can be completed to right now: names in the project's files, and what the kernel has, if one runs.

Somebody waits with a finger on Tab: nothing is started, nothing is said, and a kernel that is slow is not waited for.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from interface.cli.context import Context
from interface.discovery import given_endpoint, prove, recorded_endpoint
from interface.failure import Failure, Unreachable
from interface.http_client import Connection
from protocol.names import DEFAULT_TAG, NAME, split_space

PATIENCE_SECONDS: Final = 0.3


def candidates(context: Context, kind: str) -> list[str]:
    """Words of this ``kind``, sorted; none for one that is not known."""
    source = _SOURCES.get(kind)
    if source is None:
        return []
    look = _Candidates(context)
    found: set[str] = set()
    try:
        found.update(source(look))
    except (KeyError, TypeError):  # rows as another version may have them; what came before them stays
        return sorted(found)
    finally:
        look.close()
    return sorted(found)


class _Candidates:
    """One look at the project. What cannot be had is empty."""

    def __init__(self, context: Context) -> None:
        self._root = context.project.root
        self._environ = context.environ
        self._context = context
        self._connection: Connection | None = None
        self._token = ""
        self._asked = False

    def close(self) -> None:
        """Let go of the kernel."""
        if self._connection is not None:
            self._connection.close()

    def files(self, folder: str) -> Iterator[str]:
        """Names of the definitions in ``folder``."""
        try:
            found = os.listdir(os.path.join(self._root, folder))
        except OSError:
            return
        for name in found:
            stem, suffix = os.path.splitext(name)
            if suffix == ".yaml" and NAME.fullmatch(stem):
                yield stem

    def rows(self, path: str, key: str) -> list[dict[str, Any]]:
        """The rows that the kernel has at ``path``."""
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


def _agents(look: _Candidates) -> Iterator[str]:
    yield from look.files(".agents")
    names = (str(row["name"]) for row in look.rows("/agents", "agents"))
    yield from (name for name in names if "@" not in name)  # members of workflows come with those


def _targets(look: _Candidates) -> Iterator[str]:
    yield from _agents(look)
    for row in look.rows("/workflows", "workflows"):
        yield _channel(row)
        yield from (f"{member}{_channel(row)}" for member in row["members"])


def _channels(look: _Candidates) -> Iterator[str]:
    yield from map(_channel, look.rows("/workflows", "workflows"))


def _channel(row: Mapping[str, Any]) -> str:
    return f"@{row['name']}" if row["tag"] == DEFAULT_TAG else f"@{row['name']}:{row['tag']}"


def _workflows(look: _Candidates) -> Iterator[str]:
    yield from look.files(".workflows")


def _named(look: _Candidates) -> Iterator[str]:
    yield from look.files(".agents")
    yield from look.files(".workflows")


def _instructions(look: _Candidates) -> Iterator[str]:
    yield from (str(row["id"]) for row in look.rows("/dead", "instructions"))
    yield from (str(row["id"]) for row in look.rows("/instructions", "instructions"))


def _approvals(look: _Candidates) -> Iterator[str]:
    yield from (str(row["id"]) for row in look.rows("/approvals", "approvals"))


def _deniable(look: _Candidates) -> Iterator[str]:
    yield from _approvals(look)
    yield from (str(row["id"]) for row in look.rows("/approvals/rules", "rules"))


def _proposals(look: _Candidates) -> Iterator[str]:
    yield from map(_proposal, look.rows("/proposals?state=open", "proposals"))


def _any_proposals(look: _Candidates) -> Iterator[str]:
    yield from map(_proposal, look.rows("/proposals", "proposals"))


def _proposal(row: Mapping[str, Any]) -> str:
    name, tag = split_space(str(row["space"]))
    return f"{row['id']}{_channel({'name': name, 'tag': tag})}"


def _choices(look: _Candidates) -> Iterator[str]:
    for row in look.rows("/proposals?state=open", "proposals"):
        yield from (str(option["id"]) for option in row["options"])


def _runs(look: _Candidates) -> Iterator[str]:
    yield from (str(row["id"]) for row in look.rows("/runs", "runs"))
    yield from (":".join(split_space(str(row["run"]))) for row in look.rows("/runs", "runs"))


def _diffed(look: _Candidates) -> Iterator[str]:
    yield from _targets(look)
    yield from (str(row["id"]) for row in look.rows("/runs", "runs"))


def _shown(look: _Candidates) -> Iterator[str]:
    yield from _runs(look)
    yield from _instructions(look)


_SOURCES: Final[Mapping[str, Callable[[_Candidates], Iterator[str]]]] = {
    "agent": _agents,
    "target": _targets,
    "channel": _channels,
    "workflow": _workflows,
    "named": _named,
    "instruction": _instructions,
    "approval": _approvals,
    "deniable": _deniable,
    "proposal": _proposals,
    "any_proposal": _any_proposals,
    "choice": _choices,
    "run": _runs,
    "diffed": _diffed,
    "shown": _shown,
}
KINDS: Final = frozenset(_SOURCES)
