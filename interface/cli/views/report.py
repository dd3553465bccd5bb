"""What came of a run: one line of numbers, for people."""

import msgspec

from interface.cli.escape import one_line
from interface.cli.output import Screen
from protocol.api.runs import RunReport
from protocol.instruction import Usage

_STYLE = {"done": "green", "running": "cyan"}


def lines(body: bytes, screen: Screen, *, left: bool = False) -> list[str]:
    """The summary of a run. ``left``: agents did something in working trees of their own, which stay."""
    report = msgspec.json.decode(body, type=RunReport)
    status = screen.style(report.status, _STYLE.get(report.status, "red"))
    counts = ", ".join(f"{count} {name}" for name, count in report.instructions.items() if count)
    verdict = [f"verdict {one_line(report.verdict)}"] if report.verdict else []
    failed = ", ".join(f"{count} of {one_line(tool)}" for tool, count in report.failed_calls.items())
    calls = [f"calls that failed: {failed}"] if failed else []
    parts = [f"instructions: {counts or 'none'}", *verdict, *calls, usage(report.usage)]
    trees = [f"in working trees of their own: awk diff {one_line(report.id)}"] if left else []
    name = one_line(f"{report.id} {report.run}")
    return [f"{name} {status} in {report.duration_seconds:.1f} s; {'; '.join(parts)}", *trees]


def usage(used: Usage) -> str:
    """Tokens and cost; a cost that is not known is not shown as nothing."""
    cost = "" if used.cost_usd is None else f", ${used.cost_usd:.4f}"
    return f"{used.input_tokens + used.cache_write_tokens:,} tokens in, {used.output_tokens:,} out{cost}"
