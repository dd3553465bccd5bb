"""Grammar of names and ids: agents, spaces, tags, messages, attempts.

The module imports no msgspec, because every command of the command line imports it at its start.
"""

import re
from collections.abc import Callable
from typing import Final, NewType

AgentName = NewType("AgentName", str)
"""Name that people type and mention: ``alice``. Unique within a space."""

AgentKey = NewType("AgentKey", str)
"""Key of an agent's queue: ``alice``, or ``helper@review:main`` for an inline agent of a workflow."""

SpaceId = NewType("SpaceId", str)
"""``review:main#12`` (the workspace that run 12 created) or ``dm:alice`` (an agent's personal space).

People see and type the place of a space, ``review:main``, which stands for all runs of that name and tag. An agent's
space below the run's is ``review:main~design#12.7``, and its place is ``review:main~design``.
"""

MessageId = NewType("MessageId", str)
"""``m17``: the message with sequence number 17 in the log."""

InstructionId = NewType("InstructionId", str)
"""``i7``: the instruction in row 7."""

AttemptId = NewType("AttemptId", str)
"""``i7-2``: the attempt with epoch 2 of instruction 7. Fencing uses this id, never a pid."""

RunId = NewType("RunId", str)
"""``r12``: the twelfth start of a workflow."""

ApprovalId = NewType("ApprovalId", str)
"""``a3``: the third request to approve a tool call."""

NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}", re.ASCII)
INSTANCE: Final = re.compile(rf"({NAME.pattern})\.([1-9][0-9]?)", re.ASCII)
"""Name of an instance of an agent with ``replicas``: ``coder.2``. The kernel assigns these names."""
TAG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
RESERVED: Final = frozenset({"system", "user", "all", "here", "kernel", "guard"})
DEFAULT_TAG: Final = "main"
GLOBAL: Final = "global"
"""Name of the project's space in which all agents can be mentioned. The first message to it opens it."""
DM: Final = "dm"
"""Prefix of personal spaces. The name is reserved, because a workflow of this name would look like one."""
_PERSONAL: Final = f"{DM}:"
_RUN: Final = "#"
"""Separator before the number of the run that created a space. Names and tags cannot contain it."""
BELOW: Final = "~"
"""Separator before the name of a space that an agent opened below the space of its run. Names
and tags cannot contain the character, and paths and URLs need not quote it."""


class NameRejected(ValueError):
    """Invalid or reserved name or tag. The text contains the rule."""


def check_name(text: str) -> AgentName:
    """Return ``text`` as a name of an agent or workflow. Raises NameRejected."""
    if (instance := INSTANCE.fullmatch(text)) is not None:
        raise NameRejected(f"{text!r} is the name of an instance: write replicas: under {instance[1]}")
    if not NAME.fullmatch(text):
        raise NameRejected(
            f"{text[:100]!r} is not a name: lower-case letters, digits, '_' and '-', starting with a letter, at most 32"
        )
    if text in RESERVED:
        raise NameRejected(f"{text!r} is reserved")
    return AgentName(text)


def check_addressee(text: str) -> AgentName:
    """Return ``text`` as the name of an agent or of an instance (``coder.2``). Raises NameRejected."""
    check_name(split_instance(text)[0])
    return AgentName(text)


def split_instance(name: str) -> tuple[str, int]:
    """Split ``coder.2`` into ``("coder", 2)``. For any other name the number is 0."""
    found = INSTANCE.fullmatch(name)
    return (name, 0) if found is None else (found[1], int(found[2]))


def group_of(key: str) -> AgentKey | None:
    """Return the key of the group of an instance: ``coder.2@review:main`` -> ``coder@review:main``; else None."""
    name, at, space = key.partition("@")
    group, number = split_instance(name)
    return AgentKey(f"{group}{at}{space}") if number else None


def instance_keys(key: str, replicas: int) -> tuple[AgentKey, ...]:
    """Return the keys of the instances of the group ``key``."""
    name, at, space = key.partition("@")
    return tuple(AgentKey(f"{name}.{number}{at}{space}") for number in range(1, replicas + 1))


def check_workflow_name(text: str) -> str:
    """Return ``text`` as a workflow's name. Raises NameRejected."""
    if text == DM:
        raise NameRejected(f"{text!r} is reserved: it marks personal spaces")
    return check_name(text)


def is_name(text: str, check: Callable[[str], object] = check_name) -> bool:
    """Return whether ``check`` accepts ``text`` as a name."""
    try:
        check(text)
    except NameRejected:
        return False
    return True


def check_tag(text: str) -> str:
    """Return ``text`` as a workflow's tag. Raises NameRejected."""
    if not TAG.fullmatch(text):
        raise NameRejected(
            f"{text[:80]!r} is not a tag: letters, digits, '.', '_' and '-', starting with a letter or digit, up to 64"
        )
    return text


def personal_space(agent: str) -> SpaceId:
    """Return the space of the direct messages of ``agent``."""
    return SpaceId(f"{DM}:{agent}")


def workflow_space(workflow: str, tag: str = DEFAULT_TAG) -> SpaceId:
    """Return the place of a workflow, which names the spaces of all its runs with that tag."""
    return SpaceId(f"{workflow}:{tag}")


