"""Backups under load and restores of them, killed in the middle: ``python -m tests.e2e.backup_soak [ROUNDS] [SEED]``.

In each round the process of a backup or a restore is killed by SIGKILL, at one of its points or at a random moment;
then the other project starts on what is there. A backup has to be a prefix of the original's log with all that was
accepted before it began, or not to be there; the project has to hold all of the old state or all of the new, and to
bring all work to its end, once. Says what it found; exits 1 where that differs.
"""

import os
import random
import shutil
import signal
import sys
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from kernel import fault_injection
from kernel.inspect.backup import backup, restore
from protocol.discovery import DATABASE, JOURNAL
from protocol.errors import Refused
from tests.e2e.processes import wait_until
from tests.project import Project, empty_project
from tests.soak import Repeated, fails, pause, rows, run_trial, say

ROUNDS: Final = 100
AGENTS: Final = ("alice", "bob", "carol")
PAUSE_SECONDS: Final = 0.3
MOST_OPEN: Final = 9
"""So much work waits or is done at once: a restored project has to end it, too."""
LOG: Final = "SELECT seq, sender, text FROM messages ORDER BY seq"
OPEN: Final = "SELECT count(*) FROM instructions WHERE ended_ms IS NULL"
ENDS: Final = """
SELECT (SELECT count(*) FROM messages WHERE sender = 'user'),
  (SELECT count(*) FROM instructions WHERE state = 'done'),
  (SELECT count(DISTINCT cause) FROM messages WHERE kind = 'reply'),
  (SELECT count(*) FROM messages WHERE kind = 'reply')
"""


_quiet: Final = threading.Lock()
"""Held by whoever holds locks of libraries: a process is forked while nobody does, or the child would wait for ever."""


class Load:
    """Says something to agents of ``project``, and notes in a file what the newest is, until it is stopped."""

    def __init__(self, project: Project) -> None:
        self.accepted: list[str] = []
        self._project = project
        self.thread = Repeated(self._say, PAUSE_SECONDS)

    def _say(self) -> None:
        with _quiet:
            if rows(self._project.state / DATABASE, OPEN)[0][0] >= MOST_OPEN:
                return
            text = f"n{len(self.accepted) + 1}"
            self._project.send(random.choice(AGENTS), text)
            self.accepted.append(text)
            memory = self._project.root / ".agents/alice/memory"
            memory.mkdir(parents=True, exist_ok=True)
            (memory / ".new").write_text(f"newest: {text}\n")
            (memory / ".new").replace(memory / "core.yaml")


def inside(file: Path, folder: Path) -> tuple[list[tuple[Any, ...]], str]:
    """The log in a backup, and what alice knew."""
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        archive.extract(DATABASE, folder)
        names = archive.namelist()
        known = next((archive.read(name).decode() for name in names if name.endswith("memory/core.yaml")), "")
    return rows(folder / DATABASE, LOG), known


def forked(call: Callable[[], object], *, point: int = 0, seconds: float = 3600.0) -> tuple[int, int]:
    """Run ``call`` in a process of its own, and kill that at its n-th point or after so long. Its exit code (-9: it was
    killed), and how many points it passed, where it was not.
    """
    read, write = os.pipe()
    with _quiet:
        child = os.fork()
    if child == 0:
        passed = 0

        def reached(_name: str) -> None:
            nonlocal passed
            passed += 1
            if passed == point:
                os.kill(os.getpid(), signal.SIGKILL)

        code = 70
        try:
            fault_injection._reached = reached  # pyright: ignore[reportPrivateUsage]
            call()
            code = 0
        except Refused as refused:
            sys.stderr.write(f"{refused.text} {refused.hint}\n")
        finally:
            os.write(write, passed.to_bytes(4))
            os._exit(code)
    os.close(write)
    deadline = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        pause(0.005)
    told = os.read(read, 4)
    os.close(read)
    return os.waitstatus_to_exitcode(status), int.from_bytes(told)


def judge_backup(file: Path, folder: Path, original: Project, before: list[str]) -> int:
    """A prefix of the log, with all that was accepted before it began. How many messages."""
    held, known = inside(file, folder)
    log = rows(original.state / DATABASE, LOG)
    if held != log[: len(held)]:
        fails("the backup is no prefix of the log")
    missing = set(before) - {text for _seq, _sender, text in held}
    if missing:
        fails(f"accepted before the backup, and not in it: {sorted(missing)[:5]}")
    if before and not known:
        fails("what alice knows is not in the backup")
    return len(held)


def run_on(other: Project) -> None:
    """Start a kernel on what is there, and have it end all work, once."""
    started = other.awk("start", seconds=120)
    if started.code:
        fails(f"the restored project does not start: {started.err}")
    database = other.state / DATABASE
    wait_until(lambda: rows(database, OPEN) == [(0,)], seconds=180)
    [(said, done, answered, replies)] = rows(database, ENDS)
    if not said == done == answered == replies:
        fails(f"{said} said, {done} done, {answered} answered by {replies} replies")
    other.stop()


