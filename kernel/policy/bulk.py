"""The choice of instructions that ``awk cancel`` and ``awk retry`` take many at once. Pure.

An agent is named as elsewhere: without a workflow by its key, since it has one queue for all its spaces; in a
workflow's spaces by what it is called there. The parts of a selection hold together: each leaves fewer.
"""

from collections.abc import Iterable

import msgspec

from protocol.instruction import LIVE, Status
from protocol.names import InstructionId


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The instructions that are meant. None: of all agents, in all spaces.

    ``queued``: of these only what no worker is at; what runs goes on.
    """

    agent: str | None = None
    spaces: frozenset[str] | None = None
    queued: bool = False


class Choosable(msgspec.Struct, frozen=True):
    """An instruction, as far as the choice asks: ``agent`` is the key, ``name`` what it is called in ``space``."""

    id: InstructionId
    agent: str
    name: str
    space: str
    status: Status


class Choice(msgspec.Struct, frozen=True):
    """``taken`` in the order they came; ``left`` is how many that are meant are left because they run."""

    taken: tuple[Choosable, ...]
    left: int


def choose(rows: Iterable[Choosable], selection: Selection) -> Choice:
    """Return those of ``rows`` that are to be changed."""
    taken: list[Choosable] = []
    left = 0
    for row in rows:
        if selection.spaces is not None and row.space not in selection.spaces:
            continue
        if selection.agent not in (None, row.agent if selection.spaces is None else row.name):
            continue
        if selection.queued and row.status in LIVE:
            left += 1
        else:
            taken.append(row)
    return Choice(tuple(taken), left)
