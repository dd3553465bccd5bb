"""Targets and mentions: ``alice`` · ``@review`` / ``@review:pr-123`` · ``alice@review[:tag]``, and ``@name`` in prose.

A space that an agent opened in a run is the end of a target: ``@review~design``, ``alice@review:pr-123~design``.

Code spans, fenced code, e-mail addresses, URLs and paths are not prose. Waking a colleague costs money, so an ambiguous
name is not a mention. The search is linear in the length of the text, because agents and diffs write it.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, Literal

import msgspec

from protocol.names import (
    BELOW,
    DEFAULT_TAG,
    NameRejected,
    SpaceId,
    check_addressee,
    check_name,
    check_tag,
    check_workflow_name,
    personal_space,
    workflow_space,
)


class Target(msgspec.Struct, frozen=True):
    """The target of a message. At least one of ``agent`` and ``workflow`` is set. ``tag`` may
    end with the name of a space below the run's: ``main~design``."""

    agent: str | None
    workflow: str | None
    tag: str = DEFAULT_TAG

    @property
    def space(self) -> SpaceId:
        """Return the space of the message: the workspace, or the agent's personal space."""
        if self.workflow is not None:
            return workflow_space(self.workflow, self.tag)
        return personal_space(self.agent or "")

    def __str__(self) -> str:
        """Return the target as a person would type it, without the default tag."""
        if self.workflow is None:
            return self.agent or ""
        tag, below, name = self.tag.partition(BELOW)
        return f"{self.agent or ''}@{self.workflow}{'' if tag == DEFAULT_TAG else f':{tag}'}{below}{name}"


class TargetRejected(ValueError):
    """Invalid target. The text of the error shows the grammar."""


def parse_target(text: str) -> Target:
    """Parse a target that a user typed. Raises TargetRejected."""
    if not text.strip():
        text = "the target is empty (is a variable unset?); use alice, @review, @review:tag or alice@review[:tag]"
        raise TargetRejected(text)
    agent, at, place = text.partition("@")
    try:
        if not at:
            return Target(agent=check_addressee(agent), workflow=None)
        place, below, name = place.partition(BELOW)
        workflow, colon, tag = place.partition(":")
        tag = check_tag(tag) if colon else DEFAULT_TAG
        return Target(
            agent=check_addressee(agent) if agent else None,
            workflow=check_workflow_name(workflow),
            tag=f"{tag}{BELOW}{check_name(name)}" if below else tag,
        )
    except NameRejected as error:
        raise TargetRejected(
            f"{text[:100]!r} is not a target ({error}); use alice, @review, @review:tag or alice@review[:tag]"
        ) from error


MAX_MENTIONS: Final = 8
"""Maximum number of colleagues that a message wakes. Further mentions are reported to the sender."""

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_TICKS: Final = re.compile(r"`+")
_URL: Final = re.compile(r"(?<![a-zA-Z0-9+.-])[a-zA-Z][a-zA-Z0-9+.-]{0,31}://\S+")
_MENTION: Final = re.compile(
    r"(?<![\w.@/`+-])@([A-Za-z][A-Za-z0-9_-]{0,31}+(?:\.[1-9][0-9]?+)?)(?![\w@/])(?!\.\w)", re.ASCII
)


def find_mentions(text: str) -> tuple[str, ...]:
    """Return the names mentioned in ``text``, in lower case and without duplicates, in order of first appearance."""
    if "@" not in text:
        return ()
    # Blank code spans (CommonMark 6.1: a run of backticks is closed by the next run of the same length).
    without_spans_text = "\n".join(_unfenced(text.split("\n")))
    runs = [(match.start(), match.end()) for match in _TICKS.finditer(without_spans_text)]
    following: dict[int, list[int]] = defaultdict(list)
    for start, end in reversed(runs):
        following[end - start].append(start)
    kept: list[str] = []
    position = 0
    for start, end in runs:
        closers = following[end - start]
        while closers and closers[-1] <= start:
            closers.pop()
        if start < position or not closers:
            continue
        kept.append(without_spans_text[position:start])
        position = closers[-1] + (end - start)
    prose = _URL.sub(" ", "`".join([*kept, without_spans_text[position:]]))
    return tuple(dict.fromkeys(name.lower() for name in _MENTION.findall(prose)))


_PRESSING: Final = re.compile(r"\b(?:urgent|asap|blocked|critical)\b", re.IGNORECASE)
Flag = Literal["urgent"]
FLAGGED_CHARACTERS: Final = 4000
"""A prompt inspects up to 100 messages, and a search in the longest text takes 40 ms."""


def flag_of(text: str) -> Flag | None:
    """Return ``urgent`` for an inbox message whose first FLAGGED_CHARACTERS ask for urgency or mention several members;
    else None. The flag is for display only and never changes the order of messages."""
    text = text[:FLAGGED_CHARACTERS]
    return "urgent" if _PRESSING.search(text) or len(find_mentions(text)) > 1 else None


def limit_mentions(names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the first MAX_MENTIONS of ``names``, which are woken, and the other names, which are not."""
    ordered = tuple(names)
    return ordered[:MAX_MENTIONS], ordered[MAX_MENTIONS:]


def _unfenced(lines: Iterable[str]) -> Iterator[str]:
    fence = ""
    for line in lines:
        match = _FENCE.match(line)
        if fence:
            if match and match[1].startswith(fence) and not line[match.end() :].strip(" \t" + fence[0]):
                fence = ""
        elif match and not (match[1][0] == "`" and "`" in line[match.end() :]):
            fence = match[1]
        else:
            yield line
