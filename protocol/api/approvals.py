"""What waits for a person: requests of agents, the rules and grants that decide for them, and the list of needs."""

from typing import Annotated, Any, Final, Literal

import msgspec

from protocol.agent import Scope
from protocol.api.document import Body, Page


class ApprovalCall(Body, frozen=True, kw_only=True):
    """A call of a tool that needs an approval, and the request for it."""

    id: str
    agent: str
    space: str
    tool: str
    input: Any
    requested_at: str
    expires_at: str
    instruction_id: str


class ApprovalRow(ApprovalCall, frozen=True, kw_only=True):
    """A call of a tool that waits for somebody to agree. ``reason`` is the agent's; ``cut``: ``input`` is not all."""

    reason: str = ""
    cut: bool = False


class Pending(Page, frozen=True, kw_only=True):
    """``awk pending``: what waits for a decision, the oldest first. ``next`` goes into ``after``."""

    approvals: tuple[ApprovalRow, ...]
    schema: str = "awk/pending/1"


class ApprovalInfo(ApprovalCall, frozen=True, kw_only=True, tag_field="schema", tag="awk/approval/1"):
    """GET /approvals/:id: one request, with all of its input, and what became of it.

    ``also_granted``: in the answer to an approval once for all, the others that waited and are granted with it.
    """

    state: Literal["open", "granted", "denied", "expired"]
    reason: str = ""
    decided_at: str | None = None
    decided_by: str | None = None
    decision_reason: str = ""
    also_granted: tuple[str, ...] = ()


class ApprovalRuleRow(Body, frozen=True, kw_only=True):
    """An approval rule. ``agent`` null: it holds for whoever asks."""

    id: str
    agent: str | None
    tool: str
    pattern: str
    created_at: str


class ApprovalRules(Page, frozen=True, kw_only=True):
    """``awk pending --rules``: calls that are granted without asking, the oldest first.

    ``next`` goes into ``after``.
    """

    rules: tuple[ApprovalRuleRow, ...]
    schema: str = "awk/approval-rules/1"


GrantState = Literal["in force", "used", "expired", "revoked", "void"]
"""``used``: as often as it may be. ``void``: something that it derives from counts no more, or its run has ended."""
LONGEST_TEXT: Final = 64
MOST_USES: Final = 1_000_000

Until = Annotated[
    str, msgspec.Meta(min_length=1, max_length=LONGEST_TEXT, description="A duration (2h) or a time (RFC 3339).")
]
Uses = Annotated[int, msgspec.Meta(ge=1, le=MOST_USES, description="How many calls it is for; unset: any number.")]


class GrantRow(Body, frozen=True, kw_only=True):
    """One grant: who may use which scope, by whose leave, and what it comes to now."""

    id: str
    scope: Scope | None
    """None: it answered ``request``."""
    request: str | None
    to: str
    space: str
    by: str
    state: GrantState
    uses: int | None
    used: int
    """Times, those of what was handed on from it included."""
    until: str | None
    given_at: str
    parent: str | None
    """The grant that its giver has the same by."""
    warrant: str | None
    """The grant by which its giver may give anything."""
    revoked_at: str | None
    revoked_by: str | None


class GrantInfo(GrantRow, frozen=True, kw_only=True):
    """One grant by itself."""

    schema: str = "awk/grant/1"


class GrantList(Page, frozen=True, kw_only=True):
    """``awk grant list``, in the order in which they were given. ``next`` goes into ``after``."""

    grants: tuple[GrantRow, ...]
    schema: str = "awk/grants/1"


NeedKind = Literal[
    "project",
    "approval",
    "vote",
    "agent_error",
    "credentials",
    "quota",
    "limit",
    "answer",
    "node",
    "task",
    "trust",
    "webhook",
    "memory",
    "soul",
    "dead",
]


class NeedAction(Body, frozen=True, kw_only=True):
    """One way to settle a need. ``command`` runs as it stands."""

    label: str
    command: str


class Need(Body, frozen=True, kw_only=True):
    """One thing that goes on only once a person does something. ``text`` is for people, on one line.

    ``id`` is that of the request, the proposal, the task, the instruction or the run, of what an agent suggests, or the
    name of the agent or the file.
    ``blocks`` are the instructions that wait for it; a vote blocks its run, a task the tasks that wait for it.
    """

    kind: NeedKind
    id: str
    agent: str | None = None
    space: str | None = None
    run: str | None = None
    since: str | None = None
    """Null where nobody knows."""
    blocks: tuple[str, ...] = ()
    text: str
    actions: tuple[NeedAction, ...]
    project: str | None = None
    """The root of its project, with ``awk needs -A``, whose commands name it; else null."""


class NeedList(Page, frozen=True, kw_only=True):
    """``awk needs``: everything that needs a person, the most pressing kind first. ``next`` goes into ``after``."""

    items: tuple[Need, ...]
    schema: str = "awk/needs/1"
