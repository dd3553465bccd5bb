"""Souls: the versions of each, with what changed, why and by whom, and the changes that agents suggest.

A version is a row before it is in the file: until it is written there (``written``) the row is what counts. A file that
says something else than its newest version was edited by somebody, and becomes a version before the next change.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import apsw

from kernel.policy.guard import MOST_SUGGESTIONS, OBSERVATION_CHARACTERS, TRAIT_CHARACTERS, evolved, one_line
from kernel.policy.open_items import SuggestedSoul
from kernel.policy.text_diff import lines_of, unified
from kernel.rule.draft import Author
from kernel.store import rows
from kernel.store.attempts import held, use
from kernel.store.rows import Sql
from kernel.store.transaction import Transaction, rfc3339
from kernel.store.trust import of_work
from protocol.api.souls import SoulProposal, SoulVersion
from protocol.errors import Refused
from protocol.message import USER
from protocol.names import AgentKey, instruction_id, number_of, place_of, run_id

LETTER: Final = "p"
SHOWN_VERSIONS: Final = 100


class SoulStanding(NamedTuple):
    """A soul as its files have it. ``body`` None: there is no managed file, and ``baseline`` counts."""

    baseline: str
    body: str | None
    traits: Mapping[str, Any]


class NewestSoul(NamedTuple):
    """The newest version of a soul."""

    version: int
    body: str
    written: int


newest = Sql("""
SELECT version, body, written FROM soul_versions WHERE agent = ? ORDER BY version DESC LIMIT 1
""").row(NewestSoul)
"""The newest version; None where nothing was ever changed."""


UNWRITTEN: Final = """
SELECT version, body, reason, author, instruction, proposal
FROM soul_versions INDEXED BY soul_versions_unwritten WHERE agent = ? AND written = 0 ORDER BY version DESC LIMIT 1
"""
LAST_WRITTEN: Final = """
SELECT body FROM soul_versions WHERE agent = ? AND written = 1 ORDER BY version DESC LIMIT 1
"""


class UnwrittenSoul(NamedTuple):
    """The text that the file of a soul is to have. ``known``: what it may say now; anything else is somebody's edit."""

    body: str
    known: str


def unwritten(conn: apsw.Connection, agent: str) -> UnwrittenSoul | None:
    """The newest version of a soul, where that is not in its file yet."""
    row = conn.execute(UNWRITTEN, (agent,)).fetchone()
    return None if row is None else UnwrittenSoul(str(row[1]), str(conn.execute(LAST_WRITTEN, (agent,)).get or ""))


def keep_edit(tx: Transaction, agent: str, text: str) -> None:
    """Make ``text``, which stands in the file, a version; what is to be written there follows it once more."""
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
    """The file says what the newest version does."""
    tx.write(WRITTEN, (agent,))


