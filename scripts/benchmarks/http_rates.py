"""Request rates of the REST API and the Daemon MCP, as a share of the rate of a handler that does nothing."""

import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial

from scripts.benchmarks.figure import Figure, p50
from scripts.benchmarks.load import LoadConnection, by_turns, rate
from scripts.benchmarks.running_kernel import Team, working_team

CLIENTS = 16
SECONDS = 2.0
ROUNDS = 3


@contextmanager
def bare() -> Generator[int]:
    """Run scripts.benchmarks.bare in a separate process and yield its port."""
    command = [sys.executable, "-m", "scripts.benchmarks.bare"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.kill()


def _tool(team: Team, name: str, arguments: dict[str, object]) -> Callable[[int], Callable[[], object]]:
    def client(_: int) -> Callable[[], object]:
        tool = team.tool("m0", name)

        def call() -> None:
            answer = tool(arguments)
            if answer.get("isError"):
                raise RuntimeError(str(answer))

        return call

    return client


def _post(make: Callable[[], LoadConnection], path: str, body: object) -> Callable[[int], Callable[[], object]]:
    def client(_: int) -> Callable[[], object]:
        connection = make()
        return lambda: connection.call("POST", path, body)

    return client


def measure() -> Iterator[Figure]:
    """Yield the figures from interleaved rounds, so that a slow phase of the machine affects all rates."""
    with bare() as port, working_team(1) as team:
        said = {"to": "@team", "text": "x" * 200}
        kinds = {
            "bare": _post(lambda: LoadConnection(port), "/", said),
            "POST /messages, share of a bare handler": _post(team.measured.connect, "/messages", said),
            "MCP team_members, share of a bare handler": _tool(team, "team_members", {}),
            "MCP channel_send, share of a bare handler": _tool(team, "channel_send", {"message": "x" * 200}),
        }
        rates = by_turns({name: partial(rate, make, CLIENTS, SECONDS) for name, make in kinds.items()}, ROUNDS)
        yardstick = p50(rates.pop("bare"))
        for name, values in rates.items():
            yield Figure(name, p50(values) / yardstick, 0.6, "x", least=True)
