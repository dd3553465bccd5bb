"""A tool of the project's own: a command that reads its arguments as JSON and answers in text, or a canned answer."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import trio

from protocol.ipc import Json
from protocol.tools import ProjectTool, filled, input_schema, placeholders
from worker.subprocesses import Subprocesses
from worker.tool import BuiltinTool, Outcome, ToolSpec
from worker.tools.bash import KEY_VARIABLE, Command, run

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


class ProjectToolRunner(msgspec.Struct, frozen=True, kw_only=True):
    """Runs one of them."""

    tool: ProjectTool
    schema: Mapping[str, Any]
    programs: Subprocesses
    idempotency_key: str
    longest_seconds: float

    async def run(self, name: str, args: dict[str, Any], key: str) -> Outcome:
        """Run it. Cancellation kills its group."""
        fault = argument_fault(self.schema, args) or option_fault(self.tool.command, args)
        if fault is not None:
            return Outcome(f"the arguments of {name} do not fit: {fault}", True)
        if self.tool.mock is not None:
            return Outcome(self.tool.mock)
        changed = await trio.to_thread.run_sync(self.programs.changed, self.tool.command)
        if changed is not None:
            return Outcome(f"{changed} is not what was trusted when you began, and is not run: ask the user", True)
        command = Command(
            words=filled(self.tool.command, args),
            env={KEY_VARIABLE: f"{self.idempotency_key}:{key}"},
            seconds=min(self.tool.timeout, self.longest_seconds),
            stdin=msgspec.json.encode(args) + b"\n",
        )
        return await run(self.programs, command)


def project_tool(
    name: str, tool: ProjectTool, programs: Subprocesses, *, idempotency_key: str, longest_seconds: float
) -> BuiltinTool:
    """The tool ``name``. ``longest_seconds`` bounds what it says of its time."""
    schema = input_schema(tool.input)
    hand = ProjectToolRunner(
        tool=tool, schema=schema, programs=programs, idempotency_key=idempotency_key, longest_seconds=longest_seconds
    )
    told = ToolSpec(name=name, description=tool.description, input_schema=Json(msgspec.json.encode(schema)))
    return BuiltinTool(hand=hand, spec=told, read_only=tool.read_only)


def argument_fault(schema: Mapping[str, Any], args: Mapping[str, Any]) -> str | None:
    """Describe an argument that is missing, unknown, or of another type. The rest is the command's to check."""
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
                return f"{name} is to be of type {wanted}"
    return None


def option_fault(command: tuple[str, ...], args: Mapping[str, Any]) -> str | None:
    """A text that the command would take for an option, which whoever agreed to it did not see; None: there is none."""
    plain = command[: command.index("--")] if "--" in command else command
    for name in placeholders(plain):
        value = args.get(name)
        if isinstance(value, str) and value.startswith("-"):
            return f"{name} begins with -, and would be an option (its command can have a word -- before ${{{name}}})"
    return None
