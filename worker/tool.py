"""Execution of one tool call: from a model's arguments to a result of limited size. Independent of particular tools.

No failure of a tool ends the attempt: invalid arguments, errors and timeouts are results for the model. Structs define
the arguments, both for the JSON Schema that the model gets and for validation.
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, Protocol, TypeVar

import msgspec

from protocol.agent import Approval
from protocol.ipc import Json, Refusal, ToolCall
from protocol.text import decoded
from protocol.tools import AUTH_REQUEST, CONTEXT_FAMILIES
from worker.conversation import TOOL_RESULT_LIMIT_BYTES, shorten
from worker.kernel_link import WorkerIO

UNKNOWN: Final = "the outcome is unknown, check before you repeat it"
INTERRUPTED: Final = f"the call was interrupted and may have started: {UNKNOWN}"
"""Result of an interrupted call that could have an effect twice if it were repeated (promise P4)."""
BACKGROUND: Final = (
    "runs in the background as process group {pid}, until the attempt ends; "
    "its output goes to /dev/null, unless the command redirects it to a file"
)
"""Result of a call whose command runs in the background."""
EXCERPT_BYTES: Final = 200
"""Maximum size of invalid arguments in the error text for the model."""


class ToolOutcome(msgspec.Struct, frozen=True):
    """The outcome of a call; ``text`` is for the model."""

    text: str
    is_error: bool = False
    pending: bool = False
    """Whether the call waits for an approval: the next attempt asks for it again."""
    refused: Refusal | None = None
    """Reason if the call was not run because it was not approved."""
    note: str | None = None
    """Note of the tool for later attempts, stored with the entry and never shown to the model."""


class Permit(msgspec.Struct, frozen=True):
    """Permission to run a call. ``first``: granted for the first time, so the call has not started before."""

    first: bool


class ToolRunner(Protocol):
    """Runner of calls. ``key`` is equal on every attempt, so the runner can recognize a repeated call."""

    def run(self, name: str, args: dict[str, Any], key: str) -> Coroutine[Any, Any, ToolOutcome]:
        """Run one call. Repeating it with the same ``key`` has no second effect (except in the mock's shell)."""
        ...


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Description of a tool for a model, as listed by Daemon MCP."""

    name: str
    description: str = ""
    input_schema: Json = Json(b'{"type":"object"}')


class BuiltinTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of the worker. Without a ``spec`` it is hidden from models and needs no approval (a script's shell).

    ``read_only``: a call changes nothing, so it can be repeated, and needs no approval.
    """

    hand: ToolRunner
    spec: ToolSpec | None = None
    read_only: bool = False
    changes: Callable[[dict[str, Any]], str | None] | None = None
    """Returns the path of the file that a call changes, relative to the working directory; None if the call will be
    refused."""


HELD_BY: Final = "team_task_list"
"""The kernel's tool that returns the tasks whose claims include a path."""


class _Holding(msgspec.Struct, frozen=True):
    id: str
    holder: str | None = None


class _Holders(msgspec.Struct, frozen=True):
    tasks: tuple[_Holding, ...] = ()


class FileClaims(msgspec.Struct, frozen=True):
    """Checks whether a task of another agent than ``agent`` claims a file. ``kernel`` runs the kernel's tools."""

    kernel: ToolRunner
    agent: str

    async def refusal(self, path: str, key: str) -> ToolOutcome | None:
        """Return the refusal of a call that changes ``path``; None if no other agent claims it. Raises Failed."""
        asked = await self.kernel.run(HELD_BY, {"path": path}, f"{key}.holder")
        if asked.is_error:
            return None  # the agent has no tasks: conflicts are detected when its work is merged
        held = msgspec.json.decode(asked.text, type=_Holders).tasks
        other = next((one for one in held if one.holder != self.agent), None)
        if other is None:
            return None
        text = f"{path}: claimed by {other.holder} for task {other.id}; ask them, or wait until the task ends"
        return ToolOutcome(text, True)


_REFUSED: Final[Mapping[str, tuple[Refusal, str]]] = {
    "denied": ("denied", "it was denied"),
    "expired": ("expired", "it was not approved"),
}
"""Answer of the kernel -> stored reason and text for the model."""


class PermissionAnswer(msgspec.Struct, frozen=True):
    """The answer of ``auth_request``."""

    decision: str = ""
    reason: str = ""
    first: bool = False


class Permission(msgspec.Struct, frozen=True):
    """Permission checks, which ``kernel`` answers, for calls that ``policy`` does not allow."""

    policy: Approval
    kernel: ToolRunner

    def wanted(self, *, read_only: bool) -> bool:
        """Return whether a call needs the kernel's permission."""
        return self.policy == "all" or (self.policy != "auto" and not read_only)

    async def ask(self, name: str, args: dict[str, Any], key: str) -> Permit | ToolOutcome:
        """Request permission for a call; return a Permit, or the outcome if it must not run. Raises Failed."""
        # The permission is bound to this call: its key, the tool, and its arguments.
        asked = await self.kernel.run(AUTH_REQUEST, {"tool": name, "input": args, "wait_seconds": 0}, key)
        if asked.is_error:
            return asked
        answer = msgspec.json.decode(asked.text, type=PermissionAnswer)
        if answer.decision == "pending":
            return ToolOutcome(asked.text, pending=True)
        if answer.decision == "granted":
            return Permit(first=answer.first)
        refused, why = _REFUSED.get(answer.decision, (None, answer.decision))
        words = f"{name} was not run: {why}"
        return ToolOutcome(f"{words}: {answer.reason}" if answer.reason else words, is_error=True, refused=refused)


class Caller(Protocol):
    """Runner of the calls of a conversation."""

    def run(self, call: ToolCall, key: str) -> Coroutine[Any, Any, ToolOutcome]:
        """Run ``call``. Raises only errors that end the attempt (Failed)."""
        ...


class ToolRunners(msgspec.Struct, frozen=True):
    """All tools of a worker: ``own`` tools by name; the kernel runs all others.

    ``doubtful`` is the key of a call that an earlier attempt may have started.
    """

    kernel: ToolRunner
    own: Mapping[str, BuiltinTool]
    seconds: float
    waits: WorkerIO
    doubtful: str = ""
    permits: Permission | None = None
    """Permission checks; None if no call needs permission."""
    claims: FileClaims | None = None
    """Checks of claimed files; None if no other agent can claim files."""

    def read_only(self, name: str) -> bool | None:
        """Return whether the own tool ``name`` is read-only; None if it never needs permission."""
        own = self.own.get(name)
        return None if own is None or own.spec is None else own.read_only

    async def run(self, call: ToolCall, key: str) -> ToolOutcome:
        """Run ``call``. Raises only errors that end the attempt (Failed). A cancelled call may have had its effect."""
        args = as_object(call.args)
        if args is None:
            given = bytes(call.args)[:EXCERPT_BYTES].decode("utf-8", "replace")
            return ToolOutcome(f"{call.name} needs a JSON object that matches its schema, but received: {given}", True)
        # Whether the call may be run. Raises Failed.
        leave: Permit | ToolOutcome
        read_only = self.read_only(call.name)
        if self.permits is None or read_only is None or not self.permits.wanted(read_only=read_only):
            leave = Permit(first=False)
        else:
            leave = await self.permits.ask(call.name, args, key)
        if isinstance(leave, ToolOutcome):
            return leave
        own = self.own.get(call.name)
        # Own tools, also one that an earlier attempt had, could do something twice; the kernel knows repeated calls.
        twice = read_only is False if own is not None else not call.name.startswith(CONTEXT_FAMILIES)
        if key == self.doubtful and not leave.first and twice:
            return ToolOutcome(INTERRUPTED, True)
        hand = self.kernel if own is None else own.hand
        if own is not None and own.changes is not None and self.claims is not None:
            path = own.changes(args)
            refused = None if path is None else await self.claims.refusal(path, key)
            if refused is not None:
                return refused
        outcome = await self.waits.within(self.seconds, hand.run(call.name, args, key))
        if outcome is not None:
            return msgspec.structs.replace(outcome, text=shorten(outcome.text, TOOL_RESULT_LIMIT_BYTES))
        return ToolOutcome(f"no answer within {self.seconds:g} s: {UNKNOWN}", True)


def as_object(args: Json) -> dict[str, Any] | None:
    """Return arguments as a dict; None if they are not a JSON object."""
    return decoded(args, dict[str, Any])


def arguments_json(text: str) -> Json:
    """Return a model's arguments as JSON. Invalid JSON becomes a JSON string, which every tool rejects."""
    if not text.strip():
        return Json(b"{}")
    try:
        encoded = text.encode()
        msgspec.json.decode(encoded)
    except (UnicodeEncodeError, msgspec.DecodeError, RecursionError):
        return Json(msgspec.json.encode(text.encode("utf-8", "replace").decode()))
    return Json(encoded)


class ToolArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of a tool."""


A = TypeVar("A", bound=ToolArguments)


class BadArguments(Exception):
    """Invalid arguments. ``outcome`` describes the error, so that the model can correct its call."""

    def __init__(self, name: str, error: msgspec.ValidationError) -> None:
        super().__init__(str(error))
        self.outcome = ToolOutcome(f"invalid arguments of {name}: {error}", True)


def read_arguments(kind: type[A], name: str, args: dict[str, Any]) -> A:
    """Return ``args`` of the tool ``name`` as a ``kind``. Raises BadArguments."""
    try:
        return msgspec.convert(args, kind)
    except msgspec.ValidationError as error:
        raise BadArguments(name, error) from error


def tool_spec(name: str, about: str, kind: type[ToolArguments]) -> ToolSpec:
    """Describe the tool ``name`` for a model."""
    (_reference,), parts = msgspec.json.schema_components([kind])
    schema = parts[kind.__name__]
    schema = {key: value for key, value in schema.items() if key not in {"title", "description"}}
    return ToolSpec(name=name, description=about, input_schema=Json(msgspec.json.encode(schema)))
