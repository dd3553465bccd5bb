"""Drafts, facts and their payloads.

A draft is a message as someone wants it appended; a fact is a draft whose author and chain of causes are known, and
what a rule is asked about.
"""

from typing import Any, Literal

import msgspec

from kernel.policy.voting import ProposalOpened
from protocol.api.runs import RunOptions
from protocol.errors import Cause, ErrorClass
from protocol.instruction import Status
from protocol.message import MessageKind
from protocol.names import AgentKey, InstructionId

Origin = Literal["file", "inline", "ephemeral"]


class Author(msgspec.Struct, frozen=True):
    """The attempt that speaks. It is fenced: nothing is appended unless it still holds ``epoch``."""

    instruction: InstructionId
    epoch: int


class _Payload(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    pass


class MemberSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One member of a workflow: its ``name`` there and the agent behind it. ``definition`` is JSON."""

    name: str
    key: AgentKey
    origin: Origin
    definition: bytes | None = None
    runs_as: str | None = None
    """The backend that runs it here, where that is not what the agent's own file says; so too ``answer_ms``, 0 for no
    limit."""
    answer_ms: int | None = None
    needs: str | None = None
    """What the place must have where it works here, as JSON, where that is not what the agent's own file says."""


class RunSpec(_Payload, frozen=True, kw_only=True, tag="WorkflowStarted"):
    """A run that was checked. Payload of ``status``: its workflow starts, and the kickoff is said in the same commit.

    ``kickoff_mentions`` are those of the template: what interpolation brought in wakes nobody. ``wall_time_ms`` is
    what ``deadline_ms`` was made of, where the workflow may be continued after it.
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
    """Members that are given the kickoff whatever it mentions."""
    workspace: Literal["kept", "memory", "none"] = "kept"
    mirror: str | None = None
    """The folder that what is said is written to, as seen from the project's root."""
    bound: bool = False
    """The messages are kept for the runs that come, until somebody clears them."""


class InstructionOutcome(_Payload, frozen=True, kw_only=True, tag="Outcome"):
    """Of ``done`` and ``failed``: how an instruction ended. ``text`` is the agent's."""

    instruction: InstructionId
    status: Status
    text: str = ""
    cause: Cause | None = None
    error_class: ErrorClass | None = None


class WakeupDue(_Payload, frozen=True, kw_only=True):
    """Of ``due``: the schedule of ``agent`` came; its words are the message's text.

    ``workspace`` is where it would rather be than in the message's space: ``review`` or ``review:tag``.
    """

    agent: AgentKey
    workspace: str | None = None


class GuardAsked(_Payload, frozen=True, kw_only=True):
    """Of ``due``: a question to the guard ``agent``: of a run that has ended; or ``waited_for`` by an agent's call."""

    agent: AgentKey
    waited_for: bool = False


class Wakes(_Payload, frozen=True, kw_only=True):
    """Of ``due``, ``proposal`` and ``resolved``: ``agent``, called ``name`` here, is woken as by a mention."""

    agent: AgentKey
    name: str


class ProposalEnded(_Payload, frozen=True, kw_only=True, tag="BallotEnded"):
    """Of ``resolved``: the result. ``wakes``: its creator, which has not seen it come."""

    name: str
    winner: str | None
    wakes: Wakes | None


class RuleInvoked(_Payload, frozen=True, kw_only=True):
    """Of ``status``: the fact's sender invokes the rule ``name`` with ``params``, which fit it."""

    name: str
    params: dict[str, Any] = {}


class TaskGiven(_Payload, frozen=True, kw_only=True):
    """Of ``said``: it gives out the ready task of this row as work."""

    task: int


class RuleChain(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a message that ``rule`` made, among those that rules make of one message (kernel.policy.rules).

    ``speaker`` is the agent that defined the rule; None: a person, or a file.
    """

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
    """A message to append.

    ``to`` names who is addressed directly. ``mentions`` None means: those in the text. ``author`` is set when
    an agent speaks; ``vouched`` is what the user trusts the work to do (kernel.agents.trust); ``asks``: the author
    wants an answer before it goes on (with an author, and one addressee);
    ``hops`` None means: one more than what the author was woken by, or 0.
    """

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
    """Set where a rule of the workspace made it, or made what it follows from."""


class Fact(msgspec.Struct, frozen=True):
    """A message under evaluation: its draft, whose author and chain of causes are known.

    ``cause`` is the instruction it comes from, ``speaker`` the agent behind that, ``hops`` its place in the chain,
    ``at_ms`` the kernel's time.
    """

    draft: Draft
    hops: int = 0
    cause: int | None = None
    speaker: AgentKey | None = None
    at_ms: int = 0
