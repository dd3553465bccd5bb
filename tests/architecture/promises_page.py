"""docs/contributing/promises.md, made of docs/contributing/promises.yaml: ``scripts/generate``."""

import sys
import textwrap
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

import msgspec
import yaml

from tests.architecture.sources import ROOT

_OPENING: Final = """\
# Promises

Each promise has the means by which it is kept, and up to three tests that fail if it is broken. All
tests of a promise have its id, as `@pytest.mark.promise("P3")`:

<!-- not run: runs the tests -->
```console
$ scripts/test --promise P3
```

Numbers have gaps: a missing number is not promised yet. [Trials](trials.md) has the results of the
long trials, [Safety and promises](../explanation/safety.md#where-the-promises-end) the limits.

*This page is written by `scripts/generate` from `docs/contributing/promises.yaml`.*
"""
_FAULTS: Final = """
## Faults

What can go wrong, the required outcome, and tests that cause the fault, or the reason for none.
"""


class Promise(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that users may rely on."""

    id: str
    promise: str
    kept_by: str
    tests: tuple[str, ...]


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that may go wrong. Without tests it has a ``reason``."""

    id: str
    outcome: str
    tests: tuple[str, ...] = ()
    reason: str = ""
    note: str = ""


class Family(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Faults of one part of the system."""

    family: str
    rows: tuple[Fault, ...]


class Promises(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything in docs/contributing/promises.yaml."""

    promises: tuple[Promise, ...]
    faults: tuple[Family, ...]

    @property
    def proofs(self) -> dict[str, tuple[str, ...]]:
        rows: list[Promise | Fault] = [*self.promises, *(fault for family in self.faults for fault in family.rows)]
        return {row.id: row.tests for row in rows}


@cache
def read_promises() -> Promises:
    return msgspec.convert(yaml.safe_load((ROOT / "docs/contributing/promises.yaml").read_text("utf-8")), Promises)


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, expand_tabs=False
    )


def _tests(paths: Sequence[str]) -> str:
    return ", ".join(f"`{path}`" for path in paths)


def _lines(data: Promises) -> Iterator[str]:
    for row in data.promises:
        yield f"\n### {row.id}\n\n{_wrapped(row.promise)}.\n\n"
        yield _wrapped(f"- Kept by: {row.kept_by}", "  ") + "\n"
        yield _wrapped(f"- Tests: {_tests(row.tests)}", "  ") + "\n"
    yield _FAULTS
    for family in data.faults:
        yield f"\n### {family.family}\n"
        for fault in family.rows:
            proof = f"Tests: {_tests(fault.tests)}" if fault.tests else f"No test: {fault.reason}"
            text = f"{fault.outcome[:1].upper()}{fault.outcome[1:]}." + (f" {fault.note}." if fault.note else "")
            yield f"\n#### {fault.id}\n\n{_wrapped(text)}\n\n"
            yield _wrapped(f"- {proof}", "  ") + "\n"


def page() -> str:
    return _OPENING + "".join(_lines(read_promises()))


if __name__ == "__main__":
    sys.stdout.write(page())
