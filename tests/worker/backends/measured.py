"""The results of the contract suite as programs gave them: the matrix in docs/reference/backends.md is made of these.

``scripts/test-backends`` runs the suite against the real programs and writes the file anew.
"""

import json
import os
from pathlib import Path
from typing import Final

from tests.contracts.check_backend import Scenario
from tests.worker.backends.subject import Subject, Where

FILE: Final = Path(__file__).with_name("measured.json")
WRITE: Final = bool(os.environ.get("AGENT_WORKER_TEST_MEASURE"))
"""Set: what is run now is written down."""

Results = dict[str, dict[str, str]]


def results() -> Results:
    """Return what was measured, by program with its version, and by scenario."""
    found: Results = json.loads(FILE.read_text("utf-8"))
    return found


def titled(subject: Subject) -> str:
    """Return the name of ``subject`` with its version."""
    return f"{subject.name} {subject.version}".strip()


def expected(subject: Subject, scenario: Scenario) -> str:
    """Return the result that the suite insists on."""
    return "no" if scenario.name in subject.lacks else "weaker" if scenario.name in subject.weaker else "yes"


def note(subject: Subject, where: Where, scenario: Scenario) -> None:
    """Write down that ``subject`` just did in ``scenario`` what is expected of it. Recordings are no programs."""
    if not WRITE or where == "recorded":
        return
    found = results()
    found.setdefault(titled(subject), {})[scenario.name] = expected(subject, scenario)
    FILE.write_text(f"{json.dumps(found, indent=1, sort_keys=True)}\n", "utf-8")
