"""Drafts, facts and their payloads.

A draft is a message to append. A fact is a draft whose author and chain of causes are known. Rules evaluate facts."""

from typing import Any, Literal

import msgspec

from kernel.policy.voting import ProposalOpened
from protocol.api.runs import RunOptions
from protocol.errors import Cause, ErrorClass
from protocol.instruction import Status
from protocol.message import SYSTEM, MessageKind
from protocol.names import AgentKey, InstructionId
from protocol.text import one_line

Origin = Literal["file", "inline", "ephemeral"]


class Author(msgspec.Struct, frozen=True):
    """Attempt that sends a message; the append fails unless the attempt still holds ``epoch`` (fencing).

    ``call`` is the idempotency key of its call, if the call has one.
    """

    instruction: InstructionId
    epoch: int
    call: str | None = None


class _Payload(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    pass


class MemberSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Member of a workflow: its ``name`` in the workflow, and the key of its agent; ``definition`` is JSON."""

    name: str
    key: AgentKey
    origin: Origin
    definition: bytes | None = None
    runs_as: str | None = None
    """Backend in this workflow, if it differs from the agent's file. The same applies to
    ``answer_ms`` (0: no limit)."""
    answer_ms: int | None = None
    needs: str | None = None
    """Requirements for the machine in this workflow, as JSON, if they differ from the agent's file."""


class RunSpec(_Payload, frozen=True, kw_only=True, tag="WorkflowStarted"):
    """Validated run; payload of ``status``: starts the workflow, and appends the kickoff in the same commit.

    ``kickoff_mentions`` come from the template only: interpolated text wakes no agent. ``wall_time_ms`` is the duration
    up to ``deadline_ms``; set if the workflow may be continued after that time.
    """

    name: str
    tag: str
    mode: Literal["start", "run"]
    file: str
    definition: bytes
    members: tuple[MemberSpec, ...]
    options: RunOptions = RunOptions()
    params: dict[str, object] = {}
    deadline_ms: int | None = None
    wall_time_ms: int | None = None
    vouched: tuple[str, ...] = ()
    kickoff: str | None = None
    kickoff_mentions: tuple[str, ...] | None = None
    kickoff_to: tuple[str, ...] = ()
    """Members that receive the kickoff regardless of its mentions."""
    workspace: Literal["kept", "memory", "none"] = "kept"
    mirror: str | None = None
    """Folder to which messages are also written, relative to the project's root."""
    bound: bool = False
    """Whether messages are kept for later runs until a person clears them."""
    is_open: bool = False
    """Whether all agents of the project can be mentioned."""
    kickoff_by: str = SYSTEM
    """Sender of the kickoff: the rule, or the hook, that started the run."""


class InstructionOutcome(_Payload, frozen=True, kw_only=True, tag="Outcome"):
    """Payload of ``done`` and ``failed``: the end of an instruction; ``text`` is the agent's final answer."""

    instruction: InstructionId
    status: Status
    text: str = ""
    cause: Cause | None = None
    error_class: ErrorClass | None = None


class WakeupDue(_Payload, frozen=True, kw_only=True):
    """Payload of ``due``: the schedule of ``agent`` is due. The message has the schedule's prompt as its text.

    The agent wakes in ``workspace`` (``review`` or ``review:tag``) if that is running, else in the message's space."""

    agent: AgentKey
    workspace: str | None = None


class GuardAsked(_Payload, frozen=True, kw_only=True):
    """Payload of ``due``: a question to the guard ``agent``. ``waited_for``: an agent's call waits for the answer."""

    agent: AgentKey
    waited_for: bool = False


class Wakes(_Payload, frozen=True, kw_only=True):
    """Payload of ``due``, ``proposal`` and ``resolved``: wakes ``agent``, a member called
    ``name``, as a mention does."""

    agent: AgentKey
    name: str


class ProposalEnded(_Payload, frozen=True, kw_only=True, tag="BallotEnded"):
    """Payload of ``resolved``: the result of a proposal. ``wakes``: its creator, unless the
    creator knows the result."""

    name: str
    winner: str | None
    wakes: Wakes | None


class RuleInvoked(_Payload, frozen=True, kw_only=True):
    """Payload of ``status``: the sender invokes the rule ``name`` with valid ``params``."""

    name: str
    params: dict[str, Any] = {}


class TaskGiven(_Payload, frozen=True, kw_only=True):
    """Payload of ``said``: assigns the ready task in row ``task``."""

    task: int


class RuleChain(msgspec.Struct, frozen=True, kw_only=True):
    """Position of a rule's message in the chain of messages that rules create from one message
    (kernel.policy.rules). ``speaker`` is the agent that defined the rule; None: a person or a file."""

    rule: str
    depth: int
    fuel: int
    speaker: AgentKey | None = None


Payload = (
    RunSpec
    | InstructionOutcome
    | WakeupDue
    | GuardAsked
    | Wakes
    | ProposalOpened
    | ProposalEnded
    | RuleInvoked
    | TaskGiven
)


class Draft(msgspec.Struct, frozen=True):
    """Message to append.

    ``to``: direct addressees. ``mentions``: None for the names that the text mentions. ``author``: set if an agent
    sends the message. ``vouched``: demands that the user trusts for this work (kernel.agents.trust). ``asks``: the
    author waits for an answer (requires an author and one addressee). ``hops``: None for one hop more than the
    message that woke the author, or 0 without such a message."""

    kind: MessageKind
    space: str
    sender: str
    text: str = ""
    to: tuple[str, ...] = ()
    mentions: tuple[str, ...] | None = None
    author: Author | None = None
    vouched: tuple[str, ...] = ()
    hops: int | None = None
    payload: Payload | None = None
    asks: bool = False
    chain: RuleChain | None = None
    """Set if a workspace rule created the message or one of its causes."""


def not_done(space: str, rule: str, why: str, hops: int | None = None) -> Draft:
    """Return the note that an action of ``rule`` was not possible."""
    text = f"[RULE:{rule}] not done: {one_line(why)}"
    return Draft(kind="system", space=space, sender=SYSTEM, text=text, hops=hops)


class Fact(msgspec.Struct, frozen=True):
    """Message under evaluation: a draft with a known author and chain of causes.

    ``cause`` is the instruction that sent the message, ``speaker`` the agent of that instruction,
    ``hops`` the message's position in the chain of causes, ``at_ms`` the kernel's time.
    """

    draft: Draft
    hops: int = 0
    cause: int | None = None
    speaker: AgentKey | None = None
    at_ms: int = 0
