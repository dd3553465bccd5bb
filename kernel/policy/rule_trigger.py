"""Rule triggers derived from messages, and their matching. Pure.

A trigger uses only what the log has of a message, so that a rule can be tested on old messages. Patterns use
google-re2, whose time is linear in the text.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, Literal, cast

import msgspec

from kernel.policy.tasks import covers
from protocol.message import HOOK, MessageKind
from protocol.rules import RuleSpec, WhenDocument, WhenHook, WhenResolved, WhenTask

MATCHED_CHARACTERS: Final = 16 * 1024
"""Only this part of a text is matched."""
PROGRAM_BYTES: Final = 256 * 1024
"""Memory limit of a compiled pattern."""

Watched = Literal["said", "done", "failed", "due", "resolved", "document", "task", "hook"]
KINDS: Final[Mapping[MessageKind, Watched]] = {
    "said": "said",
    "reply": "said",
    "done": "done",
    "failed": "failed",
    "due": "due",
    "resolved": "resolved",
    "document": "document",
    "status": "task",
}
"""Trigger type by message kind; messages of hooks are always ``hook``."""

_MARKED: Mapping[str, re.Pattern[str]] = {
    "task": re.compile(r"\[TASK:(?P<subject>t\d+)\] (?P<state>ready|claimed|done|failed|cancelled)\b"),
    "document": re.compile(r"\[DOC:(?P<subject>[^\]\n]{1,400})\]|\[DOC_SUGGEST\]"),
    "resolved": re.compile(r"\[(?:RESOLVED|EXPIRED):(?P<subject>[a-z0-9_-]+)\]"),
}
"""Prefixes that only the kernel gives to messages of these kinds."""


class Trigger(msgspec.Struct, frozen=True, kw_only=True):
    """Message as rules see it; ``subject`` is the proposal, document, task or hook, and ``state`` its new state."""

    watched: Watched
    sender: str
    text: str
    subject: str = ""
    state: str = ""


def trigger_of(kind: str, sender: str, text: str, hops: int = 0, *, winner: str | None = None) -> Trigger | None:
    """Return the trigger of a message; None if it has none. ``winner`` is the winner of the resolved proposal.

    A rule's message that follows a hook carries the hook's name, too, but has more hops and is no trigger.
    """
    if sender.startswith(HOOK):
        subject = sender.removeprefix(HOOK)
        return None if hops or kind != "said" else Trigger(watched="hook", sender=sender, text=text, subject=subject)
    watched = KINDS.get(cast("MessageKind", kind))
    if watched is None:
        return None
    marked = _MARKED.get(watched)
    if marked is None:
        return Trigger(watched=watched, sender=sender, text=text)
    found = marked.match(text)
    if found is None:
        return None
    groups = found.groupdict()
    state = groups.get("state") or winner or ""
    return Trigger(watched=watched, sender=sender, text=text, subject=groups["subject"] or "", state=state)


@lru_cache(maxsize=512)
def compiled(pattern: str) -> Any:
    """Compile ``pattern`` with re2. Raises ValueError if it is invalid."""
    import re2  # type: ignore[import-untyped]  # noqa: PLC0415  (a kernel without patterns does not load it)

    options = re2.Options()
    options.log_errors = False
    options.max_mem = PROGRAM_BYTES
    try:
        return re2.compile(pattern, options=options)
    except (re2.error, UnicodeEncodeError) as error:
        said = error.args[0] if error.args else error
        text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        raise ValueError(text.partition(":")[0]) from error


def matched(spec: RuleSpec, trigger: Trigger) -> tuple[str, ...] | None:
    """Return the matched text and groups, () without a pattern; None: ``spec`` does not apply."""
    watched = None if spec.when is None else getattr(spec.when, trigger.watched)
    if watched is None or not _waits_for(watched, trigger):
        return None
    if watched.matches is None:
        return ()
    text = trigger.text[:MATCHED_CHARACTERS].encode("utf-8", "replace").decode()
    found = compiled(watched.matches).search(text)
    return None if found is None else (found.group(0), *(one or "" for one in found.groups()))


def _waits_for(watched: Any, trigger: Trigger) -> bool:
    if isinstance(watched, WhenHook):
        return watched.name in (None, trigger.subject)
    if watched.from_ is not None and trigger.sender not in (
        (watched.from_,) if isinstance(watched.from_, str) else watched.from_
    ):
        return False
    match watched:
        case WhenResolved(proposal=subject, winner=state) | WhenTask(task=subject, state=state):
            return subject in (None, trigger.subject) and state in (None, trigger.state)
        case WhenDocument(file=file):
            return file is None or covers((file,), trigger.subject)
        case _:
            return True
