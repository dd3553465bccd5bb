"""``scripts/bench [GROUP...]``: run the groups and print one table. Exit code 1 when a limit is passed."""

import sys
from collections.abc import Callable, Iterator
from types import MappingProxyType

from scripts.benchmarks import (
    agents,
    collaboration,
    commands,
    fleet,
    http_rates,
    idle,
    indexing,
    landings,
    model_calls,
    nodes,
    peers,
    prompts,
    recall,
    replies,
    scheduling,
    standby,
    workers,
)
from scripts.benchmarks.figure import Figure

GROUPS: MappingProxyType[str, Callable[[], Iterator[Figure]]] = MappingProxyType(
    {
        "workers": workers.measure,
        "fleet": fleet.measure,
        "replies": replies.measure,
        "model": model_calls.measure,
        "http": http_rates.measure,
        "commands": commands.measure,
        "agents": agents.measure,
        "idle": idle.measure,
        "collaboration": collaboration.measure,
        "landings": landings.measure,
        "scheduling": scheduling.measure,
        "prompts": prompts.measure,
        "recall": recall.measure,
        "indexing": indexing.measure,
        "peers": peers.measure,
        "nodes": nodes.measure,
        "standby": standby.measure,
    }
)


def main(words: list[str]) -> int:
    """Print each figure as it is measured: whether it keeps its limit, the share of the limit, and the number."""
    unknown = [word for word in words if word not in GROUPS]
    if unknown:
        print(f"error: no group {', '.join(unknown)}; there are {', '.join(GROUPS)}", file=sys.stderr)
        return 2
    kept = True
    for name in words or GROUPS:
        for figure in GROUPS[name]():
            print(figure, flush=True)
            kept = kept and figure.ratio <= 1
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
