"""``scripts/bench [GROUP...]``: run the groups and print one table. Exit code 1 when a limit is passed."""

import importlib
import sys
from typing import Final

GROUPS: Final = {
    **{name: name for name in ("workers", "fleet", "replies")},
    "model": "model_calls",
    "http": "http_rates",
    **{name: name for name in ("commands", "agents", "collaboration", "landings", "scheduling", "prompts")},
    **{name: name for name in ("recall", "indexing", "peers", "nodes", "standby")},
}
"""The module of each group."""


def main(words: list[str]) -> int:
    """Print each figure as it is measured: whether it keeps its limit, the share of the limit, and the number."""
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
