"""Approvals: calls of tools that wait for a person, the decisions on them, and rules. Agents ask; people decide.

A program whose permission prompt is ``auth_request`` gets its answer in the words it understands, and its call is kept
waiting until somebody has decided; so is every call that does not say how long it waits.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Annotated, Any, Literal

import apsw
import msgspec
import trio

from kernel.operations.context import ProcessControl, ProjectFiles, StoreAccess, own_definition
from kernel.operations.operation import Actor, Forward, ToolFront, operation, page_of
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
"""After these there may be something to learn, of one's own instruction."""

LET_GO_SECONDS = 2.0
"""For the store to take that a call waits no more, whose client has gone."""
WORDS: Mapping[Outcome, str] = {
    "denied": "denied",
    "expired": "denied",
    "pending": "nobody has decided yet: ask again",
}
"""Of each outcome that is no yes, as a permission prompt is told of it."""
LONGEST_SECONDS = 2_592_000.0
"""As long as a request can be open."""
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Seconds = Annotated[
    float,
    msgspec.Meta(ge=0, le=LONGEST_SECONDS, description="How long to wait for the decision; unset: until it is there."),
]
Pattern = Annotated[
    str, msgspec.Meta(min_length=1, max_length=10_000, description="Also calls with this pattern; * is any text.")
]


class ApprovalRequest(Ask, frozen=True, kw_only=True):
    """One request for approval."""

    id: Annotated[str, msgspec.Meta(min_length=1, description="Id of the request, such as a3.")]


class DenyRequest(ApprovalRequest, frozen=True, kw_only=True):
    """POST /approvals/:id/deny. The agent is told the ``reason``."""

    reason: Annotated[str, msgspec.Meta(max_length=2000, description="The agent is told.")] = ""


class ApproveRequest(DenyRequest, frozen=True, kw_only=True):
    """POST /approvals/:id/approve. ``always``: and every call of the tool whose whole input has this pattern.

    Calls that wait already are granted with it. In a pattern ``*`` stands for any text. ``all_agents``: whichever agent
    makes it.
    """

    always: Pattern | None = None
    all_agents: bool = False


class DecideRequest(ApproveRequest, frozen=True, kw_only=True):
    """A decision about a call that waits for one."""

    decision: Literal["approve", "deny"]


class RuleRequest(Ask, frozen=True, kw_only=True):
    """One approval rule."""

    id: str


class AuthRequest(Ask, frozen=True, kw_only=True):
    """A call to approve. ``tool_name`` and ``tool_use_id`` are what a program's permission prompt sends."""

    input: Annotated[dict[str, Any], msgspec.Meta(description="The arguments it is to be called with, exactly.")]
    tool: Annotated[Name, msgspec.Meta(description="What is to be called.")] | None = None
    tool_name: Name | None = None
    tool_use_id: Name | None = None
    reason: Annotated[str, msgspec.Meta(max_length=2000, description="Why, for the person who decides.")] = ""
    wait_seconds: Seconds | None = None


class AuthRequestResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The decision on a request."""

    decision: Outcome
    id: str | None = None
    """Of the request, as ``awk pending`` lists it; none where nobody is asked."""
    reason: str = ""
    first: bool = False
    """Nobody has learned of it before: the call has not begun."""


class PromptAllow(msgspec.Struct, frozen=True, kw_only=True):
    """Yes, as a permission prompt understands it."""

    updated_input: dict[str, Any] = msgspec.field(name="updatedInput")
    behavior: Literal["allow"] = "allow"


class PromptDeny(msgspec.Struct, frozen=True, kw_only=True):
    """No, as a permission prompt understands it."""

    message: str
    behavior: Literal["deny"] = "deny"


def list_approvals(conn: apsw.Connection, asked: Forward) -> Pending:
    """List the calls of agents that wait for an approval."""
    return approvals.pending(conn, page_of(asked, "a"))


def show_approval(conn: apsw.Connection, asked: ApprovalRequest) -> ApprovalInfo:
    """Return one request for approval, with all of its input."""
    found = approvals.info(conn, asked.id)
    if found is None:
        raise Refused("not_found", f"there is no request {asked.id[:40]!r}", "awk pending lists them")
    return found


def approve(tx: Transaction, asked: ApproveRequest, actor: Actor) -> ApprovalInfo:
    """Allow a call that waits."""
    if asked.all_agents and actor.access.agents is not None:
        raise Refused("forbidden", "this token decides for some agents only, and this would be for all")
    _check_decides(tx, asked, actor)
    also = transitions.approve(tx, asked.id, reason=asked.reason, always=asked.always, everybody=asked.all_agents)
    return msgspec.structs.replace(show_approval(tx.conn, asked), also_granted=also)


def deny(tx: Transaction, asked: DenyRequest, actor: Actor) -> ApprovalInfo:
    """Deny a call that waits."""
    _check_decides(tx, asked, actor)
    transitions.deny(tx, asked.id, reason=asked.reason)
    return show_approval(tx.conn, asked)


def _check_decides(tx: Transaction, asked: ApprovalRequest, actor: Actor) -> None:
    found = approvals.info(tx.conn, asked.id)
    if found is not None and not actor.access.decides_for(found.agent):
        raise Refused("forbidden", f"this token does not decide for {found.agent}")


def decide(tx: Transaction, asked: DecideRequest, actor: Actor) -> ApprovalInfo:
    """Approve or deny a call that waits. Ask your user; do not decide by yourself."""
    if asked.decision == "approve":
        return approve(tx, asked, actor)
    if asked.always is not None:
        raise Refused("bad_request", "always is for an approval", "deny without it")
    return deny(tx, asked, actor)


def list_rules(conn: apsw.Connection, asked: Forward) -> ApprovalRules:
    """List the rules that were made by ``always``."""
    return approvals.rules(conn, page_of(asked, "r"))


def delete_rule(tx: Transaction, asked: RuleRequest) -> ApprovalRules:
    """Delete a rule. Returns those that are left."""
    transitions.drop_rule(tx, asked.id)
    return approvals.rules(tx.conn)


async def auth_request(
    asked: AuthRequest, actor: Actor, store: StoreAccess, files: ProjectFiles, processes: ProcessControl
) -> PromptAllow | PromptDeny | AuthRequestResult:
    """Ask the user to approve a call of a tool. You need not: you are asked about where it is needed.

    Returns the decision, at once where the policy has it. A repeat by the same key gives the state of that request.
    """
    tool = asked.tool or asked.tool_name
    if tool is None:
        raise Refused("bad_request", "say which tool is to be called", "give tool and input")
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
    # It is held before anybody can see it wait.
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
    """The request once it is decided, or after ``seconds``. Its instruction says meanwhile for what it waits."""
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
    """A permission prompt wants its own JSON as text, and nothing beside it."""
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
