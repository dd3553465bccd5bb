"""Approvals: tool calls that wait for a person, decisions, and rules. Agents ask; people decide.

A program whose permission prompt is ``auth_request`` receives the answer in its own format. Its call blocks until the
decision, as does every call without ``wait_seconds``.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Annotated, Any, Literal

import apsw
import msgspec
import trio

from kernel.operations.context import ProcessControl, ProjectFiles, StoreAccess, own_definition
from kernel.operations.operation import Actor, Forward, OfId, ToolFront, operation, page_of
from kernel.policy.tools import AT_ONCE
from kernel.rule.draft import Author
from kernel.store import approvals
from kernel.store.attempts import Identity
from kernel.store.rows import LONGEST
from kernel.store.transaction import Transaction
from kernel.store.transitions import approvals as transitions
from protocol.api.approvals import ApprovalInfo, ApprovalRules, Pending
from protocol.api.document import Ask
from protocol.errors import Refused
from protocol.message import Event
from protocol.tools import AUTH_REQUEST, current_name

_canonical = msgspec.json.Encoder(order="sorted").encode
_encode = msgspec.json.Encoder().encode

Outcome = Literal["granted", "denied", "expired", "pending"]

_TURNS = frozenset({"approval.decided", "attempt.ended", "instruction.ended"})
"""Events of an instruction after which a decision may be available."""

LET_GO_SECONDS = 2.0
"""Seconds for the store to record that a disconnected client no longer waits."""
WORDS: Mapping[Outcome, str] = {"denied": "denied", "expired": "denied", "pending": "no decision yet: ask again"}
"""Texts for permission prompts, by outcome other than granted."""
LONGEST_SECONDS = 2_592_000.0
"""Longest time for which a request can be open."""
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Seconds = Annotated[
    float,
    msgspec.Meta(
        ge=0, le=LONGEST_SECONDS, description="Seconds to wait for the decision. Unset: wait until it is made."
    ),
]
Pattern = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=10_000,
        description="Also approve later calls of this tool by this agent whose complete input matches the pattern. "
        "* matches any text.",
    ),
]


class ApprovalRequest(Ask, frozen=True, kw_only=True):
    """Request that names an approval."""

    id: Annotated[str, msgspec.Meta(min_length=1, description="Id of the request, such as a3.")]


class DenyRequest(ApprovalRequest, frozen=True, kw_only=True):
    """POST /approvals/:id/deny. The agent receives the ``reason``."""

    reason: Annotated[str, msgspec.Meta(max_length=2000, description="Reason for the agent.")] = ""


class ApproveRequest(DenyRequest, frozen=True, kw_only=True):
    """POST /approvals/:id/approve. ``always``: a pattern; also grants each call of the tool whose
    complete input matches it, including waiting calls.

    In a pattern, ``*`` matches any text. ``all_agents``: the pattern is for calls of all agents.
    """

    always: Pattern | None = None
    all_agents: bool = False


class DecideRequest(ApproveRequest, frozen=True, kw_only=True):
    """Decision on a waiting call."""

    decision: Literal["approve", "deny"]


class AuthRequest(Ask, frozen=True, kw_only=True):
    """Tool call to approve. Permission prompts send ``tool_name`` and ``tool_use_id``."""

    input: Annotated[dict[str, Any], msgspec.Meta(description="Exact arguments of the call.")]
    tool: (
        Annotated[Name, msgspec.Meta(description="Name of the tool to call: required here or as tool_name.")] | None
    ) = None
    tool_name: Annotated[Name, msgspec.Meta(description="Same as tool, sent by permission prompts.")] | None = None
    tool_use_id: Annotated[Name, msgspec.Meta(description="Id of the call, if it has one.")] | None = None
    reason: Annotated[str, msgspec.Meta(max_length=2000, description="Reason for the person who decides.")] = ""
    wait_seconds: Seconds | None = None


class AuthRequestResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Decision on a request."""

    decision: Outcome
    id: str | None = None
    """Id of the request, as in ``awk needs``. Unset if no person was asked."""
    reason: str = ""
    first: bool = False
    """True if no earlier answer reported this decision, so the tool call has not started."""


