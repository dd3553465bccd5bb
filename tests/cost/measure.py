"""Measures a message to a real kernel, from its request to the end of its attempt, and compares with the record.

Some turns of the event loop depend on the timing of processes: the best of BATCHES counts.
"""

import json
import os
import select
import subprocess
import sys
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw

from protocol.discovery import DATABASE
from scripts.benchmarks.load import LoadConnection, together
from tests.e2e.processes import wait_until
from tests.project import Project, empty_project

RECORDS: Final = Path(__file__).parent
BATCHES: Final = 3
LIMITS: Final = {"calls": 1.08, "stats": 1.04, "commits": 1.1, "pages": 1.04, "bytes": 1.1}
"""By how much a figure may exceed its record, because of timing."""
ENDED: Final = "SELECT ended_ms FROM attempts WHERE instruction = ?"


class Load(NamedTuple):
    """Clients that send ``messages`` each per batch, one after the other, each to an agent of its own."""

    messages: int = 8
    clients: int = 1
    text: str = "hello"


LOADS: Final = {"empty": Load(), "memory": Load(), "thread": Load(text="word " * 800), "clients": Load(3, 16)}


class Cost(NamedTuple):
    figures: dict[str, float]
    functions: dict[str, float]


def measure(folder: Path) -> dict[str, Cost]:
    """Return what a message costs, by load."""
    project = empty_project(folder)
    for name, load in LOADS.items():
        for client in range(load.clients):
            project.agent(f"{name}{client}", f"text: {json.dumps(load.text)}")
    project.write(".agents/memory0/memory/working.yaml", "".join(f"fact-{n}: hello from line {n}\n" for n in range(40)))
    words = [sys.executable, "-m", "tests.cost.counting_kernel", "--project", str(project.root), "--trust"]
    root, pipe = Path(__file__).parents[2], subprocess.PIPE
    with subprocess.Popen(words, cwd=root, env=project.environ, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            wait_until(lambda: _is_ready(project))
            # Open until the end: a close would drop SQLite's locks of this process.
            with open(f"{project.state / DATABASE}-shm", "rb") as index:
                return {name: _measured(_Kernel(project, process, index.fileno()), name, LOADS[name]) for name in LOADS}
        finally:
            process.terminate()


def _is_ready(project: Project) -> bool:
    with suppress(OSError, AssertionError):
        return bool(project.ask("GET", "/ready"))
    return False


class _Kernel(NamedTuple):
    project: Project
    process: "subprocess.Popen[str]"
    shared: int

    def connect(self) -> "closing[apsw.Connection]":
        return closing(apsw.Connection(str(self.project.state / DATABASE), flags=apsw.SQLITE_OPEN_READWRITE))

    def counts(self) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        header = os.pread(self.shared, 40, 0)  # the number of frames, and one that changes when the log restarts
        pages = int.from_bytes(header[16:20], sys.byteorder)
        return {**json.loads(self.process.stdout.readline()), "pages": pages, "log": header[32:]}

    def send(self, agent: str, load: Load, messages: int) -> None:
        record = self.project.record()
        client = LoadConnection(record["port"], {"authorization": f"Bearer {record['token']}"})
        with closing(client), self.connect() as log:
            for _ in range(messages):
                sent = client.call("POST", "/messages", {"to": agent, "text": load.text})
                number = int(sent["instruction_ids"][0].removeprefix("i"))
                while log.execute(ENDED, (number,)).get is None:
                    select.select([], [], [], 0.001)


def _measured(kernel: _Kernel, name: str, load: Load) -> Cost:
    def send(messages: int) -> None:
        together([partial(kernel.send, f"{name}{client}", load, messages) for client in range(load.clients)])

    send(6 if load.clients == 1 else 2)  # afterwards the thread is full
    costs: list[Cost] = []
    sent = load.clients * load.messages
    for _ in range(BATCHES):
        # A reader of a snapshot: the log may restart now, but not later, and its frames can be counted.
        with kernel.connect() as reader:
            reader.execute("BEGIN; SELECT count(*) FROM messages").fetchall()
            before = kernel.counts()
            send(load.messages)
            after = kernel.counts()
        before["pages"] *= before["log"] == after["log"]
        functions = {key: (n - before["functions"].get(key, 0)) / sent for key, n in after["functions"].items()}
        figures = {key: (after[key] - before[key]) / sent for key in ("stats", "pages", "bytes")}
        figures |= {"calls": sum(functions.values()), "commits": functions["store/writer.py Writer._deliver"]}
        costs.append(Cost(figures, functions))
    best = min(costs, key=lambda one: one.figures["calls"])
    # Clients share commits, and how many share one depends on timing.
    compared = LIMITS if load.clients == 1 else ("calls", "stats")
    return Cost({key: round(min(one.figures[key] for one in costs), 1) for key in compared}, best.functions)


def risen(name: str, now: Cost, figures: dict[str, float], functions: dict[str, float]) -> list[str]:
    """Return the figures that exceed their record, and with the calls the functions that grew, worst first."""
    recorded = {key: figures[f"{name}-{key}"] for key in now.figures}
    found = [
        f"{name}-{key} is {n}, recorded: {recorded[key]}"
        for key, n in now.figures.items()
        if n > recorded[key] * LIMITS[key]
    ]
    if now.figures["calls"] > recorded["calls"] * LIMITS["calls"]:
        grown = sorted((functions.get(key, 0) - n, key) for key, n in now.functions.items())
        found += [f"{key} +{-less:.1f}" for less, key in grown[:25] if less <= -1]
    return found
