"""Running one tool call: from a model's arguments to a result that fits. Knows no particular tool.

Nothing a tool does ends the attempt: bad arguments, an error and a timeout are results that the model reads. Arguments
are Structs, which are both the JSON Schema a model is shown and the check of them.
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
INTERRUPTED: Final = f"it was interrupted, perhaps when it had begun: {UNKNOWN}"
"""What becomes of a call whose attempt broke off, where running it again could do it twice (promise P4)."""
BACKGROUND: Final = (
    "runs in the background as process group {pid}, until the attempt ends; "
    "what it says goes to /dev/null, unless the command sends it to a file"
)
"""What a call comes to whose command was to stay."""
EXCERPT_BYTES: Final = 200
"""How much of unusable arguments the model is shown again."""


class ToolOutcome(msgspec.Struct, frozen=True):
    """The result of a call, as text for the model."""

    text: str
    is_error: bool = False
    pending: bool = False
    """It has none yet: somebody has to decide whether it may be run. It is asked for again later."""
    refused: Refusal | None = None
    """It was not run, for want of an approval."""
    note: str | None = None
    """Of the tool, for the attempts that come after: kept with the entry, and shown to nobody."""


class Permit(msgspec.Struct, frozen=True):
    """A call may be run. ``first``: nobody was told so before, so that it has not begun."""

    first: bool


class ToolRunner(Protocol):
    """Something that runs calls. ``key`` names the call for a ledger: the same on every attempt."""

    def run(self, name: str, args: dict[str, Any], key: str) -> Coroutine[Any, Any, ToolOutcome]:
        """Run one call. Safe to repeat with the same ``key``, or harmless (the mock's shell)."""
        ...


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One tool as a model is told of it, and as Daemon MCP lists it."""

    name: str
    description: str = ""
    input_schema: Json = Json(b'{"type":"object"}')


class BuiltinTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that is the worker's own. Without a ``spec`` no model is told of it, and nobody asked (a script's shell).

    ``read_only``: a call changes nothing, so it may be run again, and without asking.
    """

    hand: ToolRunner
    spec: ToolSpec | None = None
    read_only: bool = False
    changes: Callable[[dict[str, Any]], str | None] | None = None
    """Return the path of the file that a call changes, below the working directory; None where it is refused anyway."""


HELD_BY: Final = "team_task_list"
"""The tool of the kernel that says whose task holds a path."""


class _Holding(msgspec.Struct, frozen=True):
    id: str
    holder: str | None = None


class _Holders(msgspec.Struct, frozen=True):
    tasks: tuple[_Holding, ...] = ()


class FileClaims(msgspec.Struct, frozen=True):
    """Asks ``kernel`` whether a file belongs to a task of somebody else than ``agent``."""

    kernel: ToolRunner
    agent: str

    async def refusal(self, path: str, key: str) -> ToolOutcome | None:
        """The outcome in place of a call that changes ``path``; None where nobody else holds it. Raises Failed."""
        asked = await self.kernel.run(HELD_BY, {"path": path}, f"{key}.holder")
        if asked.is_error:
            return None  # tasks are not for this agent: what it changes is compared when it is merged
        held = msgspec.json.decode(asked.text, type=_Holders).tasks
        other = next((one for one in held if one.holder != self.agent), None)
        if other is None:
            return None
        text = f"{path}: {other.holder} holds it for the task {other.id}; ask them, or wait until that is over"
        return ToolOutcome(text, True)


_REFUSED: Final[Mapping[str, tuple[Refusal, str]]] = {
    "denied": ("denied", "it was denied"),
    "expired": ("expired", "it was not approved"),
}
"""What is kept of a call that may not be made, and what a model reads of it."""


class PermissionAnswer(msgspec.Struct, frozen=True):
    """The answer of ``auth_request``."""

    decision: str = ""
    reason: str = ""
    first: bool = False


class Permission(msgspec.Struct, frozen=True):
    """Asks ``kernel`` about calls, as far as ``policy`` wants that."""

    policy: Approval
    kernel: ToolRunner

    def wanted(self, *, read_only: bool) -> bool:
        """Return whether a call has to be asked about first."""
        return self.policy == "all" or (self.policy != "auto" and not read_only)

    async def ask(self, name: str, args: dict[str, Any], key: str) -> Permit | ToolOutcome:
        """Ask whether a call may run; return the outcome in its place if not. Raises Failed.

        Bound to exactly this call: its key, the tool, its arguments.
        """
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
    """Runs the calls of a conversation."""

    def run(self, call: ToolCall, key: str) -> Coroutine[Any, Any, ToolOutcome]:
        """Run ``call``. Raises only what ends the attempt (Failed)."""
        ...


class ToolRunners(msgspec.Struct, frozen=True):
    """All tools of a worker: its own by name, everything else at the kernel.

    ``doubtful`` is the key of a call that an earlier attempt may have begun.
    """

    kernel: ToolRunner
    own: Mapping[str, BuiltinTool]
    seconds: float
    waits: WorkerIO
    doubtful: str = ""
    permits: Permission | None = None
    """None: nobody is asked about anything."""
    claims: FileClaims | None = None
    """None: there is nobody else who could hold a file."""

    def read_only(self, name: str) -> bool | None:
        """Return whether the own tool ``name`` changes nothing; None for one that nobody is ever asked about."""
        own = self.own.get(name)
        return None if own is None or own.spec is None else own.read_only

    async def run(self, call: ToolCall, key: str) -> ToolOutcome:
        """Run ``call``. Raises only what ends the attempt (Failed). Cancellation leaves its outcome unknown."""
        args = as_object(call.args)
        if args is None:
            given = bytes(call.args)[:EXCERPT_BYTES].decode("utf-8", "replace")
            return ToolOutcome(f"{call.name} takes a JSON object that fits its schema, and was given: {given}", True)
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
    """Arguments as a tool takes them; None where they are no JSON object."""
    return decoded(args, dict[str, Any])


def arguments_json(text: str) -> Json:
    """A model's arguments as JSON. What is none becomes a JSON string, which no tool takes: see ``ToolRunners.run``."""
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
    """They do not fit. ``outcome`` tells the model what is wrong, so that it can mend its call."""

    def __init__(self, name: str, error: msgspec.ValidationError) -> None:
        super().__init__(str(error))
        self.outcome = ToolOutcome(f"the arguments of {name} do not fit: {error}", True)


def read_arguments(kind: type[A], name: str, args: dict[str, Any]) -> A:
    """``args`` of the tool ``name`` as a ``kind``. Raises BadArguments."""
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
