"""Requests, rules and grants for approval, and the list of needs."""

from typing import Annotated, Any, Final, Literal

import msgspec

from protocol.agent import Scope
from protocol.api.document import Body, Page


class ApprovalCall(Body, frozen=True, kw_only=True):
    """Tool call that needs an approval, and the request for it."""

    id: str
    agent: str
    space: str
    tool: str
    input: Any
    requested_at: str
    expires_at: str
    instruction_id: str


class ApprovalRow(ApprovalCall, frozen=True, kw_only=True):
    """Tool call that waits for approval. ``reason`` comes from the agent; ``cut``: ``input`` is truncated."""

    reason: str = ""
    cut: bool = False


class Pending(Page, frozen=True, kw_only=True):
    """``awk needs``: open approval requests, the oldest first. Pass ``next`` as ``after``."""

    approvals: tuple[ApprovalRow, ...]
    schema: str = "awk/pending/1"


class ApprovalInfo(ApprovalCall, frozen=True, kw_only=True, tag_field="schema", tag="awk/approval/1"):
    """GET /approvals/:id: one request with its complete input and its decision.

    ``also_granted``: other waiting requests that an approval with ``always`` granted too.
    """

    state: Literal["open", "granted", "denied", "expired"]
    reason: str = ""
    decided_at: str | None = None
    decided_by: str | None = None
    decision_reason: str = ""
    also_granted: tuple[str, ...] = ()


class ApprovalRuleRow(Body, frozen=True, kw_only=True):
    """Approval rule. ``agent`` null: the rule applies to all agents."""

    id: str
    agent: str | None
    tool: str
    pattern: str
    created_at: str


class ApprovalRules(Page, frozen=True, kw_only=True):
    """``awk needs --rules``: calls that are granted without a request, the oldest first. Pass ``next`` as ``after``."""

    rules: tuple[ApprovalRuleRow, ...]
    schema: str = "awk/approval-rules/1"


GrantState = Literal["in force", "used", "expired", "revoked", "void"]
"""``used``: all uses are spent. ``void``: the run of the grant has ended, or the grant from
which it was derived is no longer valid."""
LONGEST_TEXT: Final = 64
MOST_USES: Final = 1_000_000

Until = Annotated[
    str, msgspec.Meta(min_length=1, max_length=LONGEST_TEXT, description="Duration (2h) or time (RFC 3339).")
]
Uses = Annotated[
    int, msgspec.Meta(ge=1, le=MOST_USES, description="Number of calls that the grant allows. Unset: unlimited.")
]


class GrantRow(Body, frozen=True, kw_only=True):
    """Grant: its scope, receiver, giver and current state."""

    id: str
    scope: Scope | None
    """Granted scope. None: the grant approved the tool call of ``request``."""
    request: str | None
    to: str
    space: str
    by: str
    state: GrantState
    uses: int | None
    used: int
    """Number of uses, including uses of grants derived from it."""
    until: str | None
    given_at: str
    parent: str | None
    """Id of the grant that gave the scope to ``by``."""
    warrant: str | None
    """Id of the grant that allows ``by`` to give grants."""
    revoked_at: str | None
    revoked_by: str | None


class GrantInfo(GrantRow, frozen=True, kw_only=True):
    """Grant as a top-level JSON document, with the ``schema`` tag."""

    schema: str = "awk/grant/1"


class GrantList(Page, frozen=True, kw_only=True):
    """``awk grant list``, in order of creation. Pass ``next`` as ``after``."""

    grants: tuple[GrantRow, ...]
    schema: str = "awk/grants/1"


NeedKind = Literal[
    "project", "approval", "vote", "agent_error", "silent", "credentials", "quota", "limit", "answer", "node", "task",
    "trust", "webhook", "memory", "soul", "dead",
]  # fmt: skip


class NeedAction(Body, frozen=True, kw_only=True):
    """Action that settles a need. ``command`` can be run unchanged."""

    label: str
    command: str


class Need(Body, frozen=True, kw_only=True):
    """Work that is blocked until a person acts. ``text`` is one line for people.

    ``id`` is the id of the request, proposal, task, instruction, run or suggestion, or the name of the agent or file.
    ``blocks`` are the instructions that wait until the person acts; a vote blocks its run, a task its dependents."""

    kind: NeedKind
    id: str
    agent: str | None = None
    space: str | None = None
    run: str | None = None
    since: str | None = None
    """Time at which the need arose. Null if unknown."""
    blocks: tuple[str, ...] = ()
    text: str
    actions: tuple[NeedAction, ...]
    project: str | None = None
    """Root of the project in ``awk needs -A``, where each command names its project. Otherwise null."""


class NeedList(Page, frozen=True, kw_only=True):
    """``awk needs``: work that is blocked until a person acts, the most urgent kind first. Pass ``next`` as
    ``after``."""

    items: tuple[Need, ...]
    schema: str = "awk/needs/1"
