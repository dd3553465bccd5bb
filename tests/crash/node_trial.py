"""Three nodes with agents at work, killed and cut off at random: nothing is lost, charged, or done twice.

The judge reads the log over the API, and what the agents themselves wrote down beside it: a line for every fifth of a
second in which a command of theirs ran.
"""

import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import psutil

from tests.crash import node_wire
from tests.e2e.far_machines import AGENT_WORKER, end_node_processes
from tests.e2e.processes import wait_until
from tests.project import Project, empty_project
from tests.soak import pause, run_trial, say

NODES: Final = ("n1", "n2", "n3")
AGENTS: Final = tuple(f"a{number}" for number in range(1, 10))
STEPS: Final = 3
LONG_SECONDS: Final = (18.0, 24.0)
"""Beyond the lease of 15 s and its margin."""
SHORT_SECONDS: Final = (1.0, 8.0)
SETTLE_SECONDS: Final = 120.0
WORDS: Final = ("cut", "frozen", "deaf", "mute")

BEATS: Final = 's=$(date +%s%N); for i in 1 2 3 4 5; do echo "$$-$s $(date +%s%N)" >> {file}; sleep 0.2; done'


@dataclass
class Findings:
    """What was done and what was found."""

    kills: int = 0
    hosts: int = 0
    """Of the kills, those that took all processes of the node at once."""
    partitions: int = 0
    long: int = 0
    """Of the partitions, those beyond the lease."""
    kernels: int = 0
    done: int = 0
    lost_attempts: int = 0
    attempts: int = 0
    wrong: list[str] = field(default_factory=list)


