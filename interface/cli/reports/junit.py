"""``--report junit:FILE``: a run as a suite of tests, for whatever shows those.

The run itself is the first case, and fails with it; then each piece of work, each task with a check, the vote that
decides, and what was to be merged. The elements and attributes are those on which the schemas of Jenkins and of Ant
(windyroad) agree.
"""

import xml.etree.ElementTree as ET
from typing import Final, Literal, NamedTuple

from interface.cli.reports.markdown import seconds_worked
from interface.cli.reports.record import RunRecord, findings_of, mistake_text
from interface.cli.reports.safe_text import block_of, line_of

_OUTPUT: Final = 20_000
_Outcome = Literal["failure", "error", "skipped"]


class _Case(NamedTuple):
    """One case. Without an ``outcome`` it passed."""

    name: str
    of: str
    seconds: float = 0.0
    outcome: _Outcome | None = None
    kind: str = ""
    text: str = ""


def suite_of(record: RunRecord) -> str:
    """The document."""
    cases = cases_of(record)
    count = {outcome: sum(case.outcome == outcome for case in cases) for outcome in ("failure", "error", "skipped")}
    root = ET.Element("testsuites")
    suite = ET.SubElement(
        root,
        "testsuite",
        {
            "name": line_of(record.name, 130),
            "package": "awk",
            "id": "0",
            "timestamp": record.at[:19],
            "hostname": "localhost",
            "tests": str(len(cases)),
            "failures": str(count["failure"]),
            "errors": str(count["error"]),
            "skipped": str(count["skipped"]),
            "time": f"{record.report.duration_seconds if record.report else 0:.3f}",
        },
    )
    properties = ET.SubElement(suite, "properties")
    usage = record.report.usage if record.report else None
    told = {
        "run": record.id,
        "status": record.status,
        "verdict": (record.report and record.report.verdict) or "",
        "tokens": str(usage.input_tokens + usage.output_tokens) if usage else "",
        "cost_usd": "" if usage is None or usage.cost_usd is None else f"{usage.cost_usd:.10f}",
    }
    for name, value in told.items():
        if value:
            ET.SubElement(properties, "property", {"name": name, "value": value})
    for case in cases:
        given = {"name": line_of(case.name), "classname": line_of(case.of, 200), "time": f"{case.seconds:.3f}"}
        element = ET.SubElement(suite, "testcase", given)
        if case.outcome == "skipped":
            ET.SubElement(element, "skipped")
        elif case.outcome:
            why = {"message": line_of(case.text or case.kind), "type": line_of(case.kind, 130)}
            what = ET.SubElement(element, case.outcome, why)
            what.text = "\n".join(block_of(case.text))
    found = "\n".join(f"{one.path}:{one.line}: {one.level}: {line_of(one.text)}" for one in findings_of(record))
    ET.SubElement(suite, "system-out").text = "\n".join(block_of(found, _OUTPUT))
    ET.SubElement(suite, "system-err").text = "\n".join(block_of(record.unread))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, "unicode")}\n'


def cases_of(record: RunRecord) -> list[_Case]:
    """The run first, then all that was done in it."""
    report, refusal = record.report, record.refusal
    took = report.duration_seconds if report else 0.0
    if refusal is not None or report is None:
        places = (
            [f"{one.path}:{one.line}:{one.column}: {mistake_text(one)}" for one in refusal.mistakes] if refusal else []
        )
        text = "\n".join(places) or (refusal.text if refusal else "nobody knows how it ended")
        whole = _Case("run", record.name, took, "error", refusal.code if refusal else "unknown", text)
    elif record.exit_code or report.exit_code:
        code = report.exit_code or record.exit_code
        whole = _Case("run", record.name, took, "failure", report.status, f"{report.status}, exit code {code}")
    else:
        whole = _Case("run", record.name, took)
    cases = [whole]
    for one in record.instructions:
        outcome: _Outcome | None = "failure"
        if one.status in ("done", "cancelled"):
            outcome = None if one.status == "done" else "skipped"
        elif one.status == "dead":
            outcome = "error"
        kind = f"{one.status}.{one.cause}" if one.cause else one.status
        text = one.text if outcome in ("failure", "error") else ""
        cases.append(_Case(one.id, f"{record.name}.{one.agent}", seconds_worked(one), outcome, kind, text))
    for task in record.tasks:
        ended: _Outcome | None = "skipped" if task.state != "failed" else "failure"
        ended = None if task.state == "done" else ended
        cases.append(_Case(f"{task.id} {task.title}", f"{record.name}.tasks", 0.0, ended, task.state, task.reason))
    if report is not None and report.verdict is not None:
        said_no: _Outcome | None = "failure" if report.verdict == "no" else None
        reasons = [f"{vote.voter}: {vote.choice}: {vote.reason}" for ballot in record.ballots for vote in ballot.votes]
        cases.append(_Case("verdict", record.name, 0.0, said_no, "rejected", "\n".join(reasons)))
    if report is not None and report.delivery is not None:
        delivery = report.delivery
        refused: _Outcome | None = "failure" if delivery.state == "refused" else None
        text = "\n".join((delivery.why, *delivery.files, delivery.output))
        cases.append(_Case(f"merge into {delivery.into}", record.name, 0.0, refused, "refused", text))
    return cases
