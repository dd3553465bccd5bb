"""``--report sarif:FILE``: findings of agents and mistakes in the project's files, as SARIF 2.1.0.

https://docs.oasis-open.org/sarif/sarif/v2.1.0. A finding is known again by ``partialFingerprints``: its file and its
words, without numbers and however they are spaced; not by its line, which moves, nor by the run.
"""

import hashlib
import json
import re
from collections import Counter
from typing import Any, Final
from urllib.parse import quote

from interface.cli.reports.record import Level, RunRecord, findings_of, mistake_text
from interface.cli.reports.safe_text import line_of
from interface.cli.runner_log import neutral_json

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT: Final = "primaryLocationLineHash"
"""The name that GitHub's code scanning reads; it makes none of its own where it is given."""
_TEXT: Final = 2000
_FINDING: Final = "awk/finding"
_MISTAKE: Final = "awk/configuration"
_RULES: Final = {
    _FINDING: ("AgentFinding", "What an agent of a workflow says about a line of a file."),
    _MISTAKE: ("ConfigurationMistake", "A mistake in a file of agents or workflows, for which nothing was run."),
}


def log_of(record: RunRecord) -> str:
    """The document."""
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
