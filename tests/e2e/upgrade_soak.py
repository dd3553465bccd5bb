"""Upgrades under load, also to versions that cannot take over: ``python -m tests.e2e.upgrade_soak [COUNT]``.

Agents step, run commands and call tools all the while; somebody follows the events, and somebody else asks the kernel
things. No attempt may end before its time, nothing may be charged, no event may be missing or come twice, and no tool
may run twice. Says what it found; exits 1 where that differs. A tenth of COUNT more are upgrades to broken versions.
"""

import http.client
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import psutil

from kernel.boot.replacement import PATIENCE
from tests.e2e.processes import wait_until
from tests.e2e.versions import make_version
from tests.project import Project, empty_project

COUNT: Final = 1000
AGENTS: Final = 6
BROKEN: Final = (
    "def _get_ready(*_): raise RuntimeError('not me')",
    "def _get_ready(boot, *_):\n    boot.token and os._exit(9)",
    "import time\ndef _get_ready(*_): time.sleep(600)",
)
"""Each ends, or hangs, when it takes over: the trial finds nothing wrong with it."""


class Follower(threading.Thread):
    """Reads all events of a project, and comes back after the last one it saw whenever its stream ends."""

    def __init__(self, project: Project) -> None:
        super().__init__(daemon=True)
        self._project = project
        self.seqs: list[int] = []
        self.wants = True

    def run(self) -> None:
        """Follow until nobody wants it any more."""
        while self.wants:
            with suppress(OSError, http.client.HTTPException, ValueError):
                self._listen()

    def _listen(self) -> None:
        record = self._project.record()
        connection = http.client.HTTPConnection(record["host"], record["port"], timeout=20)
        with closing(connection):
            headers = {"Authorization": f"Bearer {record['token']}"}
            if self.seqs:
                headers["Last-Event-ID"] = str(self.seqs[-1])
            connection.request("GET", f"/events?since={self.seqs[-1] if self.seqs else 0}", headers=headers)
            for line in connection.getresponse():
                if line.startswith(b"data: "):
                    seq = json.loads(line.removeprefix(b"data: ")).get("seq")
                    if seq is not None:
                        self.seqs.append(seq)
                if not self.wants:
                    return


class Asker(threading.Thread):
    """Asks the kernel how it is, again and again, and notes how long the longest answer took."""

    def __init__(self, project: Project) -> None:
        super().__init__(daemon=True)
        self._project = project
        self.longest_seconds = 0.0
        self.unanswered: Counter[str] = Counter()
        self.wants = True
        self._pause = threading.Event()

    def run(self) -> None:
        """Ask until nobody wants it any more."""
        while self.wants:
            began = time.monotonic()
            try:
                self._project.ask("GET", "/status")
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.unanswered[type(error).__name__] += 1
            self.longest_seconds = max(self.longest_seconds, time.monotonic() - began)
            self._pause.wait(0.02)


class Load(threading.Thread):
    """Gives each agent the next work as soon as it has little left."""

    def __init__(self, project: Project, names: list[str]) -> None:
        super().__init__(daemon=True)
        self._project, self._names = project, names
        self.given: dict[str, list[str]] = {name: [] for name in names}
        self.wants = True
        self._pause = threading.Event()
        self._numbers: Counter[str] = Counter()

    def run(self) -> None:
        """Give work until nobody wants it any more."""
        while self.wants:
            with suppress(OSError, http.client.HTTPException, ValueError, AssertionError):
                rows = self._project.ask("GET", "/ps")["agents"]
                waiting = {row["name"]: row.get("queued", 0) for row in rows}
                for name in self._names:
                    if waiting.get(name, 0) < 2:
                        self._give(name)
            self._pause.wait(0.2)

    def _give(self, name: str) -> None:
        self._numbers[name] += 1
        key = f"{name}-{self._numbers[name]}"
        while True:  # who gets no answer asks again, with the same key
            with suppress(OSError, http.client.HTTPException, ValueError):
                record = self._project.record()
                connection = http.client.HTTPConnection(record["host"], record["port"], timeout=20)
                with closing(connection):
                    headers = {
                        "Authorization": f"Bearer {record['token']}",
                        "Content-Type": "application/json",
                        "Idempotency-Key": key,
                    }
                    body = json.dumps({"to": name, "text": key, "trust": True})
                    connection.request("POST", "/messages", body, headers)
                    response = connection.getresponse()
                    document = json.loads(response.read())
                    if response.status < 300:
                        self.given[name].append(str(document["instruction_ids"][0]))
                        return


