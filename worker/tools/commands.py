"""Tools that run a command: ``bash``, a command line in the agent's working directory, and tools of the project.

A project tool gets its arguments as JSON and returns text, or a fixed answer. A command may run more than once; the
caller makes sure that an interrupted call is not repeated.
"""

import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
import trio

from protocol.ipc import Json
from protocol.tools import BUILT_IN, ProjectTool, filled, input_schema, placeholders
from worker.subprocesses import Subprocesses, end
from worker.tool import (
    BACKGROUND,
    UNKNOWN,
    BadArguments,
    BuiltinTool,
    ToolArguments,
    ToolOutcome,
    ToolSpec,
    read_arguments,
    tool_spec,
)

DEFAULT_SECONDS: Final = 120.0
KEY_VARIABLE: Final = "AGENT_IDEMPOTENCY_KEY"
"""Variable with the call's key, by which a command can recognize a repeated call."""
_SHELLS: Final = ("bash", "sh")


class BashArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of bash."""

    command: Annotated[str, msgspec.Meta(min_length=1, description="The command line, for bash -c.")]
    timeout_seconds: Annotated[float, msgspec.Meta(gt=0, description="Timeout in seconds (default 120).")] | None = None
    background: Annotated[
        bool,
        msgspec.Meta(
            description="Return at once and keep the command running until the attempt ends, as for a server."
        ),
    ] = False


class Bash:
    """Runner of command lines. Each call has its own shell, so a ``cd`` or a variable does not persist."""

    def __init__(
        self, programs: Subprocesses, *, idempotency_key: str, longest_seconds: float, seconds: float = DEFAULT_SECONDS
    ) -> None:
        self._programs = programs
        self._idempotency_key = idempotency_key
        self._longest = longest_seconds
        self._seconds = seconds
        path = programs.env().get("PATH")
        self._shell = next((found for name in _SHELLS if (found := shutil.which(name, path=path))), "/bin/sh")

    async def run(self, name: str, args: dict[str, Any], key: str) -> ToolOutcome:
        """Run one command. Cancellation kills its process group, unless it runs in the background."""
        try:
            asked = read_arguments(BashArguments, name, args)
        except BadArguments as error:
            return error.outcome
        words = (self._shell, "-c", asked.command)
        env = {KEY_VARIABLE: f"{self._idempotency_key}:{key}"}
        if asked.background:
            # Start a command that outlives its call. It ends with the attempt.
            try:
                pid = await self._programs.leave(words, env)
            except (OSError, ValueError) as error:
                return ToolOutcome(f"{words[0]} could not be started: {error}", True)
            return ToolOutcome(BACKGROUND.format(pid=pid))
        seconds = min(asked.timeout_seconds or self._seconds, self._longest)
        return await run(self._programs, ToolCommand(words=words, env=env, seconds=seconds))


def bash(programs: Subprocesses, *, idempotency_key: str, longest_seconds: float) -> BuiltinTool:
    """Return the tool ``bash``. ``longest_seconds`` is the maximum timeout of a call."""
    about = (
        "Run a command line in the working directory. Standard input is empty; both output streams are returned, "
        f"shortened in the middle over {(HEAD_BYTES + TAIL_BYTES) // 1024} KiB. Each call runs in a new shell, and its "
        "background processes end with the call. Use background: true to start a server that later calls need."
    )
    hand = Bash(programs, idempotency_key=idempotency_key, longest_seconds=longest_seconds)
    return BuiltinTool(hand=hand, spec=tool_spec("bash", about, BashArguments), read_only=BUILT_IN["bash"].read_only)


HEAD_BYTES: Final = 16 * 1024
"""Size of the start of a long output that the model gets: usually the first error."""
TAIL_BYTES: Final = 32 * 1024
"""Size of the end of a long output that the model gets: usually the result."""
LINGER_SECONDS: Final = 1.0
"""Time after the command's exit until its pipe is closed: a process that left the group may keep it open."""


class ToolCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command to run. ``stdin`` is its input; ``env`` is added to the environment of the attempt's programs."""

    words: Sequence[str]
    env: Mapping[str, str]
    seconds: float
    stdin: bytes = b""
    head_bytes: int = HEAD_BYTES
    tail_bytes: int = TAIL_BYTES


class Excerpt:
    """Start and end of a byte stream."""

    def __init__(self, head_bytes: int, tail_bytes: int) -> None:
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, chunk: bytes) -> None:
        """Append ``chunk`` to the stream."""
        room = self._head_bytes - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        over = len(self._tail) - self._tail_bytes
        if over > 0:
            del self._tail[:over]
            self._dropped += over

    def text(self) -> str:
        """Return start and end as text, with the size of the omitted part between them."""
        if not self._dropped:
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = self._head.decode("utf-8", "ignore"), self._tail.decode("utf-8", "replace")
        return f"{head}\n[... {self._dropped} bytes left out ...]\n{tail}"


