"""Sequences of commits for as long as one likes: ``python -m tests.kernel.store.soak [COUNT [SEED]]``.

The sequences are new each time, unless the seed that was printed is given; one that does not agree with the plain
model is shown, made as short as it can be.
"""

import secrets
import sys
import time
from typing import Final

from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.kernel.store.machine import FileMachine, StoreMachine

COUNT: Final = 2000
STEPS: Final = 100
FILE_SHARE: Final = 10
"""One in so many runs in a file."""


def main(argv: list[str]) -> int:
    """Run ``COUNT`` sequences in memory and a tenth of that in files."""
    count = int(argv[0]) if argv else COUNT
    chosen = int(argv[1]) if len(argv) > 1 else secrets.randbelow(2**32)
    sys.stdout.write(f"seed {chosen}\n")
    sys.stdout.flush()
    for machine, examples in ((StoreMachine, count), (FileMachine, max(count // FILE_SHARE, 1))):
        began = time.monotonic()
        run_state_machine_as_test(
            seed(chosen)(machine),
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
