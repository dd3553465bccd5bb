"""Souls: their versions, each with its diff, reason and author, and the changes that agents suggest.

A version is stored as a row first, and is then ``written`` to the soul's file. A file that differs
from the last written version was edited by hand: before the next change, it becomes a version.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import apsw

from kernel.policy.guard import MOST_SUGGESTIONS, OBSERVATION_CHARACTERS, TRAIT_CHARACTERS, evolved, one_line
from kernel.policy.guard import NAME as GUARD
from kernel.policy.observing import Suggestion
from kernel.policy.text_diff import lines_of, unified
from kernel.rule.draft import Author
from kernel.store import rows
from kernel.store.attempts import held, use
from kernel.store.decisions import SOUL
from kernel.store.rows import Sql
from kernel.store.transaction import Transaction, rfc3339
from kernel.store.trust import of_work
from protocol.api.souls import SoulProposal, SoulVersion
from protocol.errors import Refused
from protocol.message import USER
from protocol.names import AgentKey, instruction_id, name_of, number_of, personal_space

SHOWN_VERSIONS: Final = 100


class SoulStanding(NamedTuple):
    """Soul in its files. ``body`` None: there is no soul.yaml, and ``baseline`` applies."""

    baseline: str
    body: str | None
    traits: Mapping[str, Any]


class NewestSoul(NamedTuple):
    """Newest version of a soul. ``written`` is 1 if the soul's file contains it."""

    version: int
    body: str
    written: int


newest = Sql("""
SELECT version, body, written FROM soul_versions WHERE agent = ? ORDER BY version DESC LIMIT 1
""").row(NewestSoul)
"""Return the newest version, or None if the soul was never changed."""


UNWRITTEN: Final = """
SELECT version, body, reason, author, instruction, proposal
FROM soul_versions INDEXED BY soul_versions_unwritten WHERE agent = ? AND written = 0 ORDER BY version DESC LIMIT 1
"""
LAST_WRITTEN: Final = """
SELECT body FROM soul_versions WHERE agent = ? AND written = 1 ORDER BY version DESC LIMIT 1
"""


class UnwrittenSoul(NamedTuple):
    """Text to write to a soul's file. If the file is not ``known``, it was edited by hand."""

    body: str
    known: str


def unwritten(conn: apsw.Connection, agent: str) -> UnwrittenSoul | None:
    """Return the newest version of a soul if it is not in the soul's file yet, or None."""
    row = conn.execute(UNWRITTEN, (agent,)).fetchone()
    return None if row is None else UnwrittenSoul(str(row[1]), str(conn.execute(LAST_WRITTEN, (agent,)).get or ""))


def keep_edit(tx: Transaction, agent: str, text: str) -> None:
    """Store ``text``, a manual edit, as a version, and the unwritten version again after it."""
    row = tx.conn.execute(UNWRITTEN, (agent,)).fetchone()
    if row is None:
        return
    number, body, reason, author, instruction, proposal = row
    tx.write(WRITTEN, (agent,))
    _insert(tx, agent, number + 1, body, text, "edited by hand", Changer(), written=True)
    by = Changer(author, instruction, proposal)
    _insert(tx, agent, number + 2, text, body, reason, by, written=False)


WRITTEN: Final = "UPDATE soul_versions SET written = 1 WHERE agent = ? AND written = 0"


def mark_written(tx: Transaction, agent: str) -> None:
    """Record that the soul's file contains the newest version."""
    tx.write(WRITTEN, (agent,))