async def run(programs: Subprocesses, command: ToolCommand) -> ToolOutcome:
    """Run ``command`` until it exits or times out. A failure is a result too.

    Cancellation kills the command's process group.
    """
    try:
        process = await programs.open(
            command.words,
            env=command.env,
            stdin=subprocess.PIPE if command.stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except (OSError, ValueError) as error:
        return ToolOutcome(f"{command.words[0]} could not be started: {error}", True)
    said = Excerpt(command.head_bytes, command.tail_bytes)
    # Write its input and read its output until it exits; record whether it exited in time.
    async with trio.open_nursery() as nursery:
        heard = trio.Event()
        nursery.start_soon(_hear, process, said, heard)
        nursery.start_soon(_feed, process, command.stdin)
        try:
            with trio.move_on_after(command.seconds) as scope:
                await process.wait()
        finally:
            await end(process)
        with trio.move_on_after(LINGER_SECONDS):
            await heard.wait()
        nursery.cancel_scope.cancel()
    in_time = not scope.cancelled_caught
    text = said.text()
    if not in_time:
        return ToolOutcome(f"{text}[stopped after {command.seconds:g} s with all its processes: {UNKNOWN}]", True)
    if process.returncode == 0:
        return ToolOutcome(text)
    code = process.returncode
    if code is None:
        how = "killed, but still exiting"
    elif code > 0:
        how = f"exit {code}"
    else:
        try:
            how = f"killed by {signal.Signals(-code).name}"
        except ValueError:
            how = f"killed by signal {-code}"
    return ToolOutcome(f"{text}[{how}]", True)


async def _hear(process: trio.Process, said: Excerpt, heard: trio.Event) -> None:
    assert process.stdout is not None, "it was asked for"
    async with process.stdout as stream:
        async for chunk in stream:
            said.add(bytes(chunk))
    heard.set()


async def _feed(process: trio.Process, data: bytes) -> None:
    if process.stdin is None:
        return
    async with process.stdin as stream:
        try:
            await stream.send_all(data)
        except trio.BrokenResourceError:
            return  # the command does not read its input


_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


class ProjectToolRunner(msgspec.Struct, frozen=True, kw_only=True):
    """Runner of a project tool."""

    tool: ProjectTool
    schema: Mapping[str, Any]
    programs: Subprocesses
    idempotency_key: str
    longest_seconds: float

    async def run(self, name: str, args: dict[str, Any], key: str) -> ToolOutcome:
        """Run the tool. Cancellation kills the process group of its command."""
        fault = argument_fault(self.schema, args) or option_fault(self.tool.command, args)
        if fault is not None:
            return ToolOutcome(f"invalid arguments of {name}: {fault}", True)
        if self.tool.mock is not None:
            return ToolOutcome(self.tool.mock)
        changed = await trio.to_thread.run_sync(self.programs.changed, self.tool.command)
        if changed is not None:
            return ToolOutcome(f"{changed} has changed since it was trusted and is not run: ask the user", True)
        command = ToolCommand(
            words=filled(self.tool.command, args),
            env={KEY_VARIABLE: f"{self.idempotency_key}:{key}"},
            seconds=min(self.tool.timeout, self.longest_seconds),
            stdin=msgspec.json.encode(args) + b"\n",
        )
        return await run(self.programs, command)


def project_tool(
    name: str, tool: ProjectTool, programs: Subprocesses, *, idempotency_key: str, longest_seconds: float
) -> BuiltinTool:
    """Return the tool ``name``. ``longest_seconds`` is the maximum of the timeout in its definition."""
    schema = input_schema(tool.input)
    hand = ProjectToolRunner(
        tool=tool, schema=schema, programs=programs, idempotency_key=idempotency_key, longest_seconds=longest_seconds
    )
    told = ToolSpec(name=name, description=tool.description, input_schema=Json(msgspec.json.encode(schema)))
    return BuiltinTool(hand=hand, spec=told, read_only=tool.read_only)


def argument_fault(schema: Mapping[str, Any], args: Mapping[str, Any]) -> str | None:
    """Return an error text for a missing, unknown or mistyped argument, or None. The command checks the rest."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in args:
            return f"{name} is missing"
    for name, value in args.items():
        if name not in properties:
            if schema.get("additionalProperties") is False:
                return f"{name[:60]} is unknown"
            continue
        wanted = properties[name].get("type") if isinstance(properties[name], dict) else None
        if isinstance(wanted, str):
            fits = wanted == "boolean" if isinstance(value, bool) else isinstance(value, _TYPES.get(wanted, (object,)))
            if not fits:
                return f"{name} must be of type {wanted}"
    return None


def option_fault(command: tuple[str, ...], args: Mapping[str, Any]) -> str | None:
    """Return an error text for an argument that would act as an option, or None: trust covers no other options."""
    plain = command[: command.index("--")] if "--" in command else command
    for name in placeholders(plain):
        value = args.get(name)
        if isinstance(value, str) and value.startswith("-"):
            return f"{name} starts with - and would be parsed as an option (add -- to the command before ${{{name}}})"
    return None
