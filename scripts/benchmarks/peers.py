"""Comparison with langgraph (SqliteSaver), dbos (SQLite), circus and Popen: ratios of rates and times.

The products alternate. ``AWK_BENCH_ROUNDS`` sets the number of rounds. The frameworks work in threads of one process.
agent-worker uses HTTP and an isolated worker for each message. The first run installs pinned versions of the others
into ``.peers``, beside ``.venv``.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from kernel.agents.catalog import Catalog
from kernel.source.diagnostics import BadDefinition
from scripts.benchmarks.beside import measure_beside
from scripts.benchmarks.commands import measure_queries, measure_ready
from scripts.benchmarks.figure import Figure, p50, p99
from scripts.benchmarks.load import by_turns, rate, timed
from scripts.benchmarks.replies import CLIENTS, ENTRIES, ENTRY_FILES, entries_rate, serve
from scripts.benchmarks.running_kernel import MOCK, MeasuredProject, empty_project, running
from scripts.benchmarks.supervisors import measure_memory, measure_supervisors

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / ".peers"
PACKAGES: Final = ("langgraph==1.2.22", "langgraph-checkpoint-sqlite==3.1.2", "dbos==3.4.0", "circus==0.19.0")
NAMES: Final = ("langgraph", "dbos")
ROUNDS: Final = int(os.environ.get("AWK_BENCH_ROUNDS", "5"))
WARM_UP: Final = 10
TIMES: Final = 60
SECONDS: Final = 3.0


class Round(NamedTuple):
    """Results of one round of a product: milliseconds of each message with one client, and rates per second."""

    taken: list[float]
    at_once: float
    """Messages of CLIENTS clients."""
    steps: float
    """Durable steps of one worker."""
    kept: float = 0.0
    """Messages of CLIENTS clients whose agents have ``reuse: auto``."""


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
    """Yield the figures, our own ones last."""
    python = _install()
    yield from _measure_frameworks(python)
    yield from measure_supervisors(python)
    yield measure_ready()
    yield from measure_queries()
    yield from measure_memory()
    if "AWK_BENCH_BESIDE" in os.environ:
        yield from measure_beside(Path(os.environ["AWK_BENCH_BESIDE"]).resolve())


def _reuse() -> str:
    """Return the value of ``reuse`` for workers that are kept: ``auto``, or a number if ``auto`` is not supported."""
    with empty_project() as project:
        project.write(".agents/a.yaml", f"{MOCK}reuse: auto\n")
        try:
            Catalog(project.root).agent("a")
        except BadDefinition:
            return "20"
        return "auto"


def _ours(measured: MeasuredProject) -> Round:
    fresh, kept = (
        rate(lambda number, name=name: serve(measured, f"{name}{number}"), CLIENTS, SECONDS)  # type: ignore[misc]
        for name in ("a", "r")
    )
    return Round(timed(serve(measured, "a0"), TIMES), fresh, entries_rate(measured, 1), kept)


def _theirs(peer: Peer) -> Round:
    at_once = peer.ask("clients", clients=CLIENTS, seconds=SECONDS)
    return Round(peer.ask("messages", times=TIMES), at_once, peer.ask("steps", times=ENTRIES))


def _measure_frameworks(python: str) -> Iterator[Figure]:
    reuse = _reuse()
    files = {f".agents/a{number}.yaml": MOCK for number in range(CLIENTS)} | ENTRY_FILES
    files |= {f".agents/r{number}.yaml": f"{MOCK}reuse: {reuse}\n" for number in range(CLIENTS)}
    with ExitStack() as stack:
        peers = {name: stack.enter_context(_running_peer(name, python)) for name in NAMES}
        measured = stack.enter_context(running(files))
        timed(serve(measured, "a0"), WARM_UP)
        for peer in peers.values():
            peer.ask("messages", times=WARM_UP)
        work: dict[str, Callable[[], Round]] = {name: partial(_theirs, peer) for name, peer in peers.items()}
        work = {"ours": partial(_ours, measured), **work}
        rounds = by_turns(work, ROUNDS)
    every = {name: [one for found in rounds[name] for one in found.taken] for name in rounds}
    taken = {name: p50(times) for name, times in every.items()}
    rates = {name: p50([found.at_once for found in rounds[name]]) for name in rounds}
    steps = {name: p50([found.steps for found in rounds[name]]) for name in rounds}
    kept = p50([found.kept for found in rounds["ours"]])
    for name in rounds:
        print(
            f"     {name:<10} {taken[name]:6.2f} ms a message, {rates[name]:6.1f}/s at {CLIENTS} clients,"
            f" {steps[name]:6.0f} durable steps/s",
            flush=True,
        )
    for name, limit in (("dbos", 0.85), ("langgraph", 1.6)):
        yield Figure(f"message to reply at 1 client, share of {name}", taken["ours"] / taken[name], limit, "x")
    yield Figure("message to reply at 1 client, p99 as a share of p50", p99(every["ours"]) / taken["ours"], 2, "x")
    for name, limit in (("langgraph", 1), ("dbos", 1.6)):
        share = rates["ours"] / rates[name]
        yield Figure(f"messages at {CLIENTS} clients, share of {name}", share, limit, "x", least=True)
    share = kept / rates["langgraph"]
    yield Figure(f"the same with reuse: {reuse} ({kept:.0f}/s), share of langgraph", share, 1.3, "x", least=True)
    share = steps["ours"] / steps["dbos"]
    yield Figure("durable steps one after the other, share of dbos", share, 3.5, "x", least=True)