class Trial:
    """One project with three nodes, and the hands that disturb them."""

    def __init__(self, base: Path, seed: int) -> None:
        self.base = base
        self.project: Project = empty_project(base)
        self.chance = random.Random(seed)
        self.found = Findings()
        self._lock = threading.Lock()
        (base / "beats").mkdir()
        for name in NODES:
            (base / name).mkdir()

    def write(self) -> None:
        """Write the project: nine agents that all need a label, on three nodes with four workers each."""
        wire = node_wire.__file__
        rows = [
            f"  {name}: {{via: command, argv: [{sys.executable}, {wire}, {self.base / name}/wire, env, "
            f"AGENT_WORKER_HOME={self.base / name}], command: {AGENT_WORKER}, labels: [gpu], workers: 4}}"
            for name in NODES
        ]
        self.project.write("moniro.yaml", "nodes:\n" + "\n".join(rows) + "\n")
        agents: list[str] = []
        for name in AGENTS:
            beats = BEATS.format(file=self.base / "beats" / name)
            lines = [
                f"  {name}:",
                "    backend: mock",
                "    needs: {labels: [gpu]}",
                "    mock:",
                "      - when: 'go (?P<n>\\d+)'",
                "        do:",
            ]
            for step in range(STEPS):
                lines += [f"          - {{ shell: '{beats}' }}"]
                said = f"{name} did step {step} of ${{{{ match.n }}}}"
                lines += [f'          - {{ tool: channel_send, args: {{ message: "{said}" }} }}']
            lines += ['          - { text: "done ${{ match.n }}" }']
            agents += lines
        self.project.write(".workflows/team.yaml", "agents:\n" + "\n".join(agents) + "\n")
        self.project.commit()

    # -- disturbing ---------------------------------------------------------------------------------------

    def is_up(self, name: str) -> bool:
        with suppress(OSError, ValueError, AssertionError):
            rows = self.project.ask("GET", "/nodes")["nodes"]
            return any(row["name"] == name and row["state"] == "up" for row in rows)
        return False

    def kill(self, name: str, *, host: bool) -> None:
        """Kill the node process; ``host``: with all that it has started, at once."""
        for lock in (self.base / name).rglob("node.lock"):
            with suppress(OSError, ValueError, psutil.NoSuchProcess):
                node = psutil.Process(int(lock.read_text("ascii")))
                below = node.children(recursive=True) if host else []
                for process in (node, *below):
                    with suppress(psutil.NoSuchProcess):
                        process.kill()

    def set_wire(self, name: str, word: str) -> None:
        new = self.base / name / "wire.new"
        new.write_text(word, "ascii")
        new.replace(self.base / name / "wire")

    def disturb(self, name: str, plan: list[str], chance: random.Random) -> None:
        """Do what is planned to one node, whenever it is up."""
        for what in plan:
            try:
                wait_until(lambda: self.is_up(name), SETTLE_SECONDS)
            except AssertionError:
                with self._lock:
                    self.found.wrong.append(f"{name} did not come back before {what}")
                return
            pause(chance.uniform(0.5, 4.0))
            if what == "kill":
                host = chance.random() < 0.4
                self.kill(name, host=host)
                with self._lock:
                    self.found.kills += 1
                    self.found.hosts += host
                pause(0.5)
            else:
                long = chance.random() < 0.4
                self.set_wire(name, chance.choice(WORDS))
                pause(chance.uniform(*(LONG_SECONDS if long else SHORT_SECONDS)))
                self.set_wire(name, "open")
                with self._lock:
                    self.found.partitions += 1
                    self.found.long += long

    # -- working ------------------------------------------------------------------------------------------

    def send(self, agent: str, number: int) -> str | None:
        """Give an agent something to do; None: there is no kernel now."""
        with suppress(OSError, ValueError):
            sent = self.project.ask("POST", "/messages", {"to": f"{agent}@team", "text": f"go {number}"})
            return str(sent["instruction_ids"][0])
        return None

    def run(self, kills: int, partitions: int, kernels: int) -> Findings:
        """Disturb so often while all agents are at work, then judge."""
        self.write()
        for words in (("trust", "--yes"), ("start", "--trust"), ("start", "team", "--trust")):
            ran = self.project.awk(*words)
            assert ran.code == 0, ran.err
        wait_until(lambda: all(map(self.is_up, NODES)), 60.0)
        plan = ["kill"] * kills + ["partition"] * partitions
        self.chance.shuffle(plan)
        hands = [
            threading.Thread(target=self.disturb, args=(name, plan[at::3], random.Random(self.chance.random())))
            for at, name in enumerate(NODES)
        ]
        for hand in hands:
            hand.start()
        sent: dict[str, tuple[str, int]] = {}
        at_work: dict[str, str] = {}
        number = 0
        kernel_pause = time.monotonic() + 5
        while any(hand.is_alive() for hand in hands):
            for agent in AGENTS:
                if agent not in at_work or self.has_ended(at_work[agent]):
                    instruction = self.send(agent, number + 1)
                    if instruction is not None:
                        number += 1
                        sent[instruction], at_work[agent] = (agent, number), instruction
            if self.found.kernels < kernels and time.monotonic() > kernel_pause:
                self.kill_kernel()
                kernel_pause = time.monotonic() + self.chance.uniform(20, 40)
            pause(0.25)
        for hand in hands:
            hand.join()
        try:
            wait_until(lambda: all(map(self.has_ended, at_work.values())), SETTLE_SECONDS)
        except AssertionError:
            self.found.wrong.append(self.project.awk("ps").out + self.project.awk("needs").out)
        self.judge(sent)
        return self.found

    def kill_kernel(self) -> None:
        with suppress(OSError, ValueError, psutil.NoSuchProcess):
            self.project.kill()
        ran = self.project.awk("start", "--trust")
        assert ran.code == 0, ran.err
        self.found.kernels += 1

    def has_ended(self, instruction: str) -> bool:
        """Whether it is over, as far as a kernel is there to say so."""
        with suppress(OSError, ValueError, KeyError):
            shown = self.project.ask("GET", f"/instructions/{instruction}")
            return str(shown["status"]) in ("done", "failed", "dead", "incomplete", "cancelled")
        return False

    # -- judging ------------------------------------------------------------------------------------------

    def judge(self, sent: dict[str, tuple[str, int]]) -> None:
        wrong = self.found.wrong
        said = Counter(
            str(event["data"]["text"]) for event in self.events("message") if event["data"]["kind"] == "said"
        )
        for instruction, (agent, number) in sent.items():
            shown = self.project.ask("GET", f"/instructions/{instruction}")
            outcomes = [str(one["outcome"]) for one in shown["attempts"]]
            self.found.attempts += len(outcomes)
            self.found.lost_attempts += outcomes.count("node_lost")
            if shown["status"] != "done":
                wrong.append(f"{instruction} of {agent} is {shown['status']}: {outcomes}")
                continue
            self.found.done += 1
            allowed = {"node_lost", "done", *(["kernel_restart"] if self.found.kernels else [])}
            if set(outcomes) - allowed:
                wrong.append(f"{instruction} of {agent} was charged: {outcomes}")
            for step in range(STEPS):
                times = said[f"{agent} did step {step} of {number}"]
                if times != 1:
                    wrong.append(f"{agent} said {times} times that it did step {step} of {number}: {outcomes}")
        for event in self.events("instruction.ended"):
            if event["data"]["attempts"] != 1:
                wrong.append(f"{event['instruction']} counts {event['data']['attempts']} attempts")
        for row in self.project.ask("GET", "/ps")["agents"]:
            if row["restarts"] or row["state"] not in ("idle", "running"):
                wrong.append(f"{row['name']} is {row['state']} after {row['restarts']} restarts")
        for agent in AGENTS:
            wrong += [f"{agent}: {text}" for text in overlaps(self.base / "beats" / agent)]

    def events(self, kind: str) -> list[dict[str, Any]]:
        ran = self.project.awk("events", "--jsonl", "--since", "1d")
        assert ran.code == 0, ran.err
        return [event for line in ran.out.splitlines() if (event := json.loads(line))["type"] == kind]

    def left_behind(self) -> list[str]:
        """The processes that still work for a node 20 s after the kernel and all nodes went."""

        def alive() -> list[str]:
            found: list[str] = []
            for process in psutil.process_iter(["pid", "cmdline"]):
                words = " ".join(process.info["cmdline"] or ())
                if str(self.base) in words and "node_trial" not in words and process.pid != psutil.Process().pid:
                    found.append(f"{process.pid} {words[:120]}")
            return found

        with suppress(AssertionError):
            wait_until(lambda: not alive(), 20.0)
        return alive()


