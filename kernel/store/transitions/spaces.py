"""Open a space below that of a run, and change who is in it: each is a message there, and one commit.

Without an author it is the user who acts. An agent's call is recorded: made again, it is answered the same. Who is in a
space no more has lost its work there in the same commit, so that not even a call that is under way finds it there.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, cast

from kernel.policy import spaces as policy
from kernel.policy.spaces import RunSpaces
from kernel.rule.assignment import channel_of, not_running
from kernel.rule.draft import Author, Draft
from kernel.store import spaces, workflows
from kernel.store.rules import TransactionView
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import Speaker, speaker
from kernel.store.transitions.close import close_cancelled, close_space
from kernel.store.transitions.tasks import give_out
from protocol.api.workflows import SpaceInfo
from protocol.errors import Refused
from protocol.names import SpaceId, base_space, is_below, is_personal, message_id, place_of, split_space


class SpaceRequest(NamedTuple):
    """The space that an agent wants to open."""

    name: str
    members: tuple[str, ...]


def open_space(
    tx: Transaction, space: str, wanted: SpaceRequest, *, author: Author, call_key: str | None = None
) -> SpaceInfo:
    """Open a space below ``space``, where the author is at work. Its first message says who is in it.

    Raises Refused: stale_attempt, forbidden, not_a_participant, workflow_not_running, conflict, quota_reached.
    """
    who = speaker(tx, space, author, ("space", *wanted), call_key)
    if (before := who.known(SpaceInfo)) is not None:
        return before
    if is_below(space):
        text = f"{place_of(space)} is below a run's space itself, and nothing is opened below that"
        raise Refused("conflict", text, "open it from the run's own space")
    run = _run(tx, space)
    there = spaces.open_below(tx.conn, space)
    known = RunSpaces(
        colleagues=spaces.members(tx.conn, space),
        open_names=tuple(row.name for row in there),
        opened=spaces.opened_in(tx.conn, space, run),
    )
    members = policy.members_of_new(who.name, wanted.name, wanted.members, known)
    assert who.held is not None, "an author holds an instruction"
    opened = spaces.insert(tx, space, wanted.name, run, who.name, who.held.agent, who.held.number)
    spaces.add_members(tx, opened, space, members)
    text = f"[SPACE] {who.name} opened {wanted.name}, with {', '.join(members)}"
    return _said(tx, who, opened, wanted.name, text, members)


def change_members(
    tx: Transaction,
    space: str,
    name: str,
    change: policy.MembershipChange,
    *,
    author: Author | None = None,
    call_key: str | None = None,
) -> SpaceInfo:
    """Change who is in the space ``name`` of the run that ``space`` is in; without a change say who is.

    To who is not in it, it is missing. Raises Refused, as ``open_space`` does, and not_found.
    """
    who = speaker(tx, space, author, ("members", name, *change), call_key)
    if (before := who.known(SpaceInfo)) is not None:
        return before
    row = spaces.find_open(tx.conn, base_space(space), name)
    if row is None or (who.held is not None and not spaces.is_in(tx.conn, row.space, who.held.agent)):
        raise missing(name)
    there = spaces.members(tx.conn, row.space)
    caller = None if who.held is None else who.name
    added, removed = policy.change_of_members(caller, row.opener, there, change, spaces.members(tx.conn, row.base))
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
    """The refusal of a space that is not there, or not for the caller: nobody can tell which."""
    hint = "you are in those that you opened, and that you were let into"
    return Refused("not_found", f"there is no space {name[:40]!r} that you are in", hint)


def close_by_person(tx: Transaction, space: str) -> None:
    """Close a space that an agent opened. Closed already, nothing is changed."""
    row = spaces.by_space(tx.conn, space)
    if row is not None and row.closed_ms is None:
        _end_work(tx, row.space, None)
        if spaces.is_open(tx.conn, row.space):  # the end of its work may have closed it
            close_space(tx, row, "a person closed it")


OPEN_WORK: Final = """
SELECT id, epoch FROM instructions
WHERE space = :space AND state IN ('queued', 'leased', 'running', 'yielded', 'waiting')
  AND (:name IS NULL OR name = :name) ORDER BY id DESC
"""


def _end_work(tx: Transaction, space: str, name: str | None) -> None:
    """Cancel what ``name`` has to do there, or everybody: their attempts can write no more from this commit on."""
    found = tx.conn.execute(OPEN_WORK, {"space": space, "name": name}).fetchall()
    for number, epoch in cast("list[tuple[int, int]]", found):
        close_cancelled(tx, number, epoch)


def _run(tx: Transaction, space: str) -> int:
    if is_personal(space):
        text = f"there are no spaces below {space}: it is between {split_space(space)[1]} and the user"
        raise Refused("not_a_participant", text, "agents of a workflow open them")
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
    """Say in the space what was done, where it also reaches the inbox of whom it concerns; it wakes nobody."""
    mentions = tuple(members if told is None else told)
    seq = who.say(tx, Draft(kind="document", space=space, sender=who.name, text=text, mentions=mentions)).first_seq
    tx.emit("space.changed", space=space, agent=who.name, data={"state": "open", "members": members})
    return who.keep(tx, SpaceInfo(space=place_of(space), name=name, members=members, message_id=message_id(seq)))
