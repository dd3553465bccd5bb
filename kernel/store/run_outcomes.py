"""Queries for the outcome of a run: its declared output, its last reply, and the results of binding votes."""

from typing import Final, NamedTuple, cast

import apsw
import msgspec

from kernel.policy.run_completion import ExitChoice
from kernel.store.rows import Sql
from protocol.agent import Scope
from protocol.names import base_space, is_below
from protocol.voting import BallotType, Binds
from protocol.workflow import Deliver, VerdictTerms


class Expected(msgspec.Struct, frozen=True):
    """Output that a workflow declares. ``exit_from``: agent that sets the exit code (None: all).

    ``has_channel``: agents share a channel. ``schema``: JSON of the output schema. ``verdict``:
    vote that decides the run.
    """

    has_channel: bool = True
    exit_from: str | None = None
    schema: bytes | None = None
    verdict: VerdictTerms | None = None
    deliver: Deliver | None = None
    """Delivery of the run's work."""


_binds: Final = msgspec.json.Decoder(Binds)


class BindingOutcome(NamedTuple):
    """Outcome of a binding proposal that has ended. ``binds``: what the winner decides."""

    type: BallotType
    winner: str | None
    binds: Binds


binding_outcome = Sql("""
SELECT type, CASE state WHEN 'resolved' THEN winner END AS winner, binds FROM ballots
WHERE name = :name AND space = :space AND binding AND state <> 'open'
  AND run = coalesce((SELECT s.run FROM subspaces AS s WHERE s.space = :space),
    (SELECT w.id FROM workflows AS w WHERE w.space = :space ORDER BY w.id DESC LIMIT 1))
""").row(BindingOutcome, binds=lambda binds: Binds() if binds is None else _binds.decode(binds))
"""Return the outcome of the proposal ``name``, if it is binding and has ended."""


class Reply(NamedTuple):
    """Final answer of a run. ``seq`` is its message; 0 and "" if there is no answer."""

    seq: int
    text: str


_NONE: Final = msgspec.Raw(b"null")


class _Shaped(msgspec.Struct, frozen=True):
    output_schema: msgspec.Raw = _NONE
    verdict: str | VerdictTerms | None = None
    deliver: Deliver | None = None


_shaped: Final = msgspec.json.Decoder(_Shaped)

EXPECTED: Final = "SELECT workspace <> 'none', exit_from, definition FROM workflows WHERE id = ?"
EXPECTED_IN: Final = """
SELECT workspace <> 'none', exit_from, definition FROM workflows WHERE space = ? ORDER BY id DESC LIMIT 1
"""


def expected(conn: apsw.Connection, run: int) -> Expected:
    """Return the declared output of ``run``."""
    return _expected(conn.execute(EXPECTED, (run,)).fetchone())


def expected_in(conn: apsw.Connection, space: str) -> Expected:
    """Return the declared output of the newest run of ``space``; for a space below a run's, only ``has_channel``."""
    found = _expected(conn.execute(EXPECTED_IN, (base_space(space),)).fetchone())
    return Expected(has_channel=found.has_channel) if is_below(space) else found


class _Workspace(msgspec.Struct, frozen=True):
    document: str | None = None
    documents: tuple[str, ...] = ()
    document_owner: str | None = None


class _Working(msgspec.Struct, frozen=True):
    verdict: str | VerdictTerms | None = None
    tasks: tuple[msgspec.Raw, ...] = ()
    workspace: bool | _Workspace = True


_working: Final = msgspec.json.Decoder(_Working)

IN_USE: Final = """
SELECT EXISTS (SELECT 1 FROM ballots WHERE space = :space AND state = 'open'),
  EXISTS (SELECT 1 FROM tasks WHERE space = :space), EXISTS (SELECT 1 FROM documents WHERE space = :space)
"""


def in_use(conn: apsw.Connection, space: str) -> frozenset[Scope]:
    """Return the scopes whose features the workflow declares or agents of ``space`` have used."""
    row = conn.execute(EXPECTED_IN, (base_space(space),)).fetchone()
    asks = _Working() if row is None else _working.decode(cast("bytes", row[2]))
    has_votes, has_tasks, has_documents = cast(
        "tuple[int, int, int]", conn.execute(IN_USE, {"space": space}).fetchone()
    )
    asks_documents = asks.workspace not in (True, False, _Workspace())
    there: dict[Scope, bool] = {
        "votes": bool(has_votes) or asks.verdict is not None,
        "tasks": bool(has_tasks or asks.tasks),
        "documents.read": bool(has_documents) or asks_documents,
    }
    there["documents.write"] = there["documents.read"]
    return frozenset(scope for scope, is_there in there.items() if is_there)


def _expected(row: tuple[int, str | None, bytes] | None) -> Expected:
    if row is None:
        return Expected()
    shaped = _shaped.decode(row[2])
    schema = None if shaped.output_schema == _NONE else bytes(shaped.output_schema)
    terms = VerdictTerms(id=shaped.verdict) if isinstance(shaped.verdict, str) else shaped.verdict
    return Expected(bool(row[0]), row[1], schema, terms, shaped.deliver)


# The message of a long answer is a stub; its instruction stores the full text.
LAST_REPLY: Final = """
SELECT m.seq, coalesce(nullif(i.result_text, ''), m.text)
FROM messages AS m LEFT JOIN instructions AS i ON i.id = m.cause
WHERE m.run = :run AND m.kind NOT IN ('approval', 'due', 'done', 'failed') AND m.kind = 'reply'
  AND (:sender IS NULL OR m.sender = :sender) AND instr(m.space, '~') = 0
ORDER BY m.seq DESC LIMIT 1
"""


def last_reply(conn: apsw.Connection, run: int, sender: str | None) -> Reply:
    """Return the last answer in ``run`` by ``sender``, or (None) by any agent."""
    row = conn.execute(LAST_REPLY, {"run": run, "sender": sender}).fetchone()
    return Reply(0, "") if row is None else Reply(*row)


LAST_WORK: Final = """
SELECT state, cause, ended_ms IS NOT NULL FROM instructions WHERE run = ? AND name = ? AND instr(space, '~') = 0
ORDER BY id DESC LIMIT 1
"""


def chosen(conn: apsw.Connection, run: int, name: str) -> ExitChoice:
    """Return the state of the last instruction of the agent ``name`` in ``run``."""
    row = conn.execute(LAST_WORK, (run, name)).fetchone()
    return ExitChoice(name) if row is None else ExitChoice(name, row[0], row[1], bool(row[2]))
