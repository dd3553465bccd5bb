"""Copies of a log elsewhere, under load and killed: ``python -m tests.e2e.standby_soak [ROUNDS] [SEED]``.

In each round a kernel that copies its log works for a while. It is killed by SIGKILL, or ends at one of its points;
or the process that copies is, at one of its points or at a random moment, again and again. Then the copy is put
together: it has to be a prefix of the original's log that some commit ended. In every fifth round another project goes
on with it, and has to bring all work to its end, once. Says what it found; exits 1 where that differs.
"""

import os
import random
import shutil
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Final

from kernel.fault_injection import AT
from kernel.inspect.standby import promote, put_together
from protocol.discovery import DATABASE
from tests.e2e.backup_soak import AGENTS, LOG, MOST_OPEN, OPEN, run_on
from tests.e2e.processes import wait_until
from tests.project import TRUST, Project, empty_project
from tests.soak import Repeated, fails, pause, rows, run_trial, say

ROUNDS: Final = 100
POINTS: Final = (
    "standby.written", "standby.named", "standby.base", "standby.based", "standby.removed",
    "store.commit", "store.committed", "tap.checkpoint", "store.job",
)  # fmt: skip
HALVES: Final = """
SELECT (SELECT count(*) FROM messages WHERE sender = 'user') - (SELECT count(*) FROM instructions),
  (SELECT count(*) FROM instructions) - (SELECT count(*) FROM deliveries),
  (SELECT count(*) FROM instructions WHERE state = 'done') - (SELECT count(*) FROM messages WHERE kind = 'reply')
"""


class Load:
    """Says something to agents of ``project`` until it is stopped, and notes when each was accepted."""

    def __init__(self, project: Project, first: int) -> None:
        self.accepted: list[tuple[float, str]] = []
        self.said = first
        self._project = project
        self.thread = Repeated(self._say, 0.02)

    def _say(self) -> None:
        if rows(self._project.state / DATABASE, OPEN)[0][0] >= MOST_OPEN:
            return
        self.said += 1
        text = f"n{self.said} " + "x" * random.choice((10, 2000, 50_000))
        self._project.send(random.choice(AGENTS), text)
        self.accepted.append((time.monotonic(), text))


class Trial:
    """An original whose log is copied, and a project that goes on with copies."""

    def __init__(self, base: Path) -> None:
        (base / "a").mkdir()
        (base / "far").mkdir()
        self.base, self.far, self.said = base, base / "far", 0
        self.original = empty_project(base / "a")
        self.told: Counter[str] = Counter()
        self.lags: list[float] = []
        self.outfit(self.original)
        (self.original.root / ".agents.yaml").write_text(f"standby: {{to: {self.far}, every: 100ms}}\n")

    def outfit(self, project: Project) -> None:
        for agent in AGENTS:
            project.agent(agent, "sleep: 0.1", 'text: "did ${{ message.text }}"')

    def copier(self) -> int | None:
        for entry in os.listdir("/proc"):
            with suppress(OSError, ValueError):
                words = Path("/proc", entry, "cmdline").read_bytes().split(b"\0")
                if b"kernel.inspect.copier" in words and str(self.far).encode() in words:
                    return int(entry)
        return None

    def one_round(self, number: int) -> None:
        kind = random.choice(("kernel", "kernel", "copier", "point", "point"))
        point = f"{random.choice(POINTS)}:{random.randint(1, 12)}" if kind == "point" else None
        env = TRUST | ({AT: point} if point else {})
        if self.original.awk("start", env=env, seconds=120).code and not point:
            fails("the original does not start")
        load = Load(self.original, self.said)
        until = time.monotonic() + random.uniform(1.0, 6.0)
        while time.monotonic() < until:
            pause(0.2)
            if kind == "copier" and random.random() < 0.15 and (found := self.copier()) is not None:
                with suppress(ProcessLookupError):
                    os.kill(found, signal.SIGKILL)
                    self.told["copiers killed"] += 1
        with suppress(OSError, KeyError, ValueError):
            os.kill(int(self.original.record()["pid"]), signal.SIGKILL)
            self.told["kernels killed"] += 1
        killed = time.monotonic()
        load.thread.stop()
        self.said = load.said
        self.told[f"rounds of {kind}"] += 1
        wait_until(lambda: self.copier() is None, seconds=60)
        if not any(name.endswith(".json") and name.startswith("base-") for name in os.listdir(self.far)):
            self.told["no copy yet"] += 1
            return
        self.judge(number, load, killed if kind == "kernel" else None)

    def judge(self, number: int, load: Load, killed: float | None) -> None:
        folder = self.base / f"round{number}"
        folder.mkdir()
        whole = put_together(str(self.far), str(folder / DATABASE))
        if whole.faults:
            fails(f"the copy is damaged: {whole.faults}")
        held, log = rows(folder / DATABASE, LOG), rows(self.original.state / DATABASE, LOG)
        if held != log[: len(held)]:
            fails("the copy is no prefix of the log")
        if rows(folder / DATABASE, HALVES) != [(0, 0, 0)]:
            fails("the copy has half a commit")
        texts = {text for _, _, text in held}
        missing = [at for at, text in load.accepted if text not in texts]
        if killed is not None:
            self.lags.append(killed - min(missing) if missing else 0.0)
        self.told["copies judged"] += 1
        self.told["pieces"] += whole.pieces
        if number % 5 == 4:
            self.go_on(folder, len(held))
        shutil.rmtree(folder)

    def go_on(self, folder: Path, held: int) -> None:
        shutil.copytree(self.far, folder / "far")
        (folder / "p").mkdir()
        other = empty_project(folder / "p")
        self.outfit(other)
        other.state.mkdir(parents=True, mode=0o700, exist_ok=True)
        promote(other.root, other.state, str(folder / "far"), now=time.time(), force=True)
        run_on(other)
        if len(rows(other.state / DATABASE, LOG)) < held:
            fails("what was promoted has less than the copy")
        self.told["promoted, and run to the end"] += 1


def main(base: Path, rounds: int, seed: int) -> int:
    random.seed(seed)
    trial = Trial(base)
    try:
        for number in range(rounds):
            trial.one_round(number)
    finally:
        trial.original.stop()
        lags = sorted(trial.lags) or [0.0]
        p50, longest = round(lags[len(lags) // 2], 3), round(lags[-1], 3)
        found = {"rounds": rounds, "seed": seed, "accepted": trial.said, **trial.told}
        say({**found, "lag p50 s": p50, "lag max s": longest})
    return 0


if __name__ == "__main__":
    run_trial(main, ROUNDS, 1)
