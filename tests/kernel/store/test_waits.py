"""Waits and holds: they have one writer."""

import ast
import re
from pathlib import Path

import kernel.store

STORE = Path(kernel.store.__path__[0])
ASSIGNMENT = re.compile(r"\b(waits_for|wait_key|hold_key|hold_reason) = |\{wait\}|\{no_wait\}")
ENDINGS = {"close.END", "requeue.PARK", "steering.RETRY"}
"""Statements that end an attempt or begin anew, and set the wait in the same breath, by rows.FRAGMENTS."""


def test_waits_alone_writes_for_what_and_by_whom_work_is_kept_back() -> None:
    found = set()
    for path in sorted(STORE.rglob("*.py")):
        for statement in ast.parse(path.read_text()).body:
            name = ast.unparse(statement.target) if isinstance(statement, ast.AnnAssign) else "?"
            for node in ast.walk(statement):
                text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
                update = re.search(r"UPDATE (?:instructions|agents) SET(.*?)(?:\bWHERE\b|$)", text, re.DOTALL)
                if update and ASSIGNMENT.search(update[1]):
                    found.add("waits" if path.stem == "waits" else f"{path.stem}.{name}")
    assert found == ENDINGS | {"waits"}
