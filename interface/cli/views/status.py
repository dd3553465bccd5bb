"""Whether the kernel is up, and what it holds."""

import msgspec

from interface.cli.escape import one_line
from interface.cli.output import Screen
from interface.cli.process_table import age
from protocol.api import StatusReport, WorkflowRow


def lines(body: bytes, screen: Screen) -> list[str]:
    """The kernel, the agents by state, the workflows."""
    report = msgspec.json.decode(body, type=StatusReport)
    if report.kernel is None:
        return [screen.style(report.state, "red")]
    kernel = report.kernel
    agents = ", ".join(f"{count} {one_line(state)}" for state, count in report.agents.items() if count)
    return [
        f"{screen.style(report.state, 'green' if report.state == 'up' else 'yellow')} for {age(kernel.uptime_seconds)}",
        f"  kernel    {kernel.pid} at {one_line(kernel.url)}, version {one_line(kernel.version)}",
        f"  project   {one_line(kernel.project)}",
        f"  agents    {agents or 'none'}",
        *([f"  {screen.style('notice', 'yellow')}    {one_line(report.notice)}"] if report.notice else ()),
        *(_workflow(row) for row in report.workflows),
    ]


def _workflow(row: WorkflowRow) -> str:
    return f"  workflow  {one_line(row.name)}:{one_line(row.tag)} {row.state}: {one_line(', '.join(row.members))}"
