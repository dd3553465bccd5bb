"""Names and ids: what an agent, a space, a tag, a message and an attempt may be called.

Light on purpose (no msgspec): the command line imports it before it knows whether it has work.
"""

import re
from typing import Final, NewType

AgentName = NewType("AgentName", str)
"""What people type and mention: ``alice``. Unique within a space."""

AgentKey = NewType("AgentKey", str)
"""What the kernel queues by: ``alice``, or ``helper@review:main`` for an agent that lives inside one workflow."""

SpaceId = NewType("SpaceId", str)
"""``review:main#12`` (the workspace that run 12 began) or ``dm:alice`` (an agent's personal space).

People see and type its place, ``review:main``: all runs of that name and tag. Only the kernel knows the rest. A space
that an agent opened below it is ``review:main~design#12.7``, and its place ``review:main~design``.
"""

MessageId = NewType("MessageId", str)
"""``m17``: the message with sequence number 17 in the log."""

InstructionId = NewType("InstructionId", str)
"""``i7``: one piece of work for one agent."""

AttemptId = NewType("AttemptId", str)
"""``i7-2``: the attempt that holds epoch 2 of instruction 7. Fencing is by this id, never by pid."""

RunId = NewType("RunId", str)
"""``r12``: one start of a workflow."""

ApprovalId = NewType("ApprovalId", str)
"""``a3``: one request to let a tool be called."""

NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}", re.ASCII)
TAG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
RESERVED: Final = frozenset({"system", "user", "all", "here", "kernel", "guard"})
DEFAULT_TAG: Final = "main"
DM: Final = "dm"
"""The prefix of personal spaces. A workflow of this name would be mistaken for one, so none may have it."""
_PERSONAL: Final = f"{DM}:"
_RUN: Final = "#"
"""Before the number of the run that began a space; no name or tag has it."""
BELOW: Final = "~"
"""Before the name of a space that an agent opened below that of its run; no name or tag has it, and no path or address
needs it quoted."""


class NameRejected(ValueError):
    """A name or tag that breaks the grammar or is reserved. The text says which rule."""


def check_name(text: str) -> AgentName:
    """Return ``text`` as a name of an agent or workflow. Raises NameRejected."""
    if not NAME.fullmatch(text):
        raise NameRejected(
            f"{text[:100]!r} is not a name: lower-case letters, digits, '_' and '-', starting with a letter, at most 32"
        )
    if text in RESERVED:
        raise NameRejected(f"{text!r} is reserved")
    return AgentName(text)


def check_workflow_name(text: str) -> str:
    """Return ``text`` as a workflow's name. Raises NameRejected."""
    if text == DM:
        raise NameRejected(f"{text!r} is reserved: it marks personal spaces")
    return check_name(text)


def check_tag(text: str) -> str:
    """Return ``text`` as a workflow's tag. Raises NameRejected."""
    if not TAG.fullmatch(text):
        raise NameRejected(
            f"{text[:80]!r} is not a tag: letters, digits, '.', '_' and '-', starting with a letter or digit, up to 64"
        )
    return text


def personal_space(agent: str) -> SpaceId:
    """The space where direct messages of ``agent`` live."""
    return SpaceId(f"{DM}:{agent}")


def workflow_space(workflow: str, tag: str = DEFAULT_TAG) -> SpaceId:
    """The place of a workflow: what the spaces of all its runs with that tag are called."""
    return SpaceId(f"{workflow}:{tag}")


def run_space(place: str, run: int) -> SpaceId:
    """The space that run number ``run`` of ``place`` begins: nothing was ever said there."""
    return SpaceId(f"{place}{_RUN}{run}")


def place_of(space: str) -> SpaceId:
    """Return what people call ``space``: ``review:main#12`` -> ``review:main``; a personal space as it is."""
    return SpaceId(space.partition(_RUN)[0])


def split_space(space: str) -> tuple[str, str]:
    """``review:main`` -> ``("review", "main")``. A space without a tag gets the default one.

    The name of a space below that of a run stays with the tag: ``review~design`` -> ``("review", "main~design")``.
    """
    head, _, tail = place_of(space).partition(":")
    if not tail and is_below(head):
        head, below, name = head.partition(BELOW)
        return head, f"{DEFAULT_TAG}{below}{name}"
    return head, tail or DEFAULT_TAG