class PromptAllow(msgspec.Struct, frozen=True, kw_only=True):
    """Approval in the format of a permission prompt."""

    updated_input: dict[str, Any] = msgspec.field(name="updatedInput")
    behavior: Literal["allow"] = "allow"


class PromptDeny(msgspec.Struct, frozen=True, kw_only=True):
    """Denial in the format of a permission prompt."""

    message: str
    behavior: Literal["deny"] = "deny"


def list_approvals(conn: apsw.Connection, asked: Forward) -> Pending:
    """List the tool calls of agents that wait for approval, the oldest first."""
    return approvals.pending(conn, page_of(asked, "a"))


def show_approval(conn: apsw.Connection, asked: ApprovalRequest) -> ApprovalInfo:
    """Return one approval request with its complete input."""
    found = approvals.info(conn, asked.id)
    if found is None:
        raise Refused(
            "not_found", f"approval request {asked.id[:40]!r} not found", "list the open requests with `awk needs`"
        )
    return found


def approve(tx: Transaction, asked: ApproveRequest, actor: Actor) -> ApprovalInfo:
    """Approve a waiting tool call. The agent continues with it."""
    if asked.all_agents and actor.access.agents is not None:
        raise Refused("forbidden", "this token decides approvals of some agents only, so all_agents cannot be used")
    _check_decides(tx, asked, actor)
    also = transitions.approve(tx, asked.id, reason=asked.reason, always=asked.always, everybody=asked.all_agents)
    return msgspec.structs.replace(show_approval(tx.conn, asked), also_granted=also)


def deny(tx: Transaction, asked: DenyRequest, actor: Actor) -> ApprovalInfo:
    """Deny a waiting tool call. The agent receives the reason."""
    _check_decides(tx, asked, actor)
    transitions.deny(tx, asked.id, reason=asked.reason)
    return show_approval(tx.conn, asked)


def _check_decides(tx: Transaction, asked: ApprovalRequest, actor: Actor) -> None:
    found = approvals.info(tx.conn, asked.id)
    if found is not None and not actor.access.decides_for(found.agent):
        raise Refused("forbidden", f"this token cannot decide approvals of agent {found.agent}")


def decide(tx: Transaction, asked: DecideRequest, actor: Actor) -> ApprovalInfo:
    """Approve or deny a tool call that waits for approval. Ask your user first and never decide alone. Fails if the
    request was decided or has expired."""
    if asked.decision == "approve":
        return approve(tx, asked, actor)
    if asked.always is not None:
        raise Refused("bad_request", "always is valid only with an approval", "deny without always")
    return deny(tx, asked, actor)


def list_rules(conn: apsw.Connection, asked: Forward) -> ApprovalRules:
    """List the approval rules that ``always`` created."""
    return approvals.rules(conn, page_of(asked, "r"))


def delete_rule(tx: Transaction, asked: OfId) -> ApprovalRules:
    """Delete an approval rule. Returns the remaining rules."""
    transitions.drop_rule(tx, asked.id)
    return approvals.rules(tx.conn)


