"""Checks whether an answer fits a JSON Schema: a process of its own, ``python -I -m kernel.workflows.schema_check``.

It reads ``{schema, text}`` from standard input and prints ``{"why": null}``, or why the text does not fit. It fetches
nothing, and ends after so much processor time however the schema is made.
"""

import json
import resource
import sys
from collections.abc import Iterator
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from referencing.exceptions import Unresolvable
from referencing.jsonschema import EMPTY_REGISTRY

from kernel.workflows.final_answer import NotJson, read_output

CPU_SECONDS: Final = 5
MOST_FAULTS: Final = 5


def faults(schema: dict[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The mistakes in ``schema`` itself: the path of each fault, and its text; the first few."""
    validator = Draft202012Validator(
        Draft202012Validator.META_SCHEMA, format_checker=Draft202012Validator.FORMAT_CHECKER
    )
    for count, error in enumerate(validator.iter_errors(schema)):
        if count == MOST_FAULTS:
            return
        yield tuple(error.absolute_path), error.message


def mismatch(schema: dict[str, Any], text: str) -> str | None:
    """The reason why ``text`` does not fit ``schema``; None where it does."""
    try:
        value = read_output(text)
    except NotJson as wrong:
        return f"it is not JSON: {wrong}"
    try:
        error = best_match(Draft202012Validator(schema, registry=EMPTY_REGISTRY).iter_errors(value))
    except Unresolvable as missing:
        return f"output_schema refers to what is not there: {missing.ref}"
    except RecursionError:
        return "output_schema refers to itself without end"
    if error is None:
        return None
    text = error.message
    return f"{error.json_path}: {text if len(text) <= 300 else f'{text[:140]} ... {text[-140:]}'}"


def main() -> int:
    """Read, judge, print."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    asked = json.load(sys.stdin)
    json.dump({"why": mismatch(asked["schema"], asked["text"])}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
