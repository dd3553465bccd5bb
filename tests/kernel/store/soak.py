"""Sequences of commits for as long as one likes: ``python -m tests.kernel.store.soak [COUNT] [--seed N]``.

Prints the seed that the sequences follow from, a new one unless it is given. One that does not agree with the plain
model is shown, made as short as it can be.
"""

import argparse
import secrets
import sys
import time
from typing import Final

from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.kernel.store.document_machine import DocumentMachine, FileDocumentMachine
from tests.kernel.store.machine import FileMachine, StoreMachine

COUNT: Final = 2000
DOCUMENTS: Final = 10_000
STEPS: Final = 100
FILE_SHARE: Final = 10
"""One in so many runs in a file."""


def run(machine: type[RuleBasedStateMachine], examples: int, number: int) -> None:
    """The ``examples`` sequences of ``machine`` that the seed ``number`` makes. Raises what does not agree."""
    seeded = seed(number)(type(machine.__name__, (machine,), {}))
    run_state_machine_as_test(
        seeded,
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )


def main(argv: list[str]) -> int:
    """Run ``FEEDBACK_COUNT`` sequences in memory and a tenth of that in files."""
    parser = argparse.ArgumentParser(prog="tests.kernel.store.soak", description="Try sequences of commits.")
    parser.add_argument("count", type=int, nargs="?", help="how many sequences in memory")
    parser.add_argument("--documents", action="store_true", help="histories of documents in place of all commits")
    parser.add_argument("--seed", type=int, help="of an earlier run, to have its sequences again")
    asked = parser.parse_args(argv)
    number = secrets.randbelow(2**32) if asked.seed is None else asked.seed
    sys.stdout.write(f"seed {number}\n")
    sys.stdout.flush()
    in_memory, in_file = (DocumentMachine, FileDocumentMachine) if asked.documents else (StoreMachine, FileMachine)
    count = asked.count or (DOCUMENTS if asked.documents else COUNT)
    for machine, examples in ((in_memory, count), (in_file, max(count // FILE_SHARE, 1))):
        began = time.monotonic()
        run(machine, examples, number)
        taken = time.monotonic() - began
        sys.stdout.write(f"{machine.__name__}: {examples} sequences agree with the model, {taken:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
