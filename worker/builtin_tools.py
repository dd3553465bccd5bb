"""An attempt with tools of the worker's own, put together from what the start frame switches on."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from typing import Final

from protocol.ipc import Error, Result, Start
from worker.attempt import Connect, attempt, crash_frame
from worker.io.base import WorkerIO
from worker.kernel_link import Link, LinkLost
from worker.models.mock import SHELL, is_script
from worker.subprocesses import Subprocesses
from worker.tool import BuiltinTool

_LONGEST_PART: Final = 0.95
"""Of ``timeouts.tool``, how much a command may use up: then what it said so far is still its result."""


async def attempt_with_tools(
    start: Start, link: Link, waits: WorkerIO, *, connect: Connect, env: Mapping[str, str]
) -> Result | Error | None:
    """As ``attempt``, with what the start frame switches on. ``env`` is what programs see."""
    try:
        programs = Subprocesses(start, env)
        try:
            async with _opened(start, programs, link) as own:
                return await attempt(start, link, waits, connect, own)
        finally:
            await programs.end_left()
    except Exception as error:  # noqa: BLE001  (as in ``attempt``, for what comes before and after it)
        return crash_frame(error)


@asynccontextmanager
async def _opened(start: Start, programs: Subprocesses, link: Link) -> AsyncGenerator[Mapping[str, BuiltinTool]]:
    own = dict(tool for kind in _KINDS for tool in kind(start, programs))
    if not start.mcp_servers:
        yield own
        return
    servers = import_module("worker.mcp_servers")
    with suppress(LinkLost):
        await link.progress(f"starting {', '.join(start.mcp_servers)}"[:200])

    async def tell(text: str) -> None:
        with suppress(LinkLost):
            await link.log("warning", text)

    async with servers.running(start.mcp_servers, programs, tell) as running:
        for server in running:
            own |= servers.tools_of(server, start.idempotency_key, start.read_only)
            if server.fault:
                await tell(f"the MCP server {server.name} is not there: {server.fault}")
        yield own


Tools = Iterable[tuple[str, BuiltinTool]]


def _bash(start: Start, programs: Subprocesses) -> Tools:
    if "bash" not in start.tools:
        return []
    from worker.tools.bash import bash  # noqa: PLC0415  (each worker imports what it is to have)

    longest = start.limits.tool_seconds * _LONGEST_PART
    return [("bash", bash(programs, idempotency_key=start.idempotency_key, longest_seconds=longest))]


def _script_shell(start: Start, programs: Subprocesses) -> Tools:
    if not is_script(start):
        return []  # a script beside a real model is not played, and gives that no shell
    from worker.tools.bash import Bash  # noqa: PLC0415  (as above)

    seconds = start.limits.tool_seconds
    hand = Bash(programs, idempotency_key=start.idempotency_key, longest_seconds=seconds, seconds=seconds)
    return [(SHELL, BuiltinTool(hand=hand))]


def _files(start: Start, _programs: Subprocesses) -> Tools:
    if "files" not in start.tools:
        return []
    from worker.tools.confined_files import ConfinedDir  # noqa: PLC0415  (as above)
    from worker.tools.files import FILES  # noqa: PLC0415  (as above)

    place = ConfinedDir(start.cwd, start.hidden, (*start.closed, *(start.sandbox.readable if start.sandbox else ())))
    rules = None
    if start.nested_rules is not None:
        from worker.tools.nested_rules import NestedRules  # noqa: PLC0415  (as above)

        # A conversation that is shown shortened has lost what it was told.
        rules = NestedRules(place, start.nested_rules, () if start.compact else start.entries)
    return [(tool.name, tool.on(place, rules)) for tool in FILES]


def _skills(start: Start, _programs: Subprocesses) -> Tools:
    if not start.skills:
        return []
    from worker.tools.skill import skill  # noqa: PLC0415  (as above)

    return [("skill", skill(start.skills))]


def _project_tools(start: Start, programs: Subprocesses) -> Tools:
    if not start.project_tools:
        return []
    from worker.tools.project_tool import project_tool  # noqa: PLC0415  (as above)

    longest = start.limits.tool_seconds * _LONGEST_PART
    key = start.idempotency_key
    return [
        (name, project_tool(name, tool, programs, idempotency_key=key, longest_seconds=longest))
        for name, tool in start.project_tools.items()
    ]


_KINDS: Final[tuple[Callable[[Start, Subprocesses], Tools], ...]] = (
    _bash,
    _files,
    _skills,
    _project_tools,
    _script_shell,
)