def overlaps(beats: Path) -> Iterator[str]:
    """What ran of one agent at the same time: its commands are begun one after the other, wherever they run."""
    spans: dict[str, tuple[int, int]] = {}
    if not beats.exists():
        return
    for line in beats.read_text("ascii").splitlines():
        pid, _, at = line.partition(" ")
        first, _last = spans.get(pid, (int(at), 0))
        spans[pid] = (first, int(at))
    ordered = sorted(spans.items(), key=lambda one: one[1])
    for (before, (_, end)), (after, (begin, _last)) in pairwise(ordered):
        if begin < end:
            yield f"{after} began {(end - begin) / 1e9:.2f} s before {before} had ended"


@contextmanager
def trial(base: Path, seed: int) -> Generator[Trial]:
    made = Trial(base, seed)
    try:
        yield made
    finally:
        for name in NODES:
            made.set_wire(name, "open")
        made.project.stop()
        end_node_processes(base)
        made.found.wrong += [f"still there: {one}" for one in made.left_behind()]


def main(base: Path, kills: int, partitions: int, kernels: int, seed: int) -> int:
    seed = seed or random.SystemRandom().randrange(2**32)
    say(f"seed {seed}")
    began = time.monotonic()
    with trial(base, seed) as one:
        found = one.run(kills, partitions, kernels)
    say(f"{found.kills} nodes killed ({found.hosts} with all they had), {found.kernels} kernels killed")
    say(f"{found.partitions} nodes cut off ({found.long} beyond their lease)")
    say(f"{found.done} done in {found.attempts} attempts, {found.lost_attempts} of them lost with a node")
    say(f"{time.monotonic() - began:.0f} s")
    for text in found.wrong[:50]:
        say(f"WRONG {text}")
    say(f"{len(found.wrong)} things wrong")
    return 1 if found.wrong else 0


if __name__ == "__main__":
    run_trial(main, 100, 100, 0, 0)
