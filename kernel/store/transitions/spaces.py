"""Open a space below a run's, and change its members: each change is a message there, in one commit.

Without an author, the user acts. An agent's call is recorded, so that a repeated call returns the same answer. The same
commit cancels a removed member's work there, so that even its running call can no longer write.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, cast

from kernel.policy import spaces as policy
from kernel.rule.assignment import channel_of, not_running
from kernel.rule.draft import Author, Draft
from kernel.store import agents, spaces, workflows
from kernel.store.rules import TransactionView
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import Speaker, speaker
from kernel.store.transitions.close import close_cancelled, close_space
from kernel.store.transitions.creations import open_below_run
from kernel.store.transitions.tasks import give_out
from protocol.api.workflows import SpaceInfo
from protocol.errors import Refused
from protocol.names import SpaceId, base_space, is_personal, message_id, place_of, split_space


class SpaceRequest(NamedTuple):
    """Space that an agent wants to open."""

    name: str
    members: tuple[str, ...]


def open_space(tx: Transaction, space: str, wanted: SpaceRequest, *, author: Author) -> SpaceInfo:
    """Open a space below ``space``, where the author works. Its first message lists the members.

    Raises Refused: stale_attempt, forbidden, not_a_participant, workflow_not_running, conflict, quota_reached.
    """
    who = speaker(tx, space, author, ("space", *wanted))
    if (before := who.known(SpaceInfo)) is not None:
        return before
    assert who.held is not None, "an author holds an instruction"
    opener = who.name, who.held.agent, who.held.number
    invited = (who.name, *wanted.members)
    opened, members = open_below_run(tx, space, wanted.name, _run(tx, space), opener, invited)
    text = f"[SPACE] {who.name} opened {wanted.name}, with {', '.join(members)}"
    return _said(tx, who, opened, wanted.name, text, members)


def change_members(
    tx: Transaction, space: str, name: str, change: policy.MembershipChange, *, author: Author | None = None
) -> SpaceInfo:
    """Change the members of the space ``name`` below ``space``. Return the space with its members.

    Raises Refused as ``open_space`` does; not_found also if the caller is not a member.
    """
    who = speaker(tx, space, author, ("members", name, *change))
    if (before := who.known(SpaceInfo)) is not None:
        return before
    row = spaces.find_open(tx.conn, base_space(space), name) if name else spaces.own(tx.conn, space)
    if row is None or (who.held is not None and not spaces.is_in(tx.conn, row.space, who.held.agent)):
        raise missing(name)
    there = spaces.members(tx.conn, row.space)
    colleagues = spaces.members(tx.conn, row.base) if name else [one.key for one in agents.all(tx.conn)]
    caller = None if who.held is None else who.name
    added, removed = policy.change_of_members(caller, row.opener, there, change, colleagues)
    if not added and not removed:
        return who.keep(tx, SpaceInfo(space=place_of(row.space), name=name, members=there, message_id=None))
    spaces.add_members(tx, row.space, row.base, added)
    told = [f"{', '.join(added)} joined" if added else "", f"{', '.join(removed)} left" if removed else ""]
    now = tuple(sorted({*there, *added} - {*removed}))
    text = f"[SPACE] {name}: {'; '.join(part for part in told if part)}"
    spaces.remove_members(tx, row.space, removed)
    said = _said(tx, who, row.space, name, text, now, added)
    for one in removed:
        _end_work(tx, row.space, one)
    if added:
        give_out(tx, row.space)
    return said


def missing(name: str) -> Refused:
    """Return the error for a missing space; also used if the caller may not know the space."""
    hint = "you can use spaces that you opened or were added to"
    return Refused("not_found", f"space {name[:40]!r} not found among your spaces", hint)


def close_by_person(tx: Transaction, space: str) -> None:
    """Close a space that an agent opened, and cancel its work. Do nothing if it is closed."""
    row = spaces.by_space(tx.conn, space)
    if row is not None and row.closed_ms is None:
        _end_work(tx, row.space, None)
        if spaces.is_open(tx.conn, row.space):  # the end of its last work may have closed it
            close_space(tx, row, "a person closed it")


OPEN_WORK: Final = """
SELECT id, epoch FROM instructions
WHERE space = :space AND state IN ('queued', 'leased', 'running', 'yielded', 'waiting')
  AND (:name IS NULL OR name = :name) ORDER BY id DESC
"""


def _end_work(tx: Transaction, space: str, name: str | None) -> None:
    """Cancel the open instructions of member ``name`` (None: of all members) in a space."""
    found = tx.conn.execute(OPEN_WORK, {"space": space, "name": name}).fetchall()
    for number, epoch in cast("list[tuple[int, int]]", found):
        close_cancelled(tx, number, epoch)


def _run(tx: Transaction, space: str) -> int:
    if is_personal(space):
        text = f"space {space} cannot contain spaces: it belongs to {split_space(space)[1]} and the user"
        raise Refused("not_a_participant", text, "open one from a workflow's space")
    record = workflows.latest(tx.conn, space)
    if record is None:
        raise not_running(space)
    channel_of(TransactionView(tx.conn), space)
    return record.id


def _said(
    tx: Transaction,
    who: Speaker,
    space: SpaceId,
    name: str,
    text: str,
    members: tuple[str, ...],
    told: Sequence[str] | None = None,
) -> SpaceInfo:
    mentions = tuple(members if told is None else told)
    seq = who.say(tx, Draft(kind="document", space=space, sender=who.name, text=text, mentions=mentions)).first_seq
    tx.emit("space.changed", space=space, agent=who.name, data={"state": "open", "members": members})
    return who.keep(tx, SpaceInfo(space=place_of(space), name=name, members=members, message_id=message_id(seq)))
