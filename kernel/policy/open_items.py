"""The things that stand still until a person does something, as the store finds them: needs are judged from these."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from kernel.policy.agent_status import Kind, Waiting
from kernel.policy.voting import Ballot
from protocol.api.approvals import NeedAction
from protocol.instruction import Status
from protocol.limits import PlaceNeeds
from protocol.names import instruction_id, run_id, split_space
from protocol.target import Target
from protocol.tasks import TaskInfo


class OpenItem(msgspec.Struct, frozen=True, kw_only=True):
    """Something of the agent ``name`` that a person has to settle, by its id and since when."""

    id: str
    name: str
    space: str | None
    run: int | None
    since: str


class Request(OpenItem, frozen=True, kw_only=True):
    """An open request for approval."""

    instruction: int
    tool: str


class PersonQuestion(OpenItem, frozen=True, kw_only=True):
    """An instruction that waits for the person ``name`` to answer; ``asked`` is the beginning of what it says."""

    asked: str


class Elector(msgspec.Struct, frozen=True, kw_only=True):
    """A member that may vote. ``held``: its agent is given no work until a person does something.

    ``work`` says how its open instructions in the workspace stand.
    """

    held: bool
    work: frozenset[Kind] = frozenset()


class PendingProposal(msgspec.Struct, frozen=True, kw_only=True):
    """An open proposal with its votes. ``working``: something in its workspace can go on, which may wake a member."""

    ballot: Ballot
    space: str
    since: str
    electors: Mapping[str, Elector] = {}
    """By name: the electors and the creator, as far as they are members. Of one that decides nothing nobody asks."""
    working: bool = False


class ErrorAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent in state error. ``space`` is set where it lives inside a workflow."""

    name: str
    space: str | None
    reason: str | None
    since: str | None
    blocks: tuple[int, ...] = ()


class BlockedWork(Waiting, frozen=True, kw_only=True):
    """Instructions of an agent in a space that stand alike, as the columns of kernel.policy.agent_status say it.

    Times are 0 or not: what counts here is whether one is known.
    """

    agent: str
    name: str
    space: str
    home: str | None
    """The space an inline agent lives in."""
    run: int | None
    limited_by: str | None
    """Of its run, while that is running."""
    resume_at_ms: int = 0
    """It ends by itself."""
    wait_key: str | None
    hold_key: str | None
    asks: bool
    """What it waits for is an instruction that has not ended."""
    since: str
    blocks: tuple[int, ...]
    missing: str | None = None
    """The credentials that it lacks, in the words of who looked for them."""
    needs: PlaceNeeds | None = None
    """What the machine must have that it works on."""


class LimitedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A started workflow that has reached a limit."""

    run: int
    space: str
    by: str


class DeadInstruction(OpenItem, frozen=True, kw_only=True):
    """An instruction that failed for good and was not dismissed. ``retriable``: its agent and its place are there."""

    status: Status
    cause: str | None
    text: str
    retriable: bool


class SuggestedSoul(OpenItem, frozen=True, kw_only=True):
    """A change of its soul that an agent suggests."""

    trait: str
    value: str


class ProposedMemory(OpenItem, frozen=True, kw_only=True):
    """Something for its memory in the tray of an agent."""

    key: str
    value: str


class StuckTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task that does not go on: ``held_by`` such as failed; ``left`` by the agent that it is for; or nobody's.

    ``working``: something in its workspace can go on, and may claim it yet.
    """

    task: TaskInfo
    run: int
    held_by: tuple[str, ...] = ()
    left: bool = False
    working: bool = False


class UntrustedSchedules(msgspec.Struct, frozen=True, kw_only=True):
    """Schedules of one file that wait for trust. ``file`` is the argument of ``awk trust``."""

    file: str
    count: int


class StuckWebhook(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook whose server answered 410 (``ended``), or keeps failing. ``host`` is empty where nobody knows it."""

    id: str
    host: str
    ended: bool
    tries: int
    why: str = ""
    """Of the collector of spans: what its last try came to."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that may need a person. ``dead`` may be only a part of ``dead_total``."""

    lost: str = ""
    """Why nothing is begun in the project; "": its folder is there."""
    requests: tuple[Request, ...] = ()
    questions: tuple[PersonQuestion, ...] = ()
    votes: tuple[PendingProposal, ...] = ()
    errors: tuple[ErrorAgent, ...] = ()
    blocked: tuple[BlockedWork, ...] = ()
    limited: tuple[LimitedRun, ...] = ()
    probed: frozenset[str] = frozenset()
    """Breakers that somebody is trying right now: what waits for them waits for that."""
    tasks: tuple[StuckTask, ...] = ()
    trays: tuple[ProposedMemory, ...] = ()
    souls: tuple[SuggestedSoul, ...] = ()
    dead: tuple[DeadInstruction, ...] = ()
    dead_total: int = 0
    untrusted: tuple[UntrustedSchedules, ...] = ()
    webhooks: tuple[StuckWebhook, ...] = ()


V = TypeVar("V")
TEXT_CHARACTERS: Final = 200
"""Of what agents wrote, in the text of a need: the whole of it is shown by the command that shows the thing."""


def action(label: str, command: str) -> NeedAction:
    """One way to settle a need: a command without its ``awk``."""
    return NeedAction(label=label, command=f"awk {command}")


def target_of(name: str, space: str | None) -> str:
    """The spelling of an agent; one that lives inside a workflow is named with that."""
    return name if space is None else str(Target(name, *split_space(space)))


def run_of(number: int | None) -> str | None:
    """The id of a run, where there is one."""
    return None if number is None else run_id(number)


def blocks_of(group: Sequence[BlockedWork]) -> tuple[str, ...]:
    """The ids of all instructions of ``group``, in order."""
    return tuple(instruction_id(number) for number in sorted(number for one in group for number in one.blocks))


def common(values: Iterable[V]) -> V | None:
    """The one value that all have; None where they differ."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


def one_line(text: str) -> str:
    """``text`` on one line, cut: it may be an agent's."""
    line = " ".join(text.split())
    return line if len(line) <= TEXT_CHARACTERS else f"{line[: TEXT_CHARACTERS - 1]}…"
