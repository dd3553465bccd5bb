"""The number of what needs a person, in every view of one state: the list and its pages, ``ps``, ``top``, ``status``.

The handlers of the API and the views of the command line are the product's. Nothing happens while they look.
"""

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from types import SimpleNamespace
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

import apsw
import msgspec
import outcome

from interface.cli.commands.needs import needs_lines, needs_of
from interface.cli.commands.ps import ps_lines
from interface.cli.commands.status import status_lines
from interface.cli.commands.top_view import TopView
from interface.cli.output import Screen
from interface.client import Client
from kernel.agents.trust import ProjectTrust
from kernel.api.dispatch import asked_of
from kernel.operations import needs, processes, system
from kernel.operations.context import KernelIdentity, KernelState
from kernel.operations.operation import Actor
from protocol.api.processes import Ps
from protocol.project import ProjectDefinition

P = ParamSpec("P")
T = TypeVar("T")
PAGE: Final = 3
"""Needs on a page, where they are asked for by the page."""
SAID: Final = re.compile(r"([\d,]+) need you")
SCREEN: Final = Screen()


SHOWN: Final = {
    row.path: row
    for row in (*needs.OPERATIONS, *processes.OPERATIONS, *system.OPERATIONS)
    if row.path in ("/needs", "/ps", "/status")
}


class Eyes:
    """Reads one state: at once, and not in a thread."""

    def __init__(self, conn: apsw.Connection) -> None:
        self._conn = conn

    def now(self, question: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return question(self._conn, *args, **kwargs)

    async def read(
        self, question: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return question(self._conn, *args, **kwargs)


def at_once(answer: Coroutine[Any, Any, T]) -> T:
    """The answer of a handler; where it would let others run, nobody does."""
    said = None
    while True:
        try:
            answer.send(said)
        except StopIteration as end:
            return cast("T", end.value)
        said = outcome.Value(None)


async def _nothing() -> None:
    return None


def _no_diff(_space: str | None, _name: str) -> None:
    return None


def _no_usage(_pids: object, _now_ms: int) -> dict[str, object]:
    return {}


class Views:
    """A client of one state. ``trusts``: whether all schedules of its files run."""

    def __init__(self, conn: apsw.Connection, now_ms: int, *, trusts: bool) -> None:
        self.kinds: Counter[str] = Counter()
        """Of the needs that were listed last."""
        self._services: dict[str, Any] = {
            "store": SimpleNamespace(
                reader=Eyes(conn), writer=SimpleNamespace(trouble=_nothing), now_ms=lambda: now_ms
            ),
            "files": SimpleNamespace(
                definitions=_nothing,
                catalog=SimpleNamespace(kept_project=ProjectDefinition, root="/nowhere"),
                trust=ProjectTrust(everything=trusts, kept=lambda: ()),
                worktrees=SimpleNamespace(diffs=SimpleNamespace(stat=_no_diff)),
            ),
            "processes": SimpleNamespace(
                attempts=SimpleNamespace(activity=dict, kept=dict), resources=SimpleNamespace(measure=_no_usage)
            ),
            "kernel": SimpleNamespace(
                identity=KernelIdentity(
                    pid=1, url="http://kernel", version="sim", project="/project", home="/home", term=1
                ),
                state=KernelState(
                    uptime_seconds=lambda: 1.0, ready=lambda: True, safe_mode=lambda: False, saved_notice=lambda: None
                ),
            ),
        }

    def get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """The body that the route at ``path`` answers with."""
        row = SHOWN[path]
        given = self._services | {"asked": asked_of(row, {}, query or {}, None), "actor": Actor()}
        return msgspec.json.encode(at_once(row.handler(**{name: given[name] for name in row.takes})))

    def numbers(self) -> dict[str, int]:
        whole = needs_of(cast("Client", self), 0)
        self.kinds = Counter(item["kind"] for item in whole["items"])
        ps, status = self.get("/ps"), self.get("/status")
        top = TopView(cast("Any", None))
        top.table = msgspec.json.decode(ps, type=Ps)
        listed = [line for line in needs_lines(json.dumps(whole).encode(), SCREEN, 0.0) if not line.startswith("  ")]
        return {
            "needs, listed": len(whole["items"]),
            "needs, total": whole["total"],
            "needs, by the page": self._by_the_page(),
            "needs, shown": 0 if listed == ["nothing needs you"] else len(listed),
            "ps": json.loads(ps)["needs"],
            "ps -a": json.loads(self.get("/ps", {"all": "true"}))["needs"],
            "ps, shown": _said(ps_lines(ps, SCREEN, 0.0)),
            "top, shown": _said([top.header()]),
            "status": json.loads(status)["needs"],
            "status, shown": _said(status_lines(status, SCREEN)),
        }

    def _by_the_page(self) -> int:
        seen: set[tuple[str, str]] = set()
        after: str | None = None
        while True:
            page = json.loads(self.get("/needs", {"limit": str(PAGE)} | ({"after": after} if after else {})))
            seen |= {(item["kind"], item["id"]) for item in page["items"]}
            after = page["next"]
            if after is None:
                return len(seen)


def _said(lines: list[str]) -> int:
    found = [int(text.replace(",", "")) for line in lines for text in SAID.findall(line)]
    assert len(found) < 2, lines
    return found[0] if found else 0


ODD: Final = (
    """
    UPDATE agents SET state = 'error', reason = 'crashes', crashed_ms = 1
    WHERE key = (SELECT key FROM agents ORDER BY key LIMIT 1 OFFSET :some % (SELECT count(*) FROM agents))
    """,
    """
    UPDATE instructions SET state = 'waiting', waits_for = 'answer', wait_key = 'i0'
    WHERE id = (SELECT id FROM instructions WHERE ended_ms IS NULL ORDER BY id LIMIT 1 OFFSET :some % 3)
    """,
    """
    UPDATE ballots SET state = 'open', binding = 1 WHERE id = (SELECT id FROM ballots AS b
      WHERE NOT EXISTS (SELECT 1 FROM ballots AS o WHERE o.state = 'open' AND o.space = b.space AND o.name = b.name)
      ORDER BY id DESC LIMIT 1)
    """,
    """
    INSERT INTO electors (ballot, name) SELECT id, 'user' FROM ballots
    WHERE id % 2 = :some % 2 AND id NOT IN (SELECT ballot FROM electors WHERE name = 'user')
    """,
    "UPDATE workflows SET limited_by = 'budget' WHERE state = 'running'",
    "UPDATE instructions SET dismissed = :some % 2 WHERE state IN ('failed', 'dead')",
)
"""What no world comes to by itself, or seldom: agents in error, answers that nobody is left to give, votes."""


def odd(conn: apsw.Connection, chance: random.Random) -> apsw.Connection:
    """A copy of the state of ``conn`` in which more stands still."""
    copy = apsw.Connection(":memory:")
    with copy.backup("main", conn, "main") as backup:
        backup.step(-1)
    for statement in chance.sample(ODD, chance.randint(1, len(ODD))):
        copy.execute(statement, {"some": chance.randrange(1000)})
    return copy


def disagreement(found: Mapping[str, int]) -> str | None:
    return None if len(set(found.values())) == 1 else ", ".join(f"{view} {number}" for view, number in found.items())
