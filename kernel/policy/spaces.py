"""Decides about subspaces of a run: who may open one, change its members, and when it closes. Pure.

Membership is the permission to write and read in a subspace. Its opener grants it to members of the run only; the
opener or a person revokes it.
"""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from protocol.errors import Refused

MOST_OPEN: Final = 16
"""Maximum open subspaces of a run."""
MOST_IN_RUN: Final = 256
"""Maximum subspaces of a run, including closed ones."""
MOST_MEMBERS: Final = 64


class RunSpaces(NamedTuple):
    """Members and subspaces of a run, when another subspace is opened."""

    colleagues: Collection[str]
    open_names: Collection[str]
    opened: int
    """Subspaces opened so far."""


class MembershipChange(NamedTuple):
    """Change of members; ``added`` and ``removed`` are disjoint."""

    added: tuple[str, ...]
    removed: tuple[str, ...]


def members_of_new(opener: str, name: str, wanted: Sequence[str], run: RunSpaces) -> tuple[str, ...]:
    """Return the members of the space ``name`` that ``opener`` opens with the ``wanted`` members. Raises Refused."""
    if name in run.open_names:
        raise Refused("conflict", f"space {name!r} is already open", "use another name, or work in the open space")
    if len(run.open_names) >= MOST_OPEN:
        hint = "a space closes when its work and the work of its opener have ended"
        raise Refused("conflict", f"too many open spaces in this run: the limit is {MOST_OPEN}", hint)
    if run.opened >= MOST_IN_RUN:
        raise Refused(
            "conflict", f"too many spaces in this run: the limit is {MOST_IN_RUN}", "work in the run's main space"
        )
    members = tuple(dict.fromkeys((opener, *wanted)))
    _check_fit(members, run.colleagues)
    return members


def change_of_members(
    caller: str | None, opener: str, members: Sequence[str], change: MembershipChange, colleagues: Collection[str]
) -> MembershipChange:
    """Return the effective ``change`` of members requested by ``caller`` (None: a person) in a space of ``opener``.

    Members are not added again, and others are not removed. Raises Refused.
    """
    added = tuple(one for one in dict.fromkeys(change.added) if one not in members)
    removed = tuple(one for one in dict.fromkeys(change.removed) if one in members)
    if caller not in (None, opener) and (added or removed):
        raise Refused(
            "forbidden", f"members can only be changed by the space's opener {opener}", f"ask @{opener}, or a person"
        )
    if both := sorted({*change.added} & {*change.removed}):
        raise Refused("bad_request", f"member {both[0][:60]!r} is both added and removed", "name each member once")
    if opener in removed:
        hint = "a space closes when its work and the work of its opener have ended"
        raise Refused("conflict", f"member {opener!r} cannot be removed: it opened this space", hint)
    kept = [one for one in members if one not in removed]
    _check_fit((*kept, *added), colleagues, added)
    return MembershipChange(added, removed)


def _check_fit(members: Sequence[str], colleagues: Collection[str], new: Sequence[str] | None = None) -> None:
    for name in members if new is None else new:
        if name not in colleagues:
            raise Refused(
                "not_a_participant",
                f"agent {name[:60]!r} is not a member of this run",
                "list the members with team_members",
            )
    if len(members) > MOST_MEMBERS:
        raise Refused("conflict", f"too many members: the limit is {MOST_MEMBERS}", "name fewer members")


def is_over(*, opener_at_work: bool, work_open: bool) -> bool:
    """Return whether a space closes: its opener's work and all work in it have ended.

    Work in the space may finish after its opener's turn, because delegated work outlasts the turn that started it.
    """
    return not opener_at_work and not work_open