def upgraded(project: Project, to: Path) -> dict[str, Any]:
    """Upgrade, and return how it ended."""
    asked = project.ask("POST", "/upgrade", {"to": str(to)})
    told: list[dict[str, Any]] = [asked]

    def over() -> bool:
        with suppress(OSError, http.client.HTTPException, ValueError):
            told.append(project.ask("GET", "/upgrade"))
        return told[-1]["state"] in ("done", "failed")

    wait_until(over, seconds=120)
    return told[-1]


def ending_of(project: Project, instruction: str) -> str:
    """How an instruction ended, how much of it was charged, and how each of its attempts ended."""
    found: list[dict[str, Any]] = []

    def over() -> bool:
        found.append(project.ask("GET", f"/instructions/{instruction}"))
        return found[-1]["standing"] == "ended" and all(one["outcome"] for one in found[-1]["attempts"])

    wait_until(over, seconds=60)
    return f"{found[-1]['status']}, charged {found[-1]['tried']}: {[one['outcome'] for one in found[-1]['attempts']]}"


def main(count: int) -> int:
    """Try it, and say what was found."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        project = empty_project(base)
        names = [f"a{number}" for number in range(AGENTS)]
        for name in names:
            project.agent(
                name,
                "text: begins",
                "sleep: 0.1s",
                f'shell: "echo {name} >> ran-{name}"',
                "tool: team_members",
                "sleep: 0.3s",
                f'shell: "sleep 0.2; echo {name} >> ran-{name}"',
                "tool: my_note_write, args: { text: a note }",
                "sleep: 0.2s",
                "text: finished",
                more="max_steps: 30",
            )
        versions = [make_version(base / name, name) for name in ("7.7.7", "8.8.8")]
        broken = [make_version(base / f"broken{n}", "9.9.9", kernel__adoption=text) for n, text in enumerate(BROKEN)]
        try:
            return try_all(project, names, versions, broken, count)
        finally:
            project.stop()


def try_all(project: Project, names: list[str], versions: list[Path], broken: list[Path], count: int) -> int:
    """Upgrade so often, under load; then judge what the log says."""
    assert project.awk("start", "--trust", env={PATIENCE: "20"}).code == 0
    follower, asker, load = Follower(project), Asker(project), Load(project, names)
    for thread in (follower, asker, load):
        thread.start()
    waits: list[float] = []
    reasons: Counter[str] = Counter()
    for number in range(count):
        told = upgraded(project, versions[number % 2])
        if told["state"] == "done":
            waits.append(told["waited_seconds"])
        else:
            reasons[told["reason"][:60]] += 1
    longest_answer_seconds = asker.longest_seconds
    kernel = psutil.Process(project.record()["pid"])
    dead = [one for one in kernel.children() if one.status() == psutil.STATUS_ZOMBIE]
    print(f"{kernel.num_fds()} descriptors, {len(kernel.children())} children, {len(dead)} of them not reaped")  # noqa: T201
    back = 0
    for number in range(max(1, count // 10)):
        told = upgraded(project, broken[number % len(broken)])
        back += told["state"] == "failed"
    load.wants = asker.wants = False
    load.join()
    asker.join()
    given = {name: list(dict.fromkeys(ids)) for name, ids in load.given.items()}
    attempts: Counter[str] = Counter()
    for ids in given.values():
        for one in ids:
            attempts[ending_of(project, one)] += 1
    newest = project.ask("GET", "/status") and max(follower.seqs)
    wait_until(lambda: follower.seqs[-1] >= newest, seconds=30)
    follower.wants = False
    twice = len(follower.seqs) - len(set(follower.seqs))
    missing = len(set(range(follower.seqs[0], follower.seqs[-1] + 1)) - set(follower.seqs))
    ran = {name: len((project.root / f"ran-{name}").read_text().split()) for name in names}
    doubled = {name: times - 2 * len(given[name]) for name, times in ran.items()}
    work = sum(map(len, given.values()))
    print(f"{len(waits)} of {count} upgrades done; refused: {dict(reasons)}; {back} back from broken versions")  # noqa: T201
    waits.sort()
    if waits:
        print(f"longest wait of a worker {waits[-1]:.2f} s, median {waits[len(waits) // 2]:.2f} s")  # noqa: T201
    print(f"longest answer {longest_answer_seconds:.2f} s; unanswered {dict(asker.unanswered)}")  # noqa: T201
    print(f"{work} instructions: {dict(attempts)}")  # noqa: T201
    print(f"events followed {len(follower.seqs)}: missing {missing}, twice {twice}; commands run too often {doubled}")  # noqa: T201
    good = set(attempts) == {"done, charged 1: ['done']"}
    return 0 if good and not missing and not twice and not any(doubled.values()) and not reasons else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else COUNT))
