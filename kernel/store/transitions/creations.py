"""Do what an action of a rule asks for, in the commit that triggers the rule: plan a task or the start of a workflow,
or create an agent or a space. What rules create is recorded, for their limits (kernel.policy.creation)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import apsw
import msgspec

from kernel.policy.creation import WINDOW_MS, check_creation, check_scopes, copy_of, effective, share_of
from kernel.policy.spaces import RunSpaces, members_of_new
from kernel.rule.assignment import not_running
from kernel.rule.draft import Draft, RunSpec, not_done
from kernel.rule.effects import Make
from kernel.store import agents, spaces, spending, workflows
from kernel.store.rows import Sql
from kernel.store.rules import TransactionView, scopes_in
from kernel.store.transaction import Transaction
from kernel.store.transitions.task_work import plan_for_rule
from kernel.store.workflows import WorkflowRecord
from protocol.agent import AgentDefinition, Scope, ScopeWords, scopes_of
from protocol.errors import Refused
from protocol.limits import RunBudget
from protocol.message import SYSTEM, MessageKind
from protocol.names import NameRejected, SpaceId, base_space, check_name, inline_key, is_below, is_personal, place_of
from protocol.rules import RuleAgent, RuleSpace, RuleStart, RuleTask
from protocol.text import encode_json
from protocol.workflow import Ref, WorkflowDefinition

_agent: Final = msgspec.json.Decoder(AgentDefinition)
_workflow: Final = msgspec.json.Decoder(WorkflowDefinition)
_start: Final = msgspec.json.Decoder(RuleStart)
Made = tuple[str | None, list[Draft]]
"""Space or key of what was created, and the messages about it."""

# The space of a person from which a rule descends by its space or its author, and the creations between.
LINEAGE: Final = """
SELECT root, depth FROM creations WHERE made IN (:space, :base, :author)
UNION ALL SELECT :base, 0 ORDER BY depth DESC LIMIT 1
"""
COUNT: Final = "SELECT count(*) FROM creations WHERE root = ? AND verb = ? AND at_ms > ?"
INHERITED: Final = "SELECT scopes FROM creations WHERE made IN (?, ?, ?) AND scopes IS NOT NULL"
INSERT: Final = """
INSERT INTO creations (space, root, depth, rule, scopes, sender, verb, spec, state, made, at_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


def make_for_rule(tx: Transaction, row: Make) -> list[Draft]:
    """Do what a rule asks for, and return the messages about it.

    If it is refused, undo it and return only a note, so that the rule's trigger is not undone.
    """
    told = len(tx.events)
    tx.conn.execute("SAVEPOINT of_rule")
    try:
        if isinstance(row.wanted, RuleTask):
            return plan_for_rule(tx, row, row.wanted)
        verb, make = _MAKE[type(row.wanted)]
        if verb != "open_space" and base_space(row.space) in workflows.memory_spaces(tx.conn, ""):
            raise Refused("conflict", f"{verb} refused: provider: memory stores no texts on disk")
        made, said = make(tx, row, row.wanted)
        _record(tx, row, verb, made)
    except (Refused, NameRejected) as refused:
        tx.conn.execute("ROLLBACK TO of_rule")
        del tx.events[told:]
        return [not_done(row.space, row.chain.rule, str(refused), row.hops)]
    else:
        return said
    finally:
        tx.conn.execute("RELEASE of_rule")


def _record(tx: Transaction, row: Make, verb: str, made: str | None) -> None:
    values = {"space": row.space, "base": base_space(row.space), "author": row.rule.author_key}
    ((root, depth),) = cast("list[tuple[str, int]]", tx.conn.execute(LINEAGE, values).fetchall())
    check_creation(verb, depth + 1, int(tx.conn.execute(COUNT, (root, verb, tx.now_ms - WINDOW_MS)).get))
    scopes, rule = _scopes(tx, row), row.rule.spec.name
    words = None if scopes is None else " ".join(sorted(scopes))
    whose = (row.space, root, depth + 1, rule, words, row.creator, verb, encode_json(row.wanted))
    tx.conn.execute(INSERT, (*whose, "planned" if made is None else "done", made, tx.now_ms))


def _scopes(tx: Transaction, row: Make) -> frozenset[Scope] | None:
    """Return the scopes that the rule's author and all authors above it have; None: all are people or files."""
    values = (row.space, base_space(row.space), row.rule.author_key)
    known = [scopes_in(str(words)) for (words,) in tx.conn.execute(INHERITED, values).fetchall()]
    known += () if row.rule.author_key is None else (row.rule.scopes,)
    return frozenset.intersection(*known) if known else None


def _create_agent(tx: Transaction, row: Make, wanted: RuleAgent) -> Made:
    run, view, like = _run(tx, row.space), TransactionView(tx.conn), wanted.like or row.rule.author
    if view.member(run.space, check_name(wanted.name)) is not None:
        raise Refused("already_exists", f"agent {wanted.name} already exists")
    if tx.conn.execute(HAS_TREES, (run.id,)).fetchone() is not None:
        raise Refused("conflict", "the agents of a run with working trees are set in its file")
    record = agents.row(tx.conn, view.member(row.space, like) or "")
    if record is None or record.definition is None or record.backend == "human":
        raise Refused("conflict", f"agent {like} cannot be copied")
    definition, source = _agent.decode(record.definition), workflows.source(tx.conn, run.id)
    entry = None if source is None else _workflow.decode(source.definition).agents.get(like)
    if isinstance(entry, Ref) and entry.ref == record.key:
        definition = effective(definition, entry)
    copy = copy_of(definition, wanted.name, wanted.prompt, _scopes(tx, row))
    body, key = encode_json(copy), inline_key(wanted.name, run.space)
    agents.put_agent(tx, agents.AgentSpec(key=key, origin="inline", home_space=run.space, definition=body))
    tx.conn.executemany(ADD_MEMBER, [(space, wanted.name, key) for space in {run.space, row.space}])
    text = f"[RULE:{row.chain.rule}] created the agent {wanted.name}, a copy of {like}"
    return key, [_said(row, row.space, "status", text)]


HAS_TREES: Final = "SELECT 1 FROM worktrees WHERE run = ? LIMIT 1"
ADD_MEMBER: Final = "INSERT INTO members (space, name, agent) VALUES (?, ?, ?)"


def open_below_run(
    tx: Transaction, base: str, name: str, run: int, opener: spaces.Opener, wanted: Sequence[str]
) -> tuple[SpaceId, tuple[str, ...]]:
    """Open a space for the ``wanted`` members. Return it with its members. Raises Refused (conflict)."""
    if is_below(base):
        text = f"{place_of(base)} is already below a run's space and cannot contain spaces"
        raise Refused("conflict", text, "open the space from the main space of the run")
    there = tuple(row.name for row in spaces.open_below(tx.conn, base))
    known = RunSpaces(spaces.members(tx.conn, base), there, spaces.opened_in(tx.conn, base, run))
    members = members_of_new(wanted[0], name, wanted, known)
    opened = spaces.insert(tx, base, name, run, opener)
    spaces.add_members(tx, opened, base, members)
    return opened, members


def _open_space(tx: Transaction, row: Make, wanted: RuleSpace) -> Made:
    run, author, key = _run(tx, row.space), row.rule.author, row.rule.author_key
    invited = wanted.members if key is None else (author, *wanted.members)
    by = author, key or "", 0
    opened, members = open_below_run(tx, row.space, check_name(wanted.name), run.id, by, invited)
    tx.emit("space.changed", space=opened, agent=author, data={"state": "open", "members": members})
    text = f"[SPACE] {author} opened {wanted.name}, with {', '.join(members)}"
    said = [_said(row, opened, "said", wanted.message, row.mentions)] if wanted.message.strip() else []
    return opened, [_said(row, opened, "document", text, members), *said]


def _start_workflow(tx: Transaction, row: Make, wanted: RuleStart) -> Made:
    tx.emit("workflow.changed", space=row.space, data={"run": wanted.workflow, "state": "planned", "reason": "rule"})
    return None, []


_MAKE: Final[Mapping[type[msgspec.Struct], tuple[str, Callable[[Transaction, Make, Any], Made]]]] = {
    RuleAgent: ("create_agent", _create_agent),
    RuleSpace: ("open_space", _open_space),
    RuleStart: ("start_workflow", _start_workflow),
}


def _run(tx: Transaction, space: str) -> WorkflowRecord:
    record = None if is_personal(space) else workflows.by_space(tx.conn, space)
    if record is None:
        raise not_running(space)
    return record


def _said(row: Make, space: str, kind: MessageKind, text: str, mentions: tuple[str, ...] = ()) -> Draft:
    return Draft(kind, space, row.creator, text, mentions=mentions, hops=row.hops + 1, chain=row.chain)


class PlannedStart(NamedTuple):
    """Start of a workflow that a rule plans; ``scopes`` None: the author of the rule is a person or a file."""

    number: int
    space: str
    rule: str
    scopes: frozenset[Scope] | None
    sender: str
    start: RuleStart


planned_starts = Sql("""
SELECT id AS number, space, rule, scopes, sender, spec AS start FROM creations INDEXED BY creations_planned
WHERE state = 'planned' ORDER BY id LIMIT 16
""").rows(PlannedStart, scopes=lambda words: None if words is None else scopes_in(words), start=_start.decode)
"""Return the planned starts, the oldest first."""


class _Scoped(msgspec.Struct, frozen=True):
    scopes: ScopeWords = ("default",)


_scoped: Final = msgspec.json.Decoder(_Scoped)


def confined(conn: apsw.Connection, number: int, spec: RunSpec) -> tuple[RunSpec, Sequence[tuple[float | None, ...]]]:
    """Return the run of a planned start within the scopes of the rule's author, and with a share of the budget of the
    rule's run, and the values of ``CHARGE``. Raises Refused (forbidden, conflict: also if the start was cancelled)."""
    one = next((one for one in planned_starts(conn) if one.number == number), None)  # it stays among the oldest
    if one is None:
        raise Refused("conflict", "the start was cancelled")
    for member in spec.members:
        check_scopes(member.name, scopes_of(_scoped.decode(member.definition or b"{}").scopes), one.scopes)
    parent = None if is_personal(one.space) else workflows.latest(conn, one.space)
    money, budget = None if parent is None else spending.of_run(conn, parent.id), spec.options.budget
    charges: Sequence[tuple[float | None, ...]] = ()
    if parent is not None and money is not None:
        whole = RunBudget(tokens=money.budget_tokens, usd=money.budget_usd)
        budget = share_of(whole, money.spent_tokens, money.spent_usd, budget)
        charges = ((budget.tokens if whole.tokens else 0, budget.usd if whole.usd else 0.0, parent.id),)
    options = msgspec.structs.replace(spec.options, budget=budget)
    sender = one.sender if one.sender != SYSTEM else f"rule:{one.rule}"
    return msgspec.structs.replace(spec, options=options, kickoff_by=sender), charges


CHARGE: Final = "UPDATE workflows SET spent_tokens = spent_tokens + ?, spent_usd = spent_usd + ? WHERE id = ?"
END: Final = "UPDATE creations SET state = ?, made = ? WHERE id = ? AND state = 'planned'"


def end_start(tx: Transaction, number: int, made: str | None) -> bool:
    """End a planned start: ``made`` is the space of the run, or None: refused. Return whether it was planned."""
    tx.conn.execute(END, ("refused" if made is None else "done", made, number))
    return tx.conn.changes() > 0