class Trial:
    """An original under load, and another project in which its backups are restored."""

    def __init__(self, base: Path) -> None:
        (base / "a").mkdir()
        (base / "b").mkdir()
        self.base, self.file, self.whole = base, base / "b.zip", base / "whole.zip"
        self.original, self.other = empty_project(base / "a"), empty_project(base / "b")
        self.told: Counter[str] = Counter()
        self.last = {"backup": (1.0, 5), "restore": (1.0, 10)}
        """How long the last one took, and how many points it passed."""
        for project in (self.original, self.other):
            for agent in AGENTS:
                project.agent(agent, "sleep: 0.3", 'text: "did ${{ message.text }}"')
        assert self.original.awk("start").code == 0
        self.load = Load(self.original)
        wait_until(lambda: len(self.load.accepted) > 5)

    def kill_a_backup(self, folder: Path) -> None:
        """Of a file that is there it leaves what there was, or a whole one."""
        before, first = list(self.load.accepted), self.file.read_bytes() if self.file.exists() else None
        code, _passed = forked(lambda: self.backed_up(self.file), **self.moment("backup"))
        if self.file.exists() and self.file.read_bytes() != first:
            self.told["killed after its name was given"] += code == -9
            judge_backup(self.file, folder, self.original, before)
        self.told["backups killed at work"] += code == -9

    def backed_up(self, file: Path) -> None:
        backup(self.original.root, self.original.state, str(file), now=time.time(), force=True)

    def moment(self, kind: str) -> dict[str, Any]:
        """A point that the last one passed, or some time within the time that it took."""
        seconds, points = self.last[kind]
        by_point = random.random() < 0.5
        return {"point": random.randint(1, points)} if by_point else {"seconds": random.uniform(0, seconds)}

    def timed(self, kind: str, call: Callable[[], object]) -> None:
        """Have it done to its end, and note how long that took."""
        begun = time.monotonic()
        code, points = forked(call)
        if code:
            fails(f"{kind} ended with {code}")
        self.last[kind] = time.monotonic() - begun, points

    def back_up(self, folder: Path) -> None:
        """One that nobody kills; what those that were killed left beside it goes."""
        before = list(self.load.accepted)
        self.timed("backup", lambda: self.backed_up(self.whole))
        self.told["whole backups"] += 1
        self.told["messages in the last"] = judge_backup(self.whole, folder, self.original, before)
        if left := [one for one in os.listdir(self.base) if one.startswith(".awk-backup-")]:
            fails(f"left behind: {left}")

    def restored(self) -> None:
        restore(self.other.root, self.other.state, str(self.whole), now=time.time(), force=True)

    def restore(self, *, kill: bool) -> bool:
        """Restore over what is there. Whether there is a state to start on then."""
        if kill:
            code, _passed = forked(self.restored, **self.moment("restore"))
            begun = (self.other.state / JOURNAL).exists()
            self.told["restores killed at work"] += code == -9
            self.told["restores that the next kernel ended"] += begun
            return begun or (self.other.state / DATABASE).exists()
        self.timed("restore", self.restored)
        return True

    def one_round(self, number: int) -> None:
        """Kill one, and have the other project go on with what is there."""
        folder, there, kill = self.base / f"round{number}", self.other.state / DATABASE, bool(number % 2)
        if not kill:
            self.kill_a_backup(folder / "killed")
        self.back_up(folder / "whole")
        held, known = inside(self.whole, folder / "held")
        old = rows(there, LOG) if there.exists() else []
        if not self.restore(kill=kill):
            if old:
                fails("the old state is gone and the new is not there")
            return
        run_on(self.other)
        now = rows(there, LOG)
        if now[: len(held)] == held:
            self.told["restored, and run to the end"] += 1
            if (self.other.root / ".agents/alice/memory/core.yaml").read_text() != known:
                fails("the log is restored, and what alice knows is not")
        elif kill and old and now[: len(old)] == old:
            self.told["old state kept, and run to the end"] += 1
        else:
            fails("the state is neither the old nor the new")
        shutil.rmtree(folder)


def main(base: Path, rounds: int, seed: int) -> int:
    random.seed(seed)
    trial = Trial(base)
    try:
        for number in range(rounds):
            trial.one_round(number)
        assert trial.load.thread.is_alive(), "nobody was talking to it any more"
    finally:
        trial.load.thread.stop()
        trial.original.stop()
        trial.other.stop()
        say({"rounds": rounds, "seed": seed, "accepted": len(trial.load.accepted), **trial.told})
    return 0


if __name__ == "__main__":
    run_trial(main, ROUNDS, 1)
