"""Validation of an answer against a JSON Schema in a separate process, ``python -I -m kernel.workflows.schema_check``.

The answer is JSON: the whole text, or one fenced block. The process reads ``{schema, text}`` from standard input and
prints ``{"why": null}``, or the reason of a mismatch. It fetches nothing, and its CPU time is limited for any schema.
"""

import json
import re
import resource
import sys
from collections.abc import Iterator
from typing import Any, Final, NoReturn

_FENCED: Final = re.compile(r"\s*(?P<marks>`{3,})[a-zA-Z]*[ ]*\n(?P<body>.*?)\n(?P=marks)\s*", re.DOTALL)


class NotJson(ValueError):
    """A text that is not a single JSON value. The error text has the position."""


def read_output(text: str) -> Any:
    """Return the JSON value in ``text``, alone or as one fenced block. Raises NotJson."""
    match = _FENCED.fullmatch(text)
    try:
        return json.loads(match["body"] if match else text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)[:200] if isinstance(error, ValueError) else "the JSON is nested too deeply") from error


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


CPU_SECONDS: Final = 5
MOST_FAULTS: Final = 5


def faults(schema: dict[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the first errors in ``schema`` itself, each with its path and text."""
    from jsonschema import Draft202012Validator as Draft  # noqa: PLC0415  (0.1 s; the kernel imports this module)

    validator = Draft(Draft.META_SCHEMA, format_checker=Draft.FORMAT_CHECKER)
    for count, error in enumerate(validator.iter_errors(schema)):
        if count == MOST_FAULTS:
            return
        yield tuple(error.absolute_path), error.message


def mismatch(schema: dict[str, Any], text: str) -> str | None:
    """Return why ``text`` does not match ``schema``, or None."""
    from jsonschema import Draft202012Validator, exceptions  # noqa: PLC0415  (as above)
    from referencing.exceptions import Unresolvable  # noqa: PLC0415
    from referencing.jsonschema import EMPTY_REGISTRY  # noqa: PLC0415

    try:
        value = read_output(text)
    except NotJson as wrong:
        return f"not JSON: {wrong}"
    try:
        error = exceptions.best_match(Draft202012Validator(schema, registry=EMPTY_REGISTRY).iter_errors(value))
    except Unresolvable as missing:
        return f"output_schema has a broken reference: {missing.ref}"
    except RecursionError:
        return "output_schema refers to itself endlessly"
    if error is None:
        return None
    text = error.message
    return f"{error.json_path}: {text if len(text) <= 300 else f'{text[:140]} ... {text[-140:]}'}"


def main() -> int:
    """Read a request from standard input, and print the result of its check."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    asked = json.load(sys.stdin)
    json.dump({"why": mismatch(asked["schema"], asked["text"])}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