def subspace(base: str, name: str, number: int) -> SpaceId:
    """The space called ``name`` below ``base``: ``review:main#12`` -> ``review:main~design#12.7``."""
    place, _, began = base.partition(_RUN)
    return SpaceId(f"{place}{BELOW}{name}{_RUN}{began}.{number}")


def is_below(space: str) -> bool:
    """Return whether ``space``, or a place, is one that an agent opened below another."""
    return BELOW in space


def base_space(space: str) -> SpaceId:
    """The space of the run that ``space`` is in: ``review:main~design#12.7`` -> ``review:main#12``; others as they are.

    So too of places.
    """
    if not is_below(space):
        return SpaceId(space)
    place, _, rest = space.partition(_RUN)
    began = rest.partition(".")[0]
    return SpaceId(f"{place.partition(BELOW)[0]}{_RUN if began else ''}{began}")


def split_below(place: str) -> tuple[str, str]:
    """``review:main~design`` -> ``("review:main", "design")``; of another space the second is empty."""
    head, _, name = place_of(place).partition(BELOW)
    return head, name


def is_personal(space: str) -> bool:
    """Return whether ``space`` is an agent's personal space."""
    return space.startswith(_PERSONAL)


def inline_key(agent: str, space: str) -> AgentKey:
    """The key of an agent defined inside a workflow, which lives and dies with it."""
    return AgentKey(f"{agent}@{space}")


def name_of(key: str) -> AgentName:
    """The name people see for an agent key."""
    return AgentName(key.partition("@")[0])


_IN_NO_BRANCH: Final = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|$)|^[-./]|[./]$")
_BRANCH_BYTES: Final = 200
AGENT_BRANCHES: Final = "awk"
"""Agents' own branches are below it."""


def branch_fault(name: str) -> str | None:
    """The reason why nothing can be merged into a branch of this ``name``, which is without ``refs/heads/``.

    It is no name of a branch (git check-ref-format), could not be shown as it is, or is an agent's own.
    """
    if not name or name in ("@", "HEAD") or _IN_NO_BRANCH.search(name) or not name.isprintable():
        return f"{name[:60]!a} is not the name of a branch"
    if len(name.encode("utf-8", "replace")) > _BRANCH_BYTES:
        return "the name of the branch is too long"
    # Where a file system does not tell upper from lower case it is the same branch.
    if name.casefold().startswith(f"{AGENT_BRANCHES}/"):
        return f"{name} is a branch of agents ({AGENT_BRANCHES}/...), and nothing is merged into those"
    return None


def message_id(seq: int) -> MessageId:
    """The id of the message at ``seq``."""
    return MessageId(f"m{seq}")


def feedback_id(number: int) -> str:
    """Return the id of the feedback in row ``number``."""
    return f"f{number}"


def instruction_id(number: int) -> InstructionId:
    """The id of the instruction in row ``number``."""
    return InstructionId(f"i{number}")


def attempt_id(instruction: str, epoch: int) -> AttemptId:
    """The id of the attempt that holds ``epoch`` of ``instruction``."""
    return AttemptId(f"{instruction}-{epoch}")


def run_id(number: int) -> RunId:
    """The id of the run in row ``number``."""
    return RunId(f"r{number}")


def webhook_id(digest: str) -> str:
    """``w1a2b3c4d5e6f`` of what a webhook is known by."""
    return f"w{digest[:12]}"


def token_id(number: int) -> str:
    """The id of the token in row ``number``."""
    return f"k{number}"


def approval_id(number: int) -> ApprovalId:
    """The id of the request in row ``number``."""
    return ApprovalId(f"a{number}")


def rule_id(number: int) -> str:
    """The id of the standing rule of approval in row ``number``."""
    return f"r{number}"


def number_of(identifier: str, letter: str) -> int | None:
    """The row number in ``m17`` or ``i7``; None where ``identifier`` is not one with that letter."""
    digits = identifier[1:]
    if identifier[:1] != letter or not digits.isascii() or not digits.isdecimal() or len(digits) > 18:
        return None
    return int(digits)
