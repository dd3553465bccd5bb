"""Decides about spaces below that of a run: who may open one with whom, who may change who is in it, when it is over.

To be in one is leave to speak and to read there: given by whoever opened it, to members of the run alone, and taken
back by that one or by a person. Pure.
"""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from protocol.errors import Refused

MOST_OPEN: Final = 16
"""Spaces that are open in a run at a time."""
MOST_IN_RUN: Final = 256
"""Spaces that are opened in a run, those included that are closed again."""
MOST_MEMBERS: Final = 64


class RunSpaces(NamedTuple):
    """The facts of a run that are known when a space is opened in it: who works in it, and the spaces that it has."""

    colleagues: Collection[str]
    open_names: Collection[str]
    opened: int
    """So many were opened in it by now."""


class MembershipChange(NamedTuple):
    """Another membership: who comes, and who goes. Nobody is in both."""

    added: tuple[str, ...]
    removed: tuple[str, ...]


def members_of_new(opener: str, name: str, wanted: Sequence[str], run: RunSpaces) -> tuple[str, ...]:
    """Return the members of the space ``name`` that ``opener`` opens with those ``wanted``. Raises Refused."""
    if name in run.open_names:
        raise Refused("conflict", f"a space {name} is open already", "take another name, or work in that one")
    if len(run.open_names) >= MOST_OPEN:
        hint = "one is closed once the work in it has ended, and that of who opened it"
        raise Refused("conflict", f"{MOST_OPEN} spaces are open in this run", hint)
    if run.opened >= MOST_IN_RUN:
        raise Refused("conflict", f"{MOST_IN_RUN} spaces were opened in this run", "work in the run's own")
    members = tuple(dict.fromkeys((opener, *wanted)))
    _check_fit(members, run.colleagues)
    return members


def change_of_members(
    caller: str | None, opener: str, members: Sequence[str], change: MembershipChange, colleagues: Collection[str]
) -> MembershipChange:
    """Return what ``change`` comes to in a space of ``opener``, as ``caller`` wants it; None: a person.

    Who is in it already is not added, and who is not in it is not removed. Raises Refused.
    """
    added = tuple(one for one in dict.fromkeys(change.added) if one not in members)
    removed = tuple(one for one in dict.fromkeys(change.removed) if one in members)
    if caller not in (None, opener) and (added or removed):
        raise Refused("forbidden", f"{opener} opened this space, and says who is in it", f"ask @{opener}, or a person")
    if both := sorted({*change.added} & {*change.removed}):
        raise Refused("bad_request", f"{both[0][:60]} cannot both come and go", "name everybody once")
    if opener in removed:
        hint = "it is closed once the work in it has ended, and that of who opened it"
        raise Refused("conflict", f"{opener} opened this space, and stays in it", hint)
    kept = [one for one in members if one not in removed]
    _check_fit((*kept, *added), colleagues, added)
    return MembershipChange(added, removed)


def _check_fit(members: Sequence[str], colleagues: Collection[str], new: Sequence[str] | None = None) -> None:
    for name in members if new is None else new:
        if name not in colleagues:
            raise Refused("not_a_participant", f"{name[:60]!r} is not in this run", "team_members lists who is")
    if len(members) > MOST_MEMBERS:
        raise Refused("conflict", f"a space has at most {MOST_MEMBERS} members", "leave some out")


def is_over(*, opener_at_work: bool, work_open: bool) -> bool:
    """Return whether a space is closed: the work that it was opened in has ended, and so has all work in it.

    What was begun in it is let end, as a nursery does: who ends a turn after handing work out has not ended the work.
    """
    return not opener_at_work and not work_open
