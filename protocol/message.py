"""Messages, the immutable facts in the log, and events, which report changes to clients (contracts.md section 4).

Durable events have a ``seq``, are written in the transaction of the change, and can be read again from any ``seq``.
Live events (without ``seq``) are not stored.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

import msgspec

MessageKind = Literal[
    "kickoff", "said", "reply", "system", "status", "document", "proposal", "vote", "resolved", "approval",
    "due", "done", "failed", "grant",
]  # fmt: skip
MESSAGE_KINDS: Final[tuple[MessageKind, ...]] = get_args(MessageKind)

FACT_KINDS: Final[frozenset[MessageKind]] = frozenset({"approval", "due", "done", "failed"})
"""Kinds of messages for rules only; channels omit these messages."""

TEXT_LIMIT_BYTES: Final = 256 * 1024
"""Maximum size in UTF-8 of a document, a schedule's prompt and a person's answer."""
RESOURCE_LIMIT_BYTES: Final = 2 * 1024 * 1024
"""Maximum size of a resource and of a message, whose long text becomes a resource (decision 4.13)."""

TOO_LARGE_HINT: Final = "split the text, or send the name of a file that contains it"

SYSTEM: Final = "system"
USER: Final = "user"
HOOK: Final = "hook:"
"""Prefix of the sender of a hook's messages; the hook's name follows. Names of agents and people contain no colon."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """Message for readers. ``seq`` orders the whole log; ``at`` is for display only."""

    seq: int
    kind: str
    """Kind from MESSAGE_KINDS, or an unknown kind from another version of this program, which readers display."""
    space: str
    sender: str = msgspec.field(name="from")
    to: tuple[str, ...] = ()
    text: str = ""
    at: str = ""
    hops: int = 0
    instruction: str | None = None
    """Instruction in which an agent wrote the message, if any."""
    cleared: bool = False
    """Whether ``awk clear`` deleted the text."""


DURABLE: Final[Mapping[str, str]] = {
    "message": "A message was appended to the log; data: the fields of the message.",
    "instruction.queued": (
        "An instruction was created or returned to its lane; data: status, lane, not_before; after a failed "
        "attempt also n, tries, cause, text."
    ),
    "instruction.leased": "An attempt leased an instruction; data: attempt, epoch, n; on a node also node.",
    "instruction.step": (
        "An entry of an instruction was committed; data: k, kind, step, name, tokens and cost_usd of the "
        "instruction so far; after a failure also is_error, refused."
    ),
    "instruction.ended": "An instruction reached a final state; data: status, class, cause, text, usage, attempts.",
    "attempt.started": "The worker of an attempt started; data: attempt, pid, backend, model, max_steps.",
    "attempt.ended": (
        "All processes of an attempt have exited; data: attempt, outcome, exit, stderr (its end, after a failure)."
    ),
    "approval.requested": "A tool call needs an approval; data: id, tool, expires_at.",
    "approval.decided": "An approval was granted, denied, or expired; data: id, tool, decision, by.",
    "approval.rule": "A permanent approval was added or revoked; data: id, tool, state.",
    "proposal.opened": "A proposal was opened for votes; data: id, type, expires_at.",
    "proposal.ended": "A proposal was resolved, cancelled, or expired; data: id, state, winner.",
    "task.changed": "A task was planned or changed state; data: id, state, agent (the author of the change).",
    "model.fallback": (
        "An instruction continues with another model of its agent's list; data: from, to, cause (quota, "
        "rate_limit, model, unavailable), until (the reset that the provider named, or null)."
    ),
    "quota.reached": "An instruction reached a quota, reported once; data: quota, limit.",
    "soul.changed": "A change of an agent's soul was suggested, decided or rolled back; data: id, state, version.",
    "memory.proposed": "A memory entry was proposed for an agent, accepted or rejected; data: kind, state.",
    "agent.changed": "An agent was created, edited, deleted or changed state; data: state, reason.",
    "definition.broken": (
        "A file became invalid and its last valid version remains in force; data: path, line, where, message."
    ),
    "workflow.started": "A workflow started; data: run, members.",
    "workflow.changed": (
        "A workflow was paused, resumed, continued, held by a limit or planned by a rule; data: run, state, reason."
    ),
    "workflow.stopped": "A workflow stopped; data: run, status, exit_code.",
    "schedule.untrusted": "A schedule does not run because its file is not trusted; data: home, wakeup, hint.",
    "wakeup.coalesced": "A schedule fired while its previous wakeup was still waiting, reported once; data: home.",
    "worktree.made": "A working tree was created for an agent; data: branch, path.",
    "worktree.moved": "Work of an agent moved its branch to another commit; data: branch, commit, ahead.",
    "worktree.kept": "A run ended and a working tree with unmerged work was retained; data: branch, path, why.",
    "worktree.removed": "A working tree without unmerged work was deleted; data: branch, path.",
    "merge.requested": "A merge of the branches of a run was requested; data: id, run, into.",
    "merge.ended": "A merge succeeded or was refused; data: id, run, into, state, commit, why.",
    "worker.log": "A worker logged a line; data: level, text.",
    "webhook.failed": "A delivery failed for the first or the last time; data: host, event, tries, why.",
    "webhook.disabled": "A receiver answered 410 and gets no further deliveries; data: host, event, tries, why.",
    "node.changed": "A node was added, removed, connected, lost, switched off or drained; data: node, state, why.",
    "space.changed": "A private space was opened or closed, or its members changed; data: state, members.",
    "webhook.retried": "A person retried the failed deliveries of a webhook; data: host.",
    "space.cleared": "The texts of a space were deleted; data: messages, instructions.",
    "kernel.started": (
        "A kernel process started; data: pid, version, requeued, safe_mode, term; after a crash of the "
        "previous kernel also died {pid, working}; as a service also service, how, at."
    ),
    "kernel.service_failed": (
        "A service inside the kernel failed and restarts; data: service, error, again_seconds (null: the kernel stops)."
    ),
    "kernel.upgraded": (
        "A new kernel version replaced this one and continues all work; data: from, to, pid, attempts, waited_seconds."
    ),
    "kernel.upgrade_failed": (
        "A new kernel version failed to start and this version continues; data: from, to, pid, reason."
    ),
    "kernel.stopping": "The kernel was asked to stop; data: by (request, SIGTERM, SIGINT, failure of SERVICE).",
}
LIVE: Final[Mapping[str, str]] = {
    "delta": "Text of a reply while the model writes; data: instruction, text, lagged (number of omitted pieces).",
    "progress": "The current activity of a worker; data: instruction, what.",
    "lagged": "This reader was too slow; read the missed events again by seq; data: n (number of omitted events).",
    "gap": "Older events were deleted; data: from, to.",
}


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Event. ``at`` is RFC 3339 in UTC; ``seq`` is null for live events."""

    type: str
    at: str
    seq: int | None = None
    space: str | None = None
    agent: str | None = None
    instruction: str | None = None
    data: dict[str, Any] = {}
