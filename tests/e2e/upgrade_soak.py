"""Upgrades under load, also to versions that cannot take over: ``python -m tests.e2e.upgrade_soak [COUNT]``.

Agents step, run commands and call tools all the while; somebody follows the events, and somebody else asks the kernel
things. No attempt may end before its time, nothing may be charged, no event may be missing or come twice, and no tool
may run twice. Says what it found; exits 1 where that differs. A tenth of COUNT more are upgrades to broken versions.
"""

import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil

from kernel.boot.replacement import PATIENCE
from tests.e2e.processes import wait_until
from tests.e2e.versions import make_version
from tests.project import Project, empty_project
from tests.soak import GONE, Repeated, run_trial, say

COUNT: Final = 1000
AGENTS: Final = 6
BROKEN: Final = (
    "def _get_ready(*_): raise RuntimeError('not me')",
    "def _get_ready(boot, *_):\n    boot.token and os._exit(9)",
    "import time\ndef _get_ready(*_): time.sleep(600)",
)
"""Each ends, or hangs, when it takes over: the trial finds nothing wrong with it."""


class Watch:
    """Follows all events of a project, asks its kernel how it is, and gives its agents work, all in the background."""

    def __init__(self, project: Project, names: list[str]) -> None:
        self._project = project
        self.seqs: list[int] = []
        self.given: dict[str, list[str]] = {name: [] for name in names}
        self.longest_seconds = 0.0
        self.unanswered: Counter[str] = Counter()
        self._numbers: Counter[str] = Counter()
        self.following = Repeated(self._follow, 0.0)
        self._working = [Repeated(self._ask, 0.02), Repeated(self._give, 0.2)]

    def end_work(self) -> None:
        for thread in self._working:
            thread.stop()

    def _follow(self) -> None:
        for event in self._project.events(f"since={self.seqs[-1] if self.seqs else 0}", 20):
            if event.get("seq") is not None:
                self.seqs.append(event["seq"])

    def _ask(self) -> None:
        began = time.monotonic()
        try:
            self._project.ask("GET", "/status")
        except GONE as error:
            self.unanswered[type(error).__name__] += 1
        self.longest_seconds = max(self.longest_seconds, time.monotonic() - began)

    def _give(self) -> None:
        waiting = {row["name"]: row.get("queued", 0) for row in self._project.ask("GET", "/ps")["agents"]}
        for name, ids in self.given.items():
            if waiting.get(name, 0) < 2:
                self._numbers[name] += 1
                key = f"{name}-{self._numbers[name]}"
                ids.append(self._sent({"to": name, "text": key, "trust": True}, key))

    def _sent(self, message: dict[str, Any], key: str) -> str:
        while True:
            with suppress(*GONE):
                return str(self._project.ask("POST", "/messages", message, key=key)["instruction_ids"][0])


def upgraded(project: Project, to: Path) -> dict[str, Any]:
    asked = project.ask("POST", "/upgrade", {"to": str(to)})
    told: list[dict[str, Any]] = [asked]

    def over() -> bool:
        with suppress(*GONE):
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


def main(base: Path, count: int) -> int:
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
    watch = Watch(project, names)
    waits: list[float] = []
    reasons: Counter[str] = Counter()
    for number in range(count):
        told = upgraded(project, versions[number % 2])
        if told["state"] == "done":
            waits.append(told["waited_seconds"])
        else:
            reasons[told["reason"][:60]] += 1
    longest_answer_seconds = watch.longest_seconds
    kernel = project.kernel()
    dead = [one for one in kernel.children() if one.status() == psutil.STATUS_ZOMBIE]
    say(f"{kernel.num_fds()} descriptors, {len(kernel.children())} children, {len(dead)} of them not reaped")
    back = 0
    for number in range(max(1, count // 10)):
        told = upgraded(project, broken[number % len(broken)])
        back += told["state"] == "failed"
    watch.end_work()
    given = {name: list(dict.fromkeys(ids)) for name, ids in watch.given.items()}
    attempts: Counter[str] = Counter()
    for ids in given.values():
        for one in ids:
            attempts[ending_of(project, one)] += 1
    seqs = list(watch.seqs)
    twice = len(seqs) - len(set(seqs))
    missing = len(set(range(seqs[0], seqs[-1] + 1)) - set(seqs))
    ran = {name: len((project.root / f"ran-{name}").read_text().split()) for name in names}
    doubled = {name: times - 2 * len(given[name]) for name, times in ran.items()}
    work = sum(map(len, given.values()))
    say(f"{len(waits)} of {count} upgrades done; refused: {dict(reasons)}; {back} back from broken versions")
    waits.sort()
    if waits:
        say(f"longest wait of a worker {waits[-1]:.2f} s, median {waits[len(waits) // 2]:.2f} s")
    say(f"longest answer {longest_answer_seconds:.2f} s; unanswered {dict(watch.unanswered)}")
    say(f"{work} instructions: {dict(attempts)}")
    say(f"events followed {len(seqs)}: missing {missing}, twice {twice}; commands run too often {doubled}")
    good = set(attempts) == {"done, charged 1: ['done']"}
    return 0 if good and not missing and not twice and not any(doubled.values()) and not reasons else 1


if __name__ == "__main__":
    run_trial(main, COUNT)
