"""Items that wait for a person, as read from the store; kernel.policy.needs derives the needs from them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from kernel.policy.agent_status import Kind, Waiting
from kernel.policy.voting import Ballot
from protocol.api.approvals import NeedAction, NeedKind
from protocol.instruction import Status
from protocol.limits import PlaceNeeds
from protocol.names import instruction_id, run_id, split_space
from protocol.target import Target
from protocol.tasks import TaskInfo


class OpenItem(msgspec.Struct, frozen=True, kw_only=True):
    """Item of the agent ``name`` that a person has to settle."""

    id: str
    name: str
    space: str | None
    run: int | None
    since: str


class Request(OpenItem, frozen=True, kw_only=True):
    """Open request for approval; ``input``: start of the arguments of the call, as JSON."""

    instruction: int
    tool: str
    input: str = ""


class PersonQuestion(OpenItem, frozen=True, kw_only=True):
    """Instruction that waits for the person ``name``; ``asked``: start of the question."""

    asked: str


class Elector(msgspec.Struct, frozen=True, kw_only=True):
    """Member that may vote.

    ``held``: its agent receives no work until a person acts. ``work``: readiness of its open instructions in the
    workspace.
    """

    held: bool
    work: frozenset[Kind] = frozenset()


class PendingProposal(msgspec.Struct, frozen=True, kw_only=True):
    """Open proposal with its votes; ``working``: other work in the workspace can continue and may wake a member."""

    ballot: Ballot
    space: str
    since: str
    electors: Mapping[str, Elector] = {}
    """Electors and creator by name, if they are members; empty for a proposal without effect."""
    working: bool = False


class ErrorAgent(msgspec.Struct, frozen=True, kw_only=True):
    """Agent in state error; ``space`` is set if it is defined inside a workflow."""

    name: str
    space: str | None
    reason: str | None
    since: str | None
    blocks: tuple[int, ...] = ()


class BlockedWork(Waiting, frozen=True, kw_only=True):
    """Instructions of one agent and space with the same readiness, with the columns of kernel.policy.agent_status.

    Each time is 0 if unknown; other values of a time have no meaning.
    """

    agent: str
    name: str
    space: str
    home: str | None
    """Space of an inline agent."""
    run: int | None
    limited_by: str | None
    """Limit of its run, while the run is active."""
    resume_at_ms: int = 0
    """Time at which the wait ends."""
    wait_key: str | None
    hold_key: str | None
    asks: bool
    """The instruction waits for another one that has not ended."""
    since: str
    blocks: tuple[int, ...]
    missing: str | None = None
    """Missing credentials, as reported by the lookup."""
    needs: PlaceNeeds | None = None
    """Requirements for the machine."""


class SilentStep(OpenItem, frozen=True, kw_only=True):
    """Running instruction without output since ``since``, for longer than ``timeouts.quiet``; ``doing`` is its step."""

    doing: str
    target: str


class LimitedRun(msgspec.Struct, frozen=True, kw_only=True):
    """Running workflow that has reached a limit."""

    run: int
    space: str
    by: str


class DeadInstruction(OpenItem, frozen=True, kw_only=True):
    """Failed instruction that was not dismissed; ``retriable``: its agent and space still exist."""

    status: Status
    cause: str | None
    text: str
    retriable: bool


class OpenDecision(OpenItem, frozen=True, kw_only=True):
    """Change that an agent proposes; ``group``: prefix of its commands, with a final blank."""

    kind: NeedKind
    group: str
    text: str


class StuckTask(msgspec.Struct, frozen=True, kw_only=True):
    """Task without progress: blocked by ``held_by`` (such as failed tasks), ``left`` by its assignee, or unclaimed.

    ``working``: other work in the workspace can continue and may still claim it.
    """

    task: TaskInfo
    run: int
    held_by: tuple[str, ...] = ()
    left: bool = False
    working: bool = False


class UntrustedSchedules(msgspec.Struct, frozen=True, kw_only=True):
    """Schedules of one file that wait for trust; ``file`` is the argument of ``awk trust``."""

    file: str
    count: int


class StuckWebhook(msgspec.Struct, frozen=True, kw_only=True):
    """Webhook without secret, or whose server answered 410 (``ended``) or keeps failing; no ``host`` if unknown."""

    id: str
    host: str
    ended: bool
    tries: int
    why: str = ""
    """Last failure, for a span collector."""
    secret: str = ""
    """Fault of its secret, without which nothing is sent."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Items of a project that may need a person; ``dead`` may contain only part of ``dead_total``."""

    lost: str = ""
    """Reason why no work starts in the project; empty if its folder exists."""
    requests: tuple[Request, ...] = ()
    questions: tuple[PersonQuestion, ...] = ()
    votes: tuple[PendingProposal, ...] = ()
    errors: tuple[ErrorAgent, ...] = ()
    blocked: tuple[BlockedWork, ...] = ()
    limited: tuple[LimitedRun, ...] = ()
    probed: frozenset[str] = frozenset()
    """Breakers with a running probe; work that waits for them waits for the probe."""
    silent: tuple[SilentStep, ...] = ()
    tasks: tuple[StuckTask, ...] = ()
    decisions: tuple[OpenDecision, ...] = ()
    dead: tuple[DeadInstruction, ...] = ()
    dead_total: int = 0
    untrusted: tuple[UntrustedSchedules, ...] = ()
    webhooks: tuple[StuckWebhook, ...] = ()


V = TypeVar("V")
TEXT_CHARACTERS: Final = 200
"""Limit for agents' texts in a need; another command shows the full text."""


def action(label: str, command: str) -> NeedAction:
    """Return an action that settles a need; ``command`` lacks the leading ``awk``."""
    return NeedAction(label=label, command=f"awk {command}")


def target_of(name: str, space: str | None) -> str:
    """Return the address of an agent, including the workflow of an inline agent."""
    return name if space is None else str(Target(name, *split_space(space)))


def run_of(number: int | None) -> str | None:
    """Return the id of a run; None without a run."""
    return None if number is None else run_id(number)


def blocks_of(group: Sequence[BlockedWork]) -> tuple[str, ...]:
    """Return the ids of all instructions of ``group``, in order."""
    return tuple(instruction_id(number) for number in sorted(number for one in group for number in one.blocks))


def common(values: Iterable[V]) -> V | None:
    """Return the value that all ``values`` are equal to; None if they differ."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


def one_line(text: str) -> str:
    """Return ``text`` on one line of at most TEXT_CHARACTERS."""
    line = " ".join(text.split())
    return line if len(line) <= TEXT_CHARACTERS else f"{line[: TEXT_CHARACTERS - 1]}…"
