"""Machine-readable reports: GitHub annotations and outputs, SARIF for code scanning, and JUnit XML.

``github`` (https://docs.github.com/actions/reference/workflow-commands-for-github-actions): texts of agents occur only
in the message of a command, encoded so that they cannot end it or start another command.

``sarif:FILE`` (https://docs.oasis-open.org/sarif/sarif/v2.1.0): findings of agents and mistakes in the project's files.
``partialFingerprints`` identify a finding by its file and its text without numbers and whitespace. Lines and runs are
not part of the fingerprint, because they change.

``junit:FILE``: a run as a test suite. The first case is the run itself, which fails if the run fails. The other cases
are the instructions, the tasks with a check, the deciding vote and the merge. Elements and attributes are those on
which the schemas of Jenkins and Ant (windyroad) agree.
"""

import hashlib
import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote

from interface.cli.reports.markdown import seconds_worked
from interface.cli.reports.record import Level, RunRecord, block_of, findings_of, line_of, mistake_text
from interface.cli.runner_log import neutral_json

MOST_ANNOTATIONS: Final = 50
"""Maximum number of annotations that GitHub shows for a job; for a step, it shows ten of each level."""
_OF_LEVEL: Final = {"error": "error", "warning": "warning", "note": "notice"}
_MESSAGE: Final = 1000
OUTPUTS: Final = ("run", "status", "verdict", "cost_usd", "tokens")


class _Annotation(NamedTuple):
    """Annotation for GitHub's runner; ``at`` has the location properties, "" without a file."""

    level: str
    title: str
    text: str
    at: str = ""

    def command(self) -> str:
        """Return the annotation as an escaped runner command."""
        title = f"title={property_value(line_of(self.title, 200))}"
        return f"::{self.level} {self.at}{title}::{_data(line_of(self.text, _MESSAGE))}"


def place_of(path: str, line: int, column: int | None) -> str:
    """Return the location properties of a command."""
    given = {"file": line_of(path, 400), "line": line, "col": column}
    return "".join(f"{key}={property_value(str(value))}," for key, value in given.items() if value)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def property_value(text: str) -> str:
    """Encode ``text`` as a property value, in which a comma or a colon would end it."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def annotations_of(record: RunRecord) -> list[str]:
    """Return the commands, the most severe first: mistakes in files, findings, failures, needs of people."""
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
    """Return the step outputs, each between unpredictable delimiters (``delimiter`` is random)."""
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


SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT: Final = "primaryLocationLineHash"
"""Name of the finding for GitHub code scanning, which otherwise derives its own."""
_TEXT: Final = 2000
_FINDING: Final = "awk/finding"
_MISTAKE: Final = "awk/configuration"
_RULES: Final = {
    _FINDING: ("AgentFinding", "What an agent of a workflow says about a line of a file."),
    _MISTAKE: ("ConfigurationMistake", "A mistake in a file of agents or workflows, for which nothing was run."),
}


def log_of(record: RunRecord) -> str:
    """Return the SARIF document."""
    results: list[dict[str, Any]] = []
    seen: Counter[str] = Counter()

    def add(rule: str, level: Level, text: str, path: str, line: int, column: int | None, who: str) -> None:
        words = re.sub(r"\d+", "0", " ".join(text.casefold().split()))
        digest = hashlib.sha256(f"{rule}\n{path}\n{words}".encode("utf-8", "backslashreplace")).hexdigest()[:16]
        seen[digest] += 1
        region = {"startLine": max(line, 1), **({"startColumn": column} if column else {})}
        place = {
            "artifactLocation": {"uri": quote(line_of(record.prefix + path), safe="/"), "uriBaseId": "%SRCROOT%"},
            "region": region,
        }
        result = {
            "ruleId": rule,
            "ruleIndex": list(_RULES).index(rule),
            "level": level,
            "message": {"text": _plain(text)},
            "locations": [{"physicalLocation": place}],
            "partialFingerprints": {FINGERPRINT: f"{digest}:{seen[digest]}"},
        }
        results.append({**result, "properties": {"agent": line_of(who, 64)}} if who else result)

    for mistake in record.refusal.mistakes if record.refusal else ():
        add(_MISTAKE, "error", mistake_text(mistake), mistake.path, mistake.line, mistake.column, "")
    for one in findings_of(record):
        add(_FINDING, one.level, one.text, one.path, one.line, one.column, one.author)
    notes = [f"{one.agent}: {one.id} {one.status}: {one.text}" for one in record.failed]
    notes += [record.refusal.text] if record.refusal else []
    invocation: dict[str, Any] = {
        "executionSuccessful": record.report is not None and record.report.exit_code == 0,
        "exitCode": record.exit_code,
    }
    if notes:
        told = [{"level": "error", "message": {"text": _plain(note)}} for note in notes[:100]]
        invocation["toolExecutionNotifications"] = told
    rules = [
        {"id": name, "name": title, "shortDescription": {"text": text}, "defaultConfiguration": {"level": "warning"}}
        for name, (title, text) in _RULES.items()
    ]
    driver = {"name": "agent-worker", "version": record.version, "semanticVersion": record.version, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"awk/{line_of(record.name, 130).replace(':', '/')}/"},
        "invocations": [invocation],
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return neutral_json(json.dumps(document, ensure_ascii=False, indent=1)) + "\n"


def _plain(text: str) -> str:
    return re.sub(r"[\\\[\]]", r"\\\g<0>", line_of(text, _TEXT)) or "-"


_OUTPUT: Final = 20_000
_Outcome = Literal["failure", "error", "skipped"]


class _Case(NamedTuple):
    """Test case; passed if ``outcome`` is empty."""

    name: str
    of: str
    seconds: float = 0.0
    outcome: _Outcome | None = None
    kind: str = ""
    text: str = ""


def suite_of(record: RunRecord) -> str:
    """Return the JUnit document."""
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
    """Return the case of the run, followed by the cases of its work."""
    report, refusal = record.report, record.refusal
    took = report.duration_seconds if report else 0.0
    if refusal is not None or report is None:
        places = (
            [f"{one.path}:{one.line}:{one.column}: {mistake_text(one)}" for one in refusal.mistakes] if refusal else []
        )
        text = "\n".join(places) or (refusal.text if refusal else "the result is unknown")
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
