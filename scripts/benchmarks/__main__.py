"""``scripts/bench [GROUP...] [--seconds N] [--beside DIR]``: run groups of benchmarks (default: all), print figures.

``--seconds``: duration of ``wakeups``. ``--beside``: another checkout, with which ``peers`` compares the CPU time.

Exit code 1: a figure exceeds its limit. Exit code 2: an unknown group.
"""

import importlib
import os
import sys
from typing import Final

GROUPS: Final = {
    **{name: name for name in ("workers", "fleet", "replies")},
    "model": "model_calls",
    "http": "http_rates",
    "gateway": "gateway",
    **{name: name for name in ("commands", "agents", "collaboration", "landings", "scheduling", "prompts")},
    **{name: name for name in ("recall", "indexing", "peers", "nodes", "standby", "wakeups")},
}
"""Names of the benchmark groups and of their modules."""
OPTIONS: Final = {"--seconds": "AWK_BENCH_SECONDS", "--beside": "AWK_BENCH_BESIDE"}
"""Options and the variables in which benchmarks read them."""


def main(words: list[str]) -> int:
    """Run the benchmark groups in ``words`` and print each figure when it is measured. Returns the exit code."""
    for option, variable in OPTIONS.items():
        if option in words[:-1]:
            place = words.index(option)
            os.environ[variable] = words[place + 1]
            words = words[:place] + words[place + 2 :]
    unknown = [word for word in words if word not in GROUPS]
    if unknown:
        print(f"error: no group {', '.join(unknown)}; there are {', '.join(GROUPS)}", file=sys.stderr)
        return 2
    kept = True
    for name in words or GROUPS:
        for figure in importlib.import_module(f"scripts.benchmarks.{GROUPS[name]}").measure():
            print(figure, flush=True)
            kept = kept and figure.ratio <= 1
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
