"""The parts that needs of a person are made of: commands, names, and text that fits on a line. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from kernel.policy.open_items import BlockedWork
from protocol.api.needs import NeedAction
from protocol.names import instruction_id, run_id, split_space
from protocol.target import Target

V = TypeVar("V")
TEXT_CHARACTERS: Final = 200
"""Of what agents wrote, in the text of a need: the whole of it is shown by the command that shows the thing."""


def action(label: str, command: str) -> NeedAction:
    """One way to settle a need: a command without its ``awk``."""
    return NeedAction(label=label, command=f"awk {command}")


def target_of(name: str, space: str | None) -> str:
    """The spelling of an agent; one that lives inside a workflow is named with that."""
    return name if space is None else str(Target(name, *split_space(space)))


def run_of(number: int | None) -> str | None:
    """The id of a run, where there is one."""
    return None if number is None else run_id(number)


def blocks_of(group: Sequence[BlockedWork]) -> tuple[str, ...]:
    """The ids of all instructions of ``group``, in order."""
    return tuple(instruction_id(number) for number in sorted(number for one in group for number in one.blocks))


def common(values: Iterable[V]) -> V | None:
    """The one value that all have; None where they differ."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


def one_line(text: str) -> str:
    """``text`` on one line, cut: it may be an agent's."""
    line = " ".join(text.split())
    return line if len(line) <= TEXT_CHARACTERS else f"{line[: TEXT_CHARACTERS - 1]}…"
