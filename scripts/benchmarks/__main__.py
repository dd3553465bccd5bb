"""``scripts/bench [GROUP...]``: run groups of benchmarks (default: all) and print a table of their figures.

Exit code 1: a figure exceeds its limit. Exit code 2: an unknown group.
"""

import importlib
import sys
from typing import Final

GROUPS: Final = {
    **{name: name for name in ("workers", "fleet", "replies")},
    "model": "model_calls",
    "http": "http_rates",
    **{name: name for name in ("commands", "agents", "collaboration", "landings", "scheduling", "prompts")},
    **{name: name for name in ("recall", "indexing", "peers", "nodes", "standby", "wakeups")},
}
"""Names of the benchmark groups and of their modules."""


def main(words: list[str]) -> int:
    """Run the benchmark groups in ``words`` and print each figure when it is measured. Returns the exit code."""
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
