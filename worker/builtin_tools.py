"""An attempt with tools of the worker's own, put together from what the start frame switches on."""

from collections.abc import AsyncGenerator, Iterator, Mapping
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
    own = dict(_own_tools(start, programs))
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


def _own_tools(start: Start, programs: Subprocesses) -> Iterator[tuple[str, BuiltinTool]]:
    """Yield the tools that are switched on. Each worker imports what it is to have."""
    key, seconds = start.idempotency_key, start.limits.tool_seconds
    longest = seconds * _LONGEST_PART
    if "bash" in start.tools:
        from worker.tools.bash import bash  # noqa: PLC0415

        yield "bash", bash(programs, idempotency_key=key, longest_seconds=longest)
    if "files" in start.tools:
        from worker.tools.confined_files import ConfinedDir  # noqa: PLC0415
        from worker.tools.files import FILES  # noqa: PLC0415

        closed = (*start.closed, *(start.sandbox.readable if start.sandbox else ()))
        place, rules = ConfinedDir(start.cwd, start.hidden, closed), None
        if start.nested_rules is not None:
            from worker.tools.files import NestedRules  # noqa: PLC0415

            # A conversation that is shown shortened has lost what it was told.
            rules = NestedRules(place, start.nested_rules, () if start.compact else start.entries)
        for tool in FILES:
            yield tool.name, tool.on(place, rules)
    if start.skills:
        from worker.tools.skill import skill  # noqa: PLC0415

        yield "skill", skill(start.skills)
    if start.project_tools:
        from worker.tools.project_tool import project_tool  # noqa: PLC0415

        for name, own in start.project_tools.items():
            yield name, project_tool(name, own, programs, idempotency_key=key, longest_seconds=longest)
    if is_script(start):  # a script beside a real model is not played, and gives that no shell
        from worker.tools.bash import Bash  # noqa: PLC0415

        hand = Bash(programs, idempotency_key=key, longest_seconds=seconds, seconds=seconds)
        yield SHELL, BuiltinTool(hand=hand)
