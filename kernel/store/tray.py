"""Trays: what agents may want to remember of their runs, and the questions to guards that it comes from."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from kernel.policy.guard import Evidence, Purpose
from kernel.policy.open_items import Proposed
from kernel.store import rows
from kernel.store.rows import Sql
from kernel.store.transaction import Transaction, rfc3339
from protocol.agent_memory import SourceClass
from protocol.api.souls import TrayReport, TrayRow
from protocol.errors import Refused
from protocol.instruction import Status
from protocol.names import AgentKey, number_of, place_of, run_id

LETTER: Final = "t"

_evidence: Final = msgspec.json.Decoder(tuple[dict[str, SourceClass], dict[str, AgentKey]])


class GuardJob(NamedTuple):
    """A question whose instruction stands as ``state`` says; ``settled``: nothing more is made of it."""

    id: int
    instruction: int
    epoch: int
    space: str
    evidence: bytes
    state: Status
    text: str
    purpose: Purpose
    settled: bool


open_jobs = Sql("""
SELECT j.id, j.instruction, i.epoch, j.space, j.evidence, i.state, i.result_text AS text, j.purpose,
  j.state <> 'open' AS settled
FROM guard_jobs AS j INDEXED BY guard_jobs_open CROSS JOIN instructions AS i ON i.id = j.instruction
WHERE j.state = 'open' ORDER BY j.purpose = 'extract', j.id LIMIT 100
""").rows(GuardJob, settled=bool)
"""The questions that nothing was made of yet; first those that a call waits for."""


job_of = Sql("""
SELECT j.id, j.instruction, i.epoch, j.space, j.evidence, i.state, i.result_text AS text, j.purpose,
  j.state <> 'open' AS settled
FROM guard_jobs AS j CROSS JOIN instructions AS i ON i.id = j.instruction WHERE j.id = ?
""").row(GuardJob, settled=bool)
"""One question; None where its space was cleared."""


def evidence_of(job: GuardJob) -> Evidence:
    """The guard's material when it was asked."""
    classes, agents = _evidence.decode(job.evidence)
    return Evidence(classes, agents)


proposed = Sql("SELECT value FROM tray WHERE agent = ? ORDER BY id DESC LIMIT 500").column(str)
"""The texts that were proposed to ``agent``, whatever became of them: what was rejected does not come again."""


_messages: Final = msgspec.json.Decoder(tuple[str, ...])
_MADE: Final[dict[str, Callable[[Any], Any]]] = {
    "id": lambda number: f"{LETTER}{number}",
    "messages": _messages.decode,
    "space": place_of,
    "run": lambda number: None if number is None else run_id(number),
    "at": rfc3339,
}
LIST: Final = """
SELECT id, kind, key, value, messages, trust, space, run, at_ms AS at, state, decided_by, voted AS vote FROM tray
WHERE agent = :agent AND (:id IS NULL OR id = :id) ORDER BY id DESC LIMIT 1000
"""


def report(conn: apsw.Connection, agent: str) -> TrayReport:
    """The tray of ``agent``, the newest first."""
    found = tuple(rows.each(conn.execute(LIST, {"agent": agent, "id": None}), LIST, TrayRow, **_MADE))
    return TrayReport(agent=agent, open=sum(one.state == "open" for one in found), rows=found)


def find(conn: apsw.Connection, agent: str, name: str) -> TrayRow:
    """One proposal. Raises Refused (not_found)."""
    values = {"agent": agent, "id": number_of(name, LETTER) or 0}
    found = rows.one(conn.execute(LIST, values), LIST, TrayRow, **_MADE)
    if found is None:
        hint = f"awk agent memory {agent} tray shows it"
        raise Refused("not_found", f"there is no {name[:40]!r} in the tray of {agent}", hint)
    return found


DECIDE: Final = "UPDATE tray SET state = ?, decided_by = ? WHERE id = ? AND state = 'open'"


def decide(tx: Transaction, agent: AgentKey, name: str, *, approved: bool, by: str) -> TrayRow:
    """Decide about a proposal. Decided alike it is only told again. Raises Refused: not_found, conflict."""
    one = check_open(find(tx.conn, agent, name), approved=approved)
    state = "approved" if approved else "rejected"
    if one.state == "open":
        tx.write(DECIDE, (state, by, number_of(name, LETTER)))
        tx.emit("memory.proposed", agent=agent, data={"kind": one.kind, "state": state})
    return find(tx.conn, agent, name)


class Voted(NamedTuple):
    """A proposal for ``agent`` that a ``vote`` said yes to, and that is still to be written."""

    agent: AgentKey
    id: str
    vote: str


voted = Sql(
    "SELECT agent, id, voted AS vote FROM tray INDEXED BY tray_open WHERE state = 'open' AND voted IS NOT NULL"
).rows(Voted, agent=AgentKey, id=_MADE["id"])
"""Those that a vote took."""


def check_open(one: TrayRow, *, approved: bool) -> TrayRow:
    """``one``, if it can be decided so. Raises Refused (conflict)."""
    if one.state == "open" and one.vote is not None and not approved:
        raise Refused("conflict", f"{one.id} was taken by the vote {one.vote}", "memory is changed by its key")
    if one.state not in ("open", "approved" if approved else "rejected"):
        raise Refused("conflict", f"{one.id} is {one.state} already", "memory is changed by its key")
    return one


open_everywhere = Sql("""
SELECT id, agent AS name, space, run, at_ms AS since, key, value FROM tray INDEXED BY tray_open
WHERE state = 'open' AND voted IS NULL ORDER BY id
""").rows(Proposed, id=_MADE["id"], space=place_of, since=rfc3339)
"""The proposals that nobody decided about."""
