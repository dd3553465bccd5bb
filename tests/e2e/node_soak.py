"""Three nodes behind a real sshd, twenty workers each, and what leads there killed: ``python -m tests.e2e.node_soak``.

``[KILLS] [SEED]``: of every two one kills an ssh, and one the process of a node; both end all that runs there. All work
has to be done, once; only a node that was lost may make an attempt more; at last nothing of it is left.
"""

import os
import random
import signal
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil

from tests.e2e.far_machines import AGENT_WORKER, Sshd, end_node_processes
from tests.e2e.processes import survivors, wait_until
from tests.project import Project, empty_project
from tests.soak import run_trial, say

NODES: Final = 3
WORKERS: Final = 20
SECONDS: Final = 1200.0
UNCHARGED: Final = frozenset({"node_lost", "spawn_transient"})
"""Nothing of it was done, or nobody's fault: it counts for nothing."""
ENDED: Final = frozenset({"done", "failed", "dead", "cancelled", "incomplete"})


def write_files(project: Project, server: Sshd, base: Path) -> list[str]:
    """The nodes and the agents that work there, committed. Returns the agents' names."""
    args = ", ".join(f"'{word}'" for word in server.args)
    rows = ""
    for number in range(1, NODES + 1):
        command = f"env AGENT_WORKER_HOME={base}/far{number} {AGENT_WORKER}"
        keys = f"host: 127.0.0.1, args: [{args}], command: '{command}', labels: [far], workers: {WORKERS}"
        rows += f"  n{number}: {{via: ssh, {keys}}}\n"
    project.write("moniro.yaml", f"limits: {{workers: {NODES * WORKERS}, memory_reserve: 1%}}\nnodes:\n{rows}")
    names = [f"a{number}" for number in range(NODES * WORKERS)]
    for name in names:
        project.agent(name, f"shell: 'echo {name} >> log; sleep 10'", "text: done", more="needs: {labels: [far]}")
    project.commit()
    return names


def kill_now_and_then(
    kernel: psutil.Process, base: Path, kills: int, chance: random.Random, over: threading.Event
) -> list[str]:
    killed: list[str] = []
    over.wait(10)
    for number in range(kills):
        with suppress(psutil.Error, OSError, ValueError, IndexError):
            if number % 2 == 0:
                chance.choice([child for child in kernel.children() if child.name() == "ssh"]).kill()
                killed.append("ssh")
            else:
                lock = chance.choice(sorted(base.rglob("node.lock")))
                os.kill(int(lock.read_text("ascii")), signal.SIGKILL)
                killed.append("node")
        if over.wait(chance.uniform(3, 10)):
            break
    return killed


def run(base: Path, kills: int, seed: int) -> int:
    project = empty_project(base)
    with Sshd.running(base / "sshd") as server:
        names = write_files(project, server, base)
        assert project.awk("start", "--trust").code == 0

        def nodes() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = project.ask("GET", "/nodes")["nodes"]
            return found

        wait_until(lambda: all(one["state"] == "up" for one in nodes()), 120)
        asked: list[str] = []
        over, killed = threading.Event(), list[str]()
        kernel = project.kernel()
        killer = threading.Thread(
            target=lambda: killed.extend(kill_now_and_then(kernel, base, kills, random.Random(seed), over))
        )
        killer.start()
        most = 0
        open_work: list[str] = []

        def all_ended() -> bool:
            nonlocal most
            most = max(most, sum(one["running"] for one in nodes()))
            if project.ask("GET", f"/instructions/{open_work[0]}")["status"] in ENDED:
                del open_work[0]
            return not open_work

        while killer.is_alive() or not asked:
            open_work += [project.send(name) for name in names]
            asked += open_work
            wait_until(all_ended, SECONDS)
        over.set()
        killer.join()
        shown = [project.ask("GET", f"/instructions/{one}") for one in asked]
        project.stop()
        end_node_processes(base)
    statuses = Counter(one["status"] for one in shown)
    outcomes = Counter(attempt["outcome"] for one in shown for attempt in one["attempts"])
    ours = [one for one in psutil.process_iter(["cmdline"]) if str(base) in " ".join(one.info["cmdline"] or [])]
    left = survivors(ours, seconds=20)
    say(
        f"killed {dict(Counter(killed))}; most at once {most}; work {dict(statuses)}; attempts {dict(outcomes)}; "
        f"processes left {len(left)}"
    )
    return 0 if statuses == {"done": len(asked)} and set(outcomes) <= UNCHARGED | {"done"} else 1


if __name__ == "__main__":
    run_trial(run, 20, 1)
