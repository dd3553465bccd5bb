"""Comparison with langgraph (SqliteSaver) and dbos (SQLite): ratios of rates and times, in alternating batches.

The other frameworks do the work in threads of one process. agent-worker uses HTTP and an isolated worker for each
message. The first run installs pinned versions of the frameworks into ``.peers``, beside ``.venv``.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from scripts.benchmarks.figure import Figure, p50
from scripts.benchmarks.load import by_turns, rate, timed
from scripts.benchmarks.replies import CLIENTS, ENTRIES, ENTRY_FILES, entries_rate, serve
from scripts.benchmarks.running_kernel import MOCK, running

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / ".peers"
PACKAGES: Final = ("langgraph==1.2.22", "langgraph-checkpoint-sqlite==3.1.2", "dbos==3.4.0")
NAMES: Final = ("langgraph", "dbos")
ROUNDS: Final = 5
WARM_UP: Final = 10
TIMES: Final = 60
SECONDS: Final = 3.0
Round = tuple[list[float], float, float]
"""Milliseconds of each message with one client, messages per second with CLIENTS clients, durable steps per second."""


def _install() -> str:
    """Return the Python of the environment with PACKAGES; create the environment if it is missing or outdated."""
    python, stamp = FOLDER / "bin/python", FOLDER / "installed"
    if not stamp.exists() or stamp.read_text().split() != list(PACKAGES):
        print(f"installing {', '.join(PACKAGES)} into {FOLDER.name} (once)", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", FOLDER], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
        subprocess.run([*pip, *PACKAGES], check=True)
        stamp.write_text("\n".join(PACKAGES))
    return str(python)


class Peer:
    """Running process of scripts/benchmarks/peer_program.py."""

    def __init__(self, name: str, process: "subprocess.Popen[str]") -> None:
        self._name = name
        self._process = process

    def ask(self, do: str, **more: object) -> Any:
        """Send a request and return the decoded answer. Raises RuntimeError if the process exited."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"do": do, **more}), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._name} ended with {self._process.wait()}")
        return json.loads(line)


@contextmanager
def _running_peer(name: str, python: str) -> Generator[Peer]:
    with tempfile.TemporaryDirectory(prefix="awk-bench-") as folder, open(f"{folder}/log", "w") as log:
        command = [python, "-I", str(ROOT / "scripts/benchmarks/peer_program.py"), name, folder]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder
        ) as process:
            try:
                yield Peer(name, process)
            finally:
                process.kill()


def measure() -> Iterator[Figure]:
    """Yield the ratios. The products alternate, so that a slow phase of the machine affects all of them."""
    python = _install()
    files = {f".agents/a{number}.yaml": MOCK for number in range(CLIENTS)} | ENTRY_FILES
    with ExitStack() as stack:
        peers = {name: stack.enter_context(_running_peer(name, python)) for name in NAMES}
        measured = stack.enter_context(running(files))
        one = serve(measured, "a0")
        timed(one, WARM_UP)
        for peer in peers.values():
            peer.ask("messages", times=WARM_UP)

        def ours() -> Round:
            at_once = rate(lambda number: serve(measured, f"a{number}"), CLIENTS, SECONDS)
            return timed(one, TIMES), at_once, entries_rate(measured, 1)

        def theirs(peer: Peer) -> Round:
            at_once = peer.ask("clients", clients=CLIENTS, seconds=SECONDS)
            return peer.ask("messages", times=TIMES), at_once, peer.ask("steps", times=ENTRIES)

        work: dict[str, Callable[[], Round]] = {name: partial(theirs, peer) for name, peer in peers.items()}
        rounds = by_turns({"ours": ours, **work}, ROUNDS)
    taken = {name: p50([one for times, _, _ in found for one in times]) for name, found in rounds.items()}
    rates = {name: p50([one for _, one, _ in found]) for name, found in rounds.items()}
    steps = {name: p50([one for _, _, one in found]) for name, found in rounds.items()}
    for name in rounds:
        print(
            f"     {name:<10} {taken[name]:6.2f} ms a message, {rates[name]:6.1f}/s at {CLIENTS} clients,"
            f" {steps[name]:6.0f} durable steps/s",
            flush=True,
        )
    yield Figure("message to reply at 1 client, share of dbos", taken["ours"] / taken["dbos"], 0.7, "x")
    share = rates["ours"] / rates["langgraph"]
    yield Figure(f"messages at {CLIENTS} clients, share of langgraph", share, 1.3, "x", least=True)
    share = steps["ours"] / steps["dbos"]
    yield Figure("durable steps one after the other, share of dbos", share, 1, "x", least=True)