INSERT: Final = """
INSERT INTO soul_versions (agent, version, body, diff, reason, author, instruction, proposal, at_ms, written)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


class Changer(NamedTuple):
    """The author of a change: by name, in which instruction (None: a person), because of which suggestion."""

    name: str = USER
    instruction: int | None = None
    proposal: int | None = None


def add_version(
    tx: Transaction,
    agent: str,
    standing: SoulStanding,
    body: str,
    reason: str,
    by: Changer,
) -> int:
    """Make ``body`` the newest version, to be written. What it was before becomes one first, if it is none."""
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
    tx.write(
        INSERT,
        (agent, number, new, diff, reason, by.name, by.instruction, by.proposal, tx.now_ms, int(written)),
    )


INSERT_PROPOSAL: Final = """
INSERT INTO soul_proposals (agent, trait, value, observation, space, instruction, run, at_ms, state)
VALUES (?, ?, ?, ?, ?, ?, (SELECT run FROM instructions WHERE id = ?), ?, 'open') RETURNING id
"""
SAME: Final = "SELECT id FROM soul_proposals WHERE agent = ? AND trait = ? AND value = ? AND state = 'open'"
COUNT_OPEN: Final = "SELECT count(*) FROM soul_proposals WHERE agent = ? AND state = 'open'"


class Suggestion(NamedTuple):
    """A change of its own soul that an agent suggests."""

    trait: str
    value: str
    observation: str


def suggest(
    tx: Transaction,
    standing: SoulStanding,
    said: Suggestion,
    author: Author,
    text_of: Callable[[Mapping[str, Any]], str],
    *,
    at_once: bool,
) -> SoulProposal:
    """Keep what the author's agent suggests, or (``at_once``) take it. Said again, it is the same suggestion.

    Raises Refused: stale_attempt, quota_reached, and those of kernel.policy.guard.
    """
    holder = held(tx.conn, author.instruction, author.epoch)
    if "@" in holder.agent:
        hint = "write it into the file of the workflow, or give the agent a file of its own"
        raise Refused("forbidden", f"{holder.name} lives in its workflow alone, and ends with it", hint)
    observation = one_line(said.observation, OBSERVATION_CHARACTERS, "observation")
    value = one_line(said.value, TRAIT_CHARACTERS, "value")
    known = tx.conn.execute(SAME, (holder.agent, said.trait, value)).fetchone()
    if known is not None:
        return find(tx.conn, holder.agent, f"{LETTER}{known[0]}")
    changed = evolved(standing.traits, said.trait, value)
    if int(tx.conn.execute(COUNT_OPEN, (holder.agent,)).get) >= MOST_SUGGESTIONS:
        text = f"{MOST_SUGGESTIONS} of your suggestions wait for a person already"
        raise Refused("conflict", text, "go on without it; awk needs shows them")
    use(tx, holder, messages=1, text=f"{observation}{value}")
    row = (holder.agent, said.trait, value, observation, holder.space, holder.number, holder.number, tx.now_ms)
    number = int(tx.conn.execute(INSERT_PROPOSAL, row).get)
    name = f"{LETTER}{number}"
    if at_once and of_work(tx.conn, holder.number) == "user":  # else a person decides: a soul is in each prompt
        by = Changer(holder.name, holder.number, number)
        version = add_version(tx, holder.agent, standing, text_of(changed), observation, by)
        _decide(tx, number, "approved", "auto", "", version)
    else:
        version = None
    made = find(tx.conn, holder.agent, name)
    data = {"id": name, "state": made.state, "version": version}
    tx.emit("soul.changed", agent=holder.name, space=holder.space, instruction=holder.number, data=data)
    return made


PROPOSALS: Final = """
SELECT id, trait, value, observation, space, instruction, run, at_ms AS at, state, decided_by, reason, version
FROM soul_proposals WHERE agent = ? AND (? IS NULL OR id = ?) AND (? = 0 OR state = 'open') ORDER BY id DESC
"""
_MADE: Final[dict[str, Callable[[Any], Any]]] = {
    "id": lambda number: f"{LETTER}{number}",
    "space": place_of,
    "instruction": lambda number: None if number is None else instruction_id(number),
    "at": rfc3339,
}


def proposals(conn: apsw.Connection, agent: str, *, open_only: bool = False) -> tuple[SoulProposal, ...]:
    """The suggestions of ``agent``, the newest first."""
    values = (agent, None, None, int(open_only))
    return tuple(rows.each(conn.execute(PROPOSALS, values), PROPOSALS, SoulProposal, **_MADE, run=_run))


def find(conn: apsw.Connection, agent: str, name: str) -> SoulProposal:
    """The suggestion called ``name``. Raises Refused (not_found)."""
    number = number_of(name, LETTER)
    values = (agent, number or 0, number or 0, 0)
    found = rows.one(conn.execute(PROPOSALS, values), PROPOSALS, SoulProposal, **_MADE, run=_run)
    if found is None:
        raise Refused("not_found", f"{agent} has no suggestion {name[:40]!r}", f"awk agent soul {agent} shows them")
    return found


def _run(number: int | None) -> str | None:
    return None if number is None else run_id(number)


DECIDE: Final = """
UPDATE soul_proposals SET state = ?, decided_by = ?, reason = ?, version = ? WHERE id = ? AND state = 'open'
"""


def _decide(tx: Transaction, number: int, state: str, by: str, reason: str, version: int | None) -> None:
    tx.write(DECIDE, (state, by, reason, version, number))


def approve(
    tx: Transaction,
    agent: AgentKey,
    standing: SoulStanding,
    name: str,
    reason: str,
    text_of: Callable[[Mapping[str, Any]], str],
) -> SoulProposal:
    """Make a version of what was suggested, as a person. Approved before, it is only told again.

    Raises Refused: not_found, conflict.
    """
    one = find(tx.conn, agent, name)
    if one.state == "approved":
        return one
    _check_open(one)
    number = number_of(one.id, LETTER) or 0
    changed = evolved(standing.traits, one.trait, one.value)
    why = reason or one.observation
    by = Changer(proposal=number)
    version = add_version(tx, agent, standing, text_of(changed), why, by)
    _decide(tx, number, "approved", USER, reason, version)
    tx.emit("soul.changed", agent=agent, data={"id": one.id, "state": "approved", "version": version})
    return find(tx.conn, agent, name)


def reject(tx: Transaction, agent: AgentKey, name: str, reason: str) -> SoulProposal:
    """Decide that it is not taken, as a person. Raises Refused: not_found, conflict."""
    one = find(tx.conn, agent, name)
    if one.state == "rejected":
        return one
    _check_open(one)
    _decide(tx, number_of(one.id, LETTER) or 0, "rejected", USER, reason, None)
    tx.emit("soul.changed", agent=agent, data={"id": one.id, "state": "rejected", "version": None})
    return find(tx.conn, agent, name)


def _check_open(one: SoulProposal) -> None:
    if one.state != "open":
        raise Refused(
            "conflict", f"{one.id} is {one.state} already", "a version is undone by awk agent soul NAME rollback"
        )


BODY: Final = "SELECT body FROM soul_versions WHERE agent = ? AND version = ?"


def roll_back(tx: Transaction, agent: AgentKey, standing: SoulStanding, version: int, reason: str) -> int:
    """Make the newest version say what ``version`` said. Returns its number. Raises Refused: not_found, conflict."""
    row = tx.conn.execute(BODY, (agent, version)).fetchone()
    if row is None:
        raise Refused("not_found", f"the soul of {agent} has no version {version}", f"awk agent soul {agent} history")
    body = str(row[0])
    if body == (standing.baseline if standing.body is None else standing.body):
        raise Refused("conflict", f"that is what the soul of {agent} says now")
    made = add_version(tx, agent, standing, body, reason or f"rolled back to {version}", Changer())
    tx.emit("soul.changed", agent=agent, data={"id": None, "state": "rolled back", "version": made})
    return made


VERSIONS: Final = """
SELECT version, author, instruction, proposal, at_ms AS at, reason, diff FROM soul_versions WHERE agent = ?
ORDER BY version DESC LIMIT ?
"""


def versions(conn: apsw.Connection, agent: str) -> tuple[SoulVersion, ...]:
    """The newest versions of a soul, the newest first."""
    found = rows.each(
        conn.execute(VERSIONS, (agent, SHOWN_VERSIONS)),
        VERSIONS,
        SoulVersion,
        at=rfc3339,
        instruction=_MADE["instruction"],
        proposal=lambda number: None if number is None else f"{LETTER}{number}",
    )
    return tuple(found)


open_everywhere = Sql("""
SELECT id, agent AS name, NULL AS space, run, at_ms AS since, trait, value
FROM soul_proposals INDEXED BY soul_proposals_open WHERE state = 'open' ORDER BY id
""").rows(SuggestedSoul, id=_MADE["id"], since=rfc3339)
"""The suggestions that wait for a person."""