async def auth_request(
    asked: AuthRequest, actor: Actor, store: StoreAccess, files: ProjectFiles, processes: ProcessControl
) -> PromptAllow | PromptDeny | AuthRequestResult:
    """Ask the user to approve a tool call in advance. Usually not needed: the kernel asks when a call requires
    approval. Returns granted, denied, expired, or pending if the wait ends before the decision.

    Decides immediately if the approval policy does. A repeated call with the same key returns the state of the request.
    """
    tool = asked.tool or asked.tool_name
    if tool is None:
        raise Refused("bad_request", "tool is missing", "give tool and input")
    identity, author = actor.agent, actor.author
    assert author is not None, "this is a tool of agents"
    definition = own_definition(identity, store, files)
    policy = store.reader.now(approvals.of_run, identity.instruction) or definition.approval
    at_once = AT_ONCE.get(policy)
    try:
        given = _canonical(asked.input)
    except UnicodeEncodeError as error:
        raise Refused("bad_request", "the input is not Unicode text") from error
    wait = asked.wait_seconds
    call = approvals.GatedCall(
        key=asked.tool_use_id or actor.call_key,
        tool=current_name(tool),
        input=given,
        why=asked.reason,
        held=wait is None or wait > 0,
    )
    if at_once is not None:
        if at_once == "granted":
            await store.writer.commit(transitions.mark_begun, author, call)
        return _shown(asked, AuthRequestResult(decision=at_once, reason=f"approval: {policy}"))
    expires_ms = store.now_ms() + round(definition.timeouts.approval * 1000)
    # Suspend the attempt's idle timeout before others can see the request.
    with processes.attempts.hold(identity.instruction) if call.held else nullcontext():
        request = await store.writer.commit(transitions.ask, author, call, expires_ms)
        if request.state == "open" and call.held:
            request = await _decision(store, identity, author, request, wait)
    decision: Outcome = "pending" if request.state == "open" else request.state
    result = AuthRequestResult(decision=decision, id=request.id, reason=request.reason, first=request.first)
    return _shown(asked, result)


async def _decision(
    store: StoreAccess, identity: Identity, author: Author, asked: transitions.Requested, seconds: float | None
) -> transitions.Requested:
    """Wait for a decision, at most ``seconds`` (None: no limit). Return the request's state."""
    instruction = identity.instruction

    def wanted(event: Event) -> bool:
        return (event.instruction == instruction and event.type in _TURNS) or event.type == "lagged"

    try:
        with store.feed.subscribe(wanted=wanted) as events:
            with trio.move_on_after(float("inf") if seconds is None else seconds):
                while asked.state == "open":
                    asked = await store.writer.commit(transitions.find_decision, author, asked.number)
                    if asked.state == "open":
                        await anext(events)
        return asked
    finally:
        if asked.state == "open":
            with trio.move_on_after(LET_GO_SECONDS, shield=True):
                await store.writer.commit(transitions.release_call, author, asked.number)


def _shown(asked: AuthRequest, decided: AuthRequestResult) -> AuthRequestResult | PromptAllow | PromptDeny:
    if asked.tool_use_id is None and asked.tool_name is None:
        return decided
    if decided.decision == "granted":
        return PromptAllow(updated_input=asked.input)
    why = f": {decided.reason}" if decided.reason else ""
    return PromptDeny(message=f"{WORDS[decided.decision]}{why}")


def words(given: AuthRequestResult | PromptAllow | PromptDeny) -> bytes | None:
    """Return JSON text for a permission prompt, which expects only this. None: other results."""
    return None if isinstance(given, AuthRequestResult) else _encode(given)


_DECIDES: Mapping[str, Any] = {"scope": "approve", "people_only": True, "of_agent": True}
OPERATIONS = (
    operation(list_approvals, "GET /approvals", manage=ToolFront("approval_list", limits=(100, LONGEST))),
    operation(list_rules, "GET /approvals/rules"),
    operation(delete_rule, "DELETE /approvals/rules/<id>", scope="approve"),
    operation(show_approval, "GET /approvals/<id>"),
    operation(approve, "POST /approvals/<id>/approve", **_DECIDES),
    operation(deny, "POST /approvals/<id>/deny", **_DECIDES),
    operation(decide, manage=ToolFront("approval_decide", without=("all_agents",)), **_DECIDES),
    operation(auth_request, changes=True, team=ToolFront(AUTH_REQUEST, waits=True, words=words)),
)
