"""Messages, the immutable facts in the log, and events: what happened, for those who watch (contracts.md section 4).

Durable events have a ``seq``, are written in the transaction they tell of, and can be read again from any ``seq``.
Live ones (no ``seq``) are gone when they were shown.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

import msgspec

MessageKind = Literal[
    "kickoff", "said", "reply", "system", "status", "document", "proposal", "vote", "resolved", "approval",
    "due", "done", "failed",
]  # fmt: skip
MESSAGE_KINDS: Final[tuple[MessageKind, ...]] = get_args(MessageKind)

FACT_KINDS: Final[frozenset[MessageKind]] = frozenset({"approval", "due", "done", "failed"})
"""Kinds that proposals listen to and people do not read: a channel leaves them out."""

TEXT_LIMIT_BYTES: Final = 256 * 1024
"""Of one message in UTF-8: what is longer would not fit a worker's first line beside its prompt."""

TOO_LARGE_HINT: Final = "store the text with resource_create and send its id, or name a file with the text"

SYSTEM: Final = "system"
USER: Final = "user"
HOOK: Final = "hook:"
"""Before the name of a hook, as the sender of what came to it: no name of an agent or a person has a colon."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message as a reader sees it. ``seq`` orders the whole log; ``at`` is for display only."""

    seq: int
    kind: str
    """One of MESSAGE_KINDS, or what another version of this program wrote: to be shown, never to be choked on."""
    space: str
    sender: str = msgspec.field(name="from")
    to: tuple[str, ...] = ()
    text: str = ""
    at: str = ""
    hops: int = 0
    instruction: str | None = None
    """The instruction that said it, if an agent did."""
    cleared: bool = False
    """Its text was removed (``awk clear``): that it is empty says nothing."""


DURABLE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "message": "A message was appended; data is the message.",
        "instruction.queued": """An instruction was created or went back to its lane; data: status, lane, not_before; \
n, tries, cause, text where an attempt of it failed.""",
        "instruction.leased": "An attempt took it; data: attempt, epoch, n; node: where it runs, if that is not here.",
        "instruction.step": """An entry of it is durable; data: k, kind, step, name; tokens, cost_usd: of all of it \
until then; is_error, refused where it failed.""",
        "instruction.ended": "It reached a final state; data: status, class, cause, text, usage, attempts.",
        "attempt.started": "Its worker runs; data: attempt, pid, backend, model, max_steps.",
        "attempt.ended": "Its worker's tree is gone; data: attempt, outcome, exit, stderr (the tail, where it failed).",
        "approval.requested": "A tool is to be called only if somebody agrees; data: id, tool, expires_at.",
        "approval.decided": "Somebody did or did not, or nobody in time; data: id, tool, decision, by.",
        "approval.rule": "What is agreed to once for all was added or taken back; data: id, tool, state.",
        "proposal.opened": "Something is put to the vote; data: id, type, expires_at.",
        "proposal.ended": "It is over; data: id, state, winner.",
        "task.changed": "A task was planned or took a step; data: id, state; agent: whose step it was.",
        "quota.reached": "An instruction has used up what it may do of something; data: quota, limit. Told once.",
        "soul.changed": "A change of an agent's soul was suggested, decided or rolled back; data: id, state, version.",
        "memory.proposed": "Something for an agent's memory was proposed, taken or not; data: kind, state.",
        "agent.changed": "An agent was created, edited, deleted or changed state; data: state, reason.",
        "definition.broken": "A file is wrong now, what it said before stays; data: path, line, where, message.",
        "workflow.started": "A workflow runs; data: run, members.",
        "workflow.changed": "It was paused, resumed or continued, or a limit holds it; data: run, state, reason.",
        "workflow.stopped": "It was stopped; data: run, status, exit_code.",
        "schedule.untrusted": "A schedule does not run, for nobody agreed to it; data: home, wakeup, hint.",
        "wakeup.coalesced": "A schedule came while its last wakeup still waits, the first time; data: home.",
        "worktree.made": "An agent has a working tree of its own now; data: branch, path.",
        "worktree.moved": "Its branch has another last commit, by its agent's work; data: branch, commit, ahead.",
        "worktree.kept": "Its run has ended, and something in it would be lost; data: branch, path, why.",
        "worktree.removed": "Nothing in it would have been lost, and it is gone; data: branch, path.",
        "merge.requested": "The branches of a run's agents are to be merged; data: id, run, into.",
        "merge.ended": "They are merged, or it was refused; data: id, run, into, state, commit, why.",
        "worker.log": "A line a worker logged; data: level, text.",
        "webhook.failed": "A delivery failed, for the first time or the last; data: host, event, tries, why.",
        "webhook.disabled": "Its receiver answered 410 and is told nothing more; data: host, event, tries, why.",
        "node.changed": "A node was added or removed, is up, lost, off, or drained; data: node, state, why.",
        "space.changed": "A space below a run's was opened or closed, or has other members; data: state, members.",
        "webhook.retried": "A person has what it was not told delivered now; data: host.",
        "space.cleared": "Its words were removed; data: messages, instructions.",
        "kernel.started": (
            "This kernel took over; data: pid, version, requeued, safe_mode, term; died {pid, working}: where the one "
            "before was not asked to end, and what it was at; with service, how, at: where its service started it."
        ),
        "kernel.service_failed": (
            "A service of it failed and is started again; data: service, error, again_seconds (null: it ends)."
        ),
        "kernel.upgraded": (
            "Another version goes on in its place, and all its work; data: from, to, pid, attempts, waited_seconds."
        ),
        "kernel.upgrade_failed": "Another version was not up to it, and this one goes on; data: from, to, pid, reason.",
        "kernel.stopping": "It was asked to stop; data: by (request, SIGTERM, SIGINT, failure of SERVICE).",
    }
)
LIVE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "delta": "Text of a reply as it comes; data: instruction, text, lagged (pieces that were left out).",
        "progress": "What a worker is doing; data: instruction, what.",
        "lagged": "This reader was too slow; data: n events were left out. Read them again by seq.",
        "gap": "Events older than this are no longer kept; data: from, to.",
    }
)


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One event. ``at`` is RFC 3339 in UTC; ``seq`` is null on live events."""

    type: str
    at: str
    seq: int | None = None
    space: str | None = None
    agent: str | None = None
    instruction: str | None = None
    data: dict[str, Any] = {}
