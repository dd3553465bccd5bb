"""``--report github``: what a step on GitHub tells its runner: annotations at lines of files, outputs, a summary.

https://docs.github.com/actions/reference/workflow-commands-for-github-actions. What agents wrote is within a command's
message only, encoded, so that none of it ends that or begins another.
"""

from typing import Final, NamedTuple

from interface.cli.reports.record import RunRecord, findings_of, mistake_text
from interface.cli.reports.safe_text import line_of

MOST_ANNOTATIONS: Final = 50
"""A job shows no more; of each level a step shows ten."""
_OF_LEVEL: Final = {"error": "error", "warning": "warning", "note": "notice"}
_MESSAGE: Final = 1000
OUTPUTS: Final = ("run", "status", "verdict", "cost_usd", "tokens")


class _Annotation(NamedTuple):
    """One command. ``at`` is "" where it is about no file."""

    level: str
    title: str
    text: str
    at: str = ""

    def command(self) -> str:
        """It as the runner reads it."""
        title = f"title={property_value(line_of(self.title, 200))}"
        return f"::{self.level} {self.at}{title}::{_data(line_of(self.text, _MESSAGE))}"


def place_of(path: str, line: int, column: int | None) -> str:
    """The properties of a command that say where."""
    given = {"file": line_of(path, 400), "line": line, "col": column}
    return "".join(f"{key}={property_value(str(value))}," for key, value in given.items() if value)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def property_value(text: str) -> str:
    """``text`` as a value, in which a comma or a colon would end it."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def annotations_of(record: RunRecord) -> list[str]:
    """The commands, the worst first: mistakes in files, findings, what failed, what needs a person."""
    name, refusal = record.name, record.refusal
    found: list[_Annotation] = []
    for mistake in refusal.mistakes if refusal else ():
        text = f"{mistake_text(mistake)} ({mistake.hint})" if mistake.hint else mistake_text(mistake)
        place = place_of(record.prefix + mistake.path, mistake.line, mistake.column)
        found.append(_Annotation("error", f"{name} was not run", text, place))
    if refusal and not refusal.mistakes:
        found.append(_Annotation("error", f"{name} was not run", f"{refusal.text} {refusal.hint}"))
    for one in findings_of(record):
        title = f"{one.author or name} ({one.source})"
        place = place_of(record.prefix + one.path, one.line, one.column)
        found.append(_Annotation(_OF_LEVEL[one.level], title, one.text, place))
    for work in record.failed:
        why = f"{work.status}, {work.cause}" if work.cause else work.status
        found.append(_Annotation("error", f"{work.agent}: {work.id} {why}", work.text or why))
    found += [
        _Annotation("error", f"task {task.id} failed: {task.title}", task.reason or task.result or "failed")
        for task in record.tasks
        if task.state == "failed"
    ]
    if record.report is not None:
        delivery = record.report.delivery
        if delivery and delivery.state == "refused":
            found.append(_Annotation("error", f"not merged into {delivery.into}", f"{delivery.why} {delivery.output}"))
        if record.report.verdict == "no":
            found.append(_Annotation("error", name, "the vote that decides over the run said no"))
    for need in record.needs:
        way = f": {need.actions[0].command}" if need.actions else ""
        found.append(_Annotation("warning", f"{name} needs a person", f"{need.text}{way}"))
    levels = list(_OF_LEVEL.values())
    found.sort(key=lambda one: levels.index(one.level))
    if len(found) > MOST_ANNOTATIONS:
        more = f"{len(found) - MOST_ANNOTATIONS + 1:,} more are in the summary"
        found = [*found[: MOST_ANNOTATIONS - 1], _Annotation("notice", name, more)]
    return [one.command() for one in found]


def outputs_of(record: RunRecord, delimiter: str) -> str:
    """The outputs of the step, each between lines that nobody can know before: ``delimiter`` is random."""
    report = record.report
    cost = None if report is None else report.usage.cost_usd
    tokens = 0 if report is None else report.usage.input_tokens + report.usage.output_tokens
    values = {
        "run": record.id,
        "status": record.status,
        "verdict": (report and report.verdict) or "",
        "cost_usd": "" if cost is None else f"{cost:.10f}".rstrip("0").rstrip("."),
        "tokens": str(tokens),
    }
    return "".join(f"{name}<<{delimiter}\n{line_of(values[name])}\n{delimiter}\n" for name in OUTPUTS)
