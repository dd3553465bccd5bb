"""docs/promises.md, made of docs/promises.yaml: ``scripts/generate``."""

import sys
from collections.abc import Iterator
from functools import cache
from typing import Final

import msgspec
import yaml

from tests.architecture.sources import ROOT

_OPENING: Final = """\
# What is promised, and what proves it

Each row: the promise, how it is kept, and up to three tests that would fail if it were not. All tests of a promise have
its id, as `@pytest.mark.promise("P3")`; `scripts/test --promise P3` runs every one of them. The numbers have gaps: what
is missing is not promised yet. How the long trials ended, and where the promises stop: [trials.md](trials.md).

*This page is written by `scripts/generate` from `docs/promises.yaml`.*

| | promise | kept by | proved by |
|---|---|---|---|
"""
_FAULTS: Final = """
## Faults

What may go wrong, what has to come of it, and tests that make it go wrong, or the reason why there are none.
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
    """Everything in docs/promises.yaml."""

    promises: tuple[Promise, ...]
    faults: tuple[Family, ...]

    @property
    def proofs(self) -> dict[str, tuple[str, ...]]:
        rows: list[Promise | Fault] = [*self.promises, *(fault for family in self.faults for fault in family.rows)]
        return {row.id: row.tests for row in rows}


@cache
def read_promises() -> Promises:
    return msgspec.convert(yaml.safe_load((ROOT / "docs/promises.yaml").read_text("utf-8")), Promises)


def _proof(fault: Fault) -> str:
    if not fault.tests:
        return f"reason: {fault.reason}"
    return ". ".join(text for text in (", ".join(fault.tests), fault.note) if text)


def _lines(data: Promises) -> Iterator[str]:
    for row in data.promises:
        yield f"| {row.id} | {row.promise} | {row.kept_by} | {', '.join(row.tests)} |\n"
    yield _FAULTS
    for family in data.faults:
        yield f"\n### {family.family}\n\n| | outcome | test, or reason |\n|---|---|---|\n"
        for fault in family.rows:
            yield f"| {fault.id} | {fault.outcome} | {_proof(fault)} |\n"


def page() -> str:
    return _OPENING + "".join(_lines(read_promises()))


if __name__ == "__main__":
    sys.stdout.write(page())
