"""An agent that writes all that it can keep, in a kernel that is killed while it does: what the next one has of it.

The index of what is found again may be lost or damaged in between.
"""

import random
import signal
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

from kernel.services.recall import FILE
from tests.crash.life import Gone, Life
from tests.crash.points import every
from tests.project import Project, empty_project
from tests.soak import say

AGENT: Final = "keeper"
WORD: Final = "quokkaport"
MESSAGE: Final = f"remember {WORD}"
SCRIPT: Final = f"""
backend: mock
mock:
  - when: remember
    do:
      - {{ tool: memory_write, args: {{ key: gateway, value: "the {WORD} is 7001", tier: core }} }}
      - {{ tool: memory_write, args: {{ key: gateway, value: "the {WORD} is 7002", tier: working }} }}
      - {{ tool: memory_write, args: {{ key: old, value: "a word too many" }} }}
      - {{ tool: memory_forget, args: {{ key: old }} }}
      - {{ tool: note_write, args: {{ content: "I was told {WORD}." }} }}
      - {{ tool: todo_add, args: {{ text: "check the {WORD}" }} }}
      - {{ tool: todo_add, args: {{ text: tell bob }} }}
      - {{ tool: todo_done, args: {{ id: 1 }} }}
      - text: kept
"""
NAMES: Final = frozenset({"store.committed", "file.written", "file.named", "mcp.answer", "attempt.journalled"})
"""Points between which a write of memory is begun, done and answered."""
SAMPLES: Final = (
    ("file.written:3", "deleted"),
    ("file.named:4", ""),
    ("mcp.answer:2", "garbled"),
    ("file.written:7", "cut"),
    ("file.named:8", "deleted"),
    ("store.committed:12", ""),
)
"""For the ordinary suite, each on every sixth day; the files 1 and 2 are those that make the folder."""


def places(project: Project, log: Path) -> list[str]:
    """The points between which an agent's writes are, as one kernel passes them that is not killed."""
    project.write(f".agents/{AGENT}.yaml", SCRIPT)
    with Life(project, points=log) as life:
        life.wait_ready()
        life.until_done(life.send(AGENT, MESSAGE))
        life.stop()
    return [place for place in every(log.read_text().splitlines()) if place.rpartition(":")[0] in NAMES]


def killed_at(project: Project, place: str, damage: str) -> tuple[bool, list[str]]:
    """Kill a kernel at ``place``, damage the index, and have the next one finish. Whether it died, what is wrong."""
    project.write(f".agents/{AGENT}.yaml", SCRIPT)
    with Life(project, crash_at=place) as life:
        try:
            life.wait_ready()
            life.until_done(life.send(AGENT, MESSAGE))
            life.stop()
        except Gone:
            life.wait_dead()
        died = life.wait_dead() == -signal.SIGKILL
    _damage(project.state / FILE, damage)
    with Life(project) as life:
        life.wait_ready()
        life.until_done(life.send(AGENT, MESSAGE))
        wrong = list(_judge(life))
        life.stop()
    folder = project.root / f".agents/{AGENT}"
    left = [path.name for path in folder.rglob("*") if ".tmp-" in path.name]
    return died, wrong + [f"{name} is left" for name in left]


def _judge(life: Life) -> list[str]:
    kept = {what: life.ask("GET", f"/agents/{AGENT}/{what}").body for what in ("memory", "notes", "todo")}
    entries = [(one["key"], one["value"], one["tier"]) for one in kept["memory"]["entries"]]
    found = {
        "memory": (entries, [("gateway", f"the {WORD} is 7002", "working")]),
        "notes": ([one["text"] for one in kept["notes"]["notes"]], [f"I was told {WORD}.\n"]),
        "todo": (
            [(one["text"], one["done"]) for one in kept["todo"]["items"]],
            [(f"check the {WORD}", True), ("tell bob", False)],
        ),
        "skipped": ([one["skipped"] for one in kept.values()], [[], [], []]),
        "said again": (_found(life), {"user": 1, AGENT: 5}),
    }
    return [
        f"{what}: there is {there}, and should be {ought}" for what, (there, ought) in found.items() if there != ought
    ]


def _found(life: Life) -> Any:
    hits = life.ask("GET", f"/agents/{AGENT}/thread/search?query={WORD}").body["found"]
    return dict(Counter(hit["turn"]["sender"] for hit in hits))


def main(count: int, seed: int) -> int:
    """Kill as many kernels, each somewhere, and say what came of it. Returns how many trials are wrong."""
    chance, bad, died = random.Random(seed), 0, 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        (Path(folder) / "first").mkdir()
        known = places(empty_project(Path(folder) / "first"), Path(folder) / "points")
        for number in range(count):
            place, damage = chance.choice(known), chance.choice(("", "deleted", "cut", "garbled"))
            (Path(folder) / str(number)).mkdir()
            dead, wrong = killed_at(empty_project(Path(folder) / str(number)), place, damage)
            died += dead
            bad += bool(wrong)
            what = "; ".join(wrong) or ("as if it had lived" if dead else "it did not come there")
            say(f"seed {seed}, kernel {number}, to be killed at {place}, index {damage or 'whole'}: {what}")
    say(f"{count} trials with kernels, {died} of them killed at one of {len(known)} points, {bad} wrong")
    return bad


def _damage(path: Path, how: str) -> None:
    if not how:
        return
    for suffix in ("-wal", "-shm", *([""] if how == "deleted" else [])):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    if path.exists():
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2] if how == "cut" else b"garbled!" * (len(data) // 8))
