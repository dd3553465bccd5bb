"""Sequences of commits for as long as one likes: ``python -m tests.kernel.store.soak [COUNT]``.

Every sequence is new each time; one that does not agree with the plain model is shown, made as short as it can be.
"""

import sys
import time
from typing import Final

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.kernel.store.machine import FileMachine, StoreMachine

COUNT: Final = 2000
STEPS: Final = 100
FILE_SHARE: Final = 10
"""One in so many runs in a file."""


def main(argv: list[str]) -> int:
    """Run ``COUNT`` sequences in memory and a tenth of that in files."""
    count = int(argv[0]) if argv else COUNT
    for machine, examples in ((StoreMachine, count), (FileMachine, max(count // FILE_SHARE, 1))):
        began = time.monotonic()
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=examples,
                stateful_step_count=STEPS,
                deadline=None,
                database=None,
                suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
            ),
        )
        taken = time.monotonic() - began
        sys.stdout.write(f"{machine.__name__}: {examples} sequences agree with the model, {taken:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
