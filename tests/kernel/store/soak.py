"""Sequences of commits for as long as one likes: ``python -m tests.kernel.store.soak [COUNT] [--seed N]``.

Prints the seed that the sequences follow from, a new one unless it is given. One that does not agree with the plain
model is shown, made as short as it can be. Histories of documents (``--documents``) have a seed each, by which one that
does not agree is found again.
"""

import argparse
import random
import secrets
import sys
import time
from typing import Final

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.kernel.store.document_machine import DocumentMachine, FileDocumentMachine
from tests.kernel.store.machine import FileMachine, StoreMachine

STEADY: Final = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # scripts/soak store makes a failure as short as it can be; that may take minutes
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
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


def play(machine: type[DocumentMachine], count: int, first: int) -> int:
    """Histories of documents, one a seed from ``first``. Returns how many steps they had."""
    steps = 0
    for number in range(first, first + count):
        one = machine()
        try:
            steps += one.play(random.Random(number), STEPS)
        except BaseException:
            sys.stdout.write(f"seed {number} of {machine.__name__}: scripts/soak documents 1 --seed {number}\n")
            raise
        finally:
            one.teardown()
    return steps


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
    count = asked.count or (DOCUMENTS if asked.documents else COUNT)
    in_files = max(count // FILE_SHARE, 1)
    if asked.documents:
        for kind, examples in ((DocumentMachine, count), (FileDocumentMachine, in_files)):
            began = time.process_time()
            steps = play(kind, examples, number)
            taken = time.process_time() - began
            told = f"{examples:,} histories from seed {number}, {steps:,} steps, agree with the model"
            sys.stdout.write(f"{kind.__name__}: {told}, {taken:.0f} s CPU\n")
            sys.stdout.flush()
        return 0
    for machine, examples in ((StoreMachine, count), (FileMachine, in_files)):
        began = time.monotonic()
        run(machine, examples, number)
        taken = time.monotonic() - began
        sys.stdout.write(f"{machine.__name__}: {examples} sequences agree with the model, {taken:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
