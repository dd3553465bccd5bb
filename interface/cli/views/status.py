"""Whether the kernel is up, and what it holds."""

from typing import Final

import msgspec

from interface.cli.escape import one_line
from interface.cli.output import Screen
from interface.cli.process_table import age
from protocol.api.kernel import HeldAgent, StatusReport
from protocol.api.workflows import WorkflowRow

_COLOURS: Final = {"up": "green", "degraded": "yellow", "down": "red"}


def lines(body: bytes, screen: Screen) -> list[str]:
    """The kernel, the agents by state, the workflows."""
    report = msgspec.json.decode(body, type=StatusReport)
    if report.kernel is None:
        return [screen.style(report.state, "red")]
    kernel = report.kernel
    agents = ", ".join(f"{count} {one_line(state)}" for state, count in report.agents.items() if count)
    gone = report.state == "down"  # the kernel is up: what was asked about does not run
    state, since = ("not running", "") if gone else (str(report.state), f" for {age(kernel.uptime_seconds)}")
    return [
        f"{screen.style(state, _COLOURS[report.state])}{since}",
        f"  kernel    {kernel.pid} at {one_line(kernel.url)}, version {one_line(kernel.version)}",
        f"  project   {one_line(kernel.project)}",
        f"  agents    {agents or 'none'}",
        *([f"  {screen.style('notice', 'yellow')}    {one_line(report.notice)}"] if report.notice else ()),
        *(_held(agent) for agent in report.held),
        *(_workflow(row) for row in report.workflows),
        *(f"  broken    {one_line(f'{one.path}:{one.line}:{one.column}: {one.message}')}" for one in report.broken),
    ]


def _held(agent: HeldAgent) -> str:
    """Why one agent does nothing; only a workspace is worth naming."""
    where = f"@{agent.space}" if agent.space and not agent.space.startswith("dm:") else ""
    why = f": {agent.reason}" if agent.reason else ""
    until = f" until {agent.until}" if agent.until else ""
    return f"  {one_line(agent.state):<9} {one_line(agent.name + where + until + why)}"


def _workflow(row: WorkflowRow) -> str:
    state = "paused" if row.paused else row.state
    return f"  workflow  {one_line(row.name)}:{one_line(row.tag)} {state}: {one_line(', '.join(row.members))}"