def run_space(place: str, run: int) -> SpaceId:
    """Return the new space that run number ``run`` of ``place`` creates."""
    return SpaceId(f"{place}{_RUN}{run}")


def place_of(space: str) -> SpaceId:
    """Return the name of ``space`` for people: ``review:main#12`` -> ``review:main``; a personal space is unchanged."""
    return SpaceId(space.partition(_RUN)[0])


def split_space(space: str) -> tuple[str, str]:
    """Split a space into workflow and tag: ``review:main`` -> ``("review", "main")``. The tag defaults to ``main``.

    The name of a space below a run is part of the tag: ``review~design`` -> ``("review", "main~design")``.
    """
    head, _, tail = place_of(space).partition(":")
    if not tail and is_below(head):
        head, below, name = head.partition(BELOW)
        return head, f"{DEFAULT_TAG}{below}{name}"
    return head, tail or DEFAULT_TAG


def subspace(base: str, name: str, number: int) -> SpaceId:
    """Return the space with ``name`` below ``base``: ``review:main#12`` -> ``review:main~design#12.7``."""
    place, _, began = base.partition(_RUN)
    return SpaceId(f"{place}{BELOW}{name}{_RUN}{began}.{number}")


def is_below(space: str) -> bool:
    """Return whether an agent opened ``space`` (or a place) below another space."""
    return BELOW in space


def base_space(space: str) -> SpaceId:
    """Return the run's space that contains ``space``: ``review:main~design#12.7`` ->
    ``review:main#12``. Other spaces are unchanged. Places are accepted, too."""
    if not is_below(space):
        return SpaceId(space)
    place, _, rest = space.partition(_RUN)
    began = rest.partition(".")[0]
    return SpaceId(f"{place.partition(BELOW)[0]}{_RUN if began else ''}{began}")


def split_below(place: str) -> tuple[str, str]:
    """Split ``review:main~design`` into ``("review:main", "design")``. For another space the second part is empty."""
    head, _, name = place_of(place).partition(BELOW)
    return head, name


def is_personal(space: str) -> bool:
    """Return whether ``space`` is an agent's personal space."""
    return space.startswith(_PERSONAL)


def inline_key(agent: str, space: str) -> AgentKey:
    """Return the key of an inline agent of a workflow."""
    return AgentKey(f"{agent}@{space}")


def name_of(key: str) -> AgentName:
    """Return the displayed name of an agent key."""
    return AgentName(key.partition("@")[0])


_IN_NO_BRANCH: Final = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|$)|^[-./]|[./]$")
_BRANCH_BYTES: Final = 200
AGENT_BRANCHES: Final = "awk"
"""Prefix of the branches of agents."""


def branch_fault(name: str) -> str | None:
    """Return why a branch with this ``name`` (without ``refs/heads/``) cannot be the target of a merge, or None.

    The name is invalid (git check-ref-format) or not printable, or the branch belongs to an agent.
    """
    if not name or name in ("@", "HEAD") or _IN_NO_BRANCH.search(name) or not name.isprintable():
        return f"{name[:60]!a} is not the name of a branch"
    if len(name.encode("utf-8", "replace")) > _BRANCH_BYTES:
        return "the name of the branch is too long"
    # On a case-insensitive file system, names that differ only in case are the same branch.
    if name.casefold().startswith(f"{AGENT_BRANCHES}/"):
        return f"{name} is a branch of an agent ({AGENT_BRANCHES}/...), which cannot be the target of a merge"
    return None


def message_id(seq: int) -> MessageId:
    """Return the id of the message at ``seq``."""
    return MessageId(f"m{seq}")


def feedback_id(number: int) -> str:
    """Return the id of the feedback in row ``number``."""
    return f"f{number}"


def instruction_id(number: int) -> InstructionId:
    """Return the id of the instruction in row ``number``."""
    return InstructionId(f"i{number}")


def attempt_id(instruction: str, epoch: int) -> AttemptId:
    """Return the id of the attempt with ``epoch`` of ``instruction``."""
    return AttemptId(f"{instruction}-{epoch}")


def run_id(number: int) -> RunId:
    """Return the id of the run in row ``number``."""
    return RunId(f"r{number}")


def webhook_id(digest: str) -> str:
    """Return the id of a webhook, ``w1a2b3c4d5e6f``, from the digest of its terms."""
    return f"w{digest[:12]}"


def token_id(number: int) -> str:
    """Return the id of the token in row ``number``."""
    return f"k{number}"


def approval_id(number: int) -> ApprovalId:
    """Return the id of the approval request in row ``number``."""
    return ApprovalId(f"a{number}")


def rule_id(number: int) -> str:
    """Return the id of the approval rule in row ``number``."""
    return f"r{number}"


def number_of(identifier: str, letter: str) -> int | None:
    """Return the row number in ``m17`` or ``i7``, or None if ``identifier`` is not an id with that letter."""
    digits = identifier[1:]
    if identifier[:1] != letter or not digits.isascii() or not digits.isdecimal() or len(digits) > 18:
        return None
    return int(digits)
