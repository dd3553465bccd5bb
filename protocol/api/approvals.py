"""Requests of agents that a person decides, and the rules that decide for them."""

from typing import Any, Literal

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