INSERT: Final = """
INSERT INTO soul_versions (agent, version, body, diff, reason, author, instruction, proposal, at_ms, written)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


class Changer(NamedTuple):
    """Author of a version: name, instruction (None: a person), and number of the suggestion."""

    name: str = USER
    instruction: int | None = None
    proposal: int | None = None


def add_version(tx: Transaction, agent: str, standing: SoulStanding, body: str, reason: str, by: Changer) -> int:
    """Add ``body`` as an unwritten version, after any manual edit. Return its number."""
    last = newest(tx.conn, agent)
    before = standing.baseline if standing.body is None else standing.body
    number = 0 if last is None else last.version
    if last is None or (last.written and last.body != before):
        known = "" if last is None else last.body
        why = (
            "edited by hand" if standing.body is not None
            else "as in the file of the agent" if last is None else "its file was removed"
        )  # fmt: skip
        _insert(tx, agent, number + 1, known, before, why, Changer(), written=True)
        number += 1
    elif not last.written:
        before = last.body
    _insert(tx, agent, number + 1, before, body, reason, by, written=False)
    return number + 1


def _insert(
    tx: Transaction, agent: str, number: int, old: str, new: str, reason: str, by: Changer, *, written: bool
) -> None:
    diff = unified((f"soul {number - 1}", f"soul {number}"), lines_of(old) if old else [], lines_of(new))
    tx.write(INSERT, (agent, number, new, diff, reason, by.name, by.instruction, by.proposal, tx.now_ms, int(written)))


def suggest(
    tx: Transaction,
    standing: SoulStanding,
    said: Suggestion,
    author: Author,
    text_of: Callable[[Mapping[str, Any]], str],
    *,
    at_once: bool,
) -> SoulProposal:
    """Store a suggestion of the author's agent, once; ``at_once`` also applies it if trusted.

    Raises Refused: stale_attempt, quota_reached, and errors of kernel.policy.guard.
    """
    holder = held(tx.conn, author.instruction, author.epoch)
    if "@" in holder.agent:
        hint = "change the workflow's file, or give the agent its own file"
        raise Refused("forbidden", f"agent {holder.name} exists only in its workflow and has no soul", hint)
    observation = one_line(said.observation, OBSERVATION_CHARACTERS, "observation")
    value = one_line(said.value, TRAIT_CHARACTERS, "value")
    for one in SOUL.of_owner(tx.conn, holder.agent, open_only=True):
        if (one.trait, one.value) == (said.trait, value):
            return one
    changed = evolved(standing.traits, said.trait, value)
    if SOUL.count(tx.conn, holder.agent) >= MOST_SUGGESTIONS:
        text = f"you have the maximum of {MOST_SUGGESTIONS} open suggestions"
        raise Refused("conflict", text, "continue without it; a person can decide them: awk needs")
    use(tx, holder, messages=1, text=f"{observation}{value}")
    # Otherwise a person decides, because a soul is part of each prompt of the agent.
    body = text_of(changed) if at_once and of_work(tx.conn, holder.number) == "user" else None
    said = Suggestion(said.trait, value, observation)
    name = _propose(tx, holder.agent, holder.space, standing, said, Changer(holder.name, holder.number), body)
    return SOUL.find(tx.conn, holder.agent, name)


def _propose(
    tx: Transaction, agent: str, space: str, standing: SoulStanding, said: Suggestion, by: Changer, body: str | None
) -> str:
    """Store a suggestion, and ``body`` as the version that applies it unless a person decides. Return its id."""
    detail = {"messages": said.messages, "risk": said.risk}
    place = (agent, space, said.trait, said.value)
    name = SOUL.propose(tx, *place, reason=said.observation, author=by.name, instruction=by.instruction, detail=detail)
    version = None
    if body is not None:
        by = by._replace(proposal=number_of(name, SOUL.letter))
        version = add_version(tx, agent, standing, body, said.observation, by)
        SOUL.decide(tx, name, "approved", "auto", "", version)
    data = {"id": name, "state": "open" if version is None else "approved", "version": version}
    tx.emit("soul.changed", agent=name_of(agent), space=space, instruction=by.instruction, data=data)
    return name


def observe(
    tx: Transaction,
    agent: AgentKey,
    standing: SoulStanding,
    found: Iterable[Suggestion],
    instruction: int,
    text_of: Callable[[Mapping[str, Any]], str] | None,
) -> None:
    """Store a guard's suggestions, the answer of its ``instruction``; with ``text_of`` apply those of low risk."""
    by = Changer(GUARD, instruction)
    for said in found:
        if SOUL.count(tx.conn, agent) < MOST_SUGGESTIONS:
            traits = evolved(standing.traits, said.trait, said.value) if said.risk == "low" else {}
            body = text_of(traits) if text_of is not None and said.risk == "low" else None
            _propose(tx, agent, personal_space(agent), standing, said, by, body)
            if body is not None:
                standing = SoulStanding(standing.baseline, body, traits)


def approve(
    tx: Transaction,
    standing: SoulStanding,
    agent: AgentKey,
    name: str,
    reason: str,
    text_of: Callable[[Mapping[str, Any]], str],
) -> SoulProposal:
    """Approve a suggestion as a person and add its version. Approving it again changes nothing.

    Raises Refused: not_found, conflict.
    """
    one = SOUL.find(tx.conn, agent, name)
    if not SOUL.is_open(one, "approved"):
        return one
    changed = evolved(standing.traits, one.trait, one.value)
    by = Changer(proposal=number_of(name, SOUL.letter))
    version = add_version(tx, agent, standing, text_of(changed), reason or one.observation, by)
    SOUL.decide(tx, name, "approved", USER, reason, version)
    tx.emit("soul.changed", agent=agent, data={"id": one.id, "state": "approved", "version": version})
    return SOUL.find(tx.conn, agent, name)


def reject(tx: Transaction, agent: AgentKey, name: str, reason: str) -> SoulProposal:
    """Reject a suggestion as a person. Raises Refused: not_found, conflict."""
    one = SOUL.find(tx.conn, agent, name)
    if not SOUL.is_open(one, "rejected"):
        return one
    SOUL.decide(tx, name, "rejected", USER, reason)
    tx.emit("soul.changed", agent=agent, data={"id": one.id, "state": "rejected", "version": None})
    return SOUL.find(tx.conn, agent, name)


BODY: Final = "SELECT body FROM soul_versions WHERE agent = ? AND version = ?"


def roll_back(tx: Transaction, standing: SoulStanding, agent: AgentKey, version: int, reason: str) -> int:
    """Add a copy of ``version``; return its number. Raises Refused: not_found, conflict."""
    row = tx.conn.execute(BODY, (agent, version)).fetchone()
    if row is None:
        raise Refused(
            "not_found",
            f"version {version} of the soul of {agent} not found",
            f"list the versions: awk agent soul {agent} history",
        )
    body = str(row[0])
    if body == (standing.baseline if standing.body is None else standing.body):
        raise Refused("conflict", f"the soul of {agent} already has this text")
    made = add_version(tx, agent, standing, body, reason or f"rolled back to {version}", Changer())
    tx.emit("soul.changed", agent=agent, data={"id": None, "state": "rolled back", "version": made})
    return made


VERSIONS: Final = """
SELECT version, author, instruction, proposal, at_ms AS at, reason, diff FROM soul_versions WHERE agent = ?
ORDER BY version DESC LIMIT ?
"""


def versions(conn: apsw.Connection, agent: str) -> tuple[SoulVersion, ...]:
    """Return the newest versions of a soul, the newest first."""
    found = rows.each(
        conn.execute(VERSIONS, (agent, SHOWN_VERSIONS)),
        VERSIONS,
        SoulVersion,
        at=rfc3339,
        instruction=lambda number: None if number is None else instruction_id(number),
        proposal=lambda number: None if number is None else SOUL.id_of(number),
    )
    return tuple(found)
