"""A real kernel on a disk that fills up and is freed again: ``python -m tests.e2e.disk_soak [ROUNDS]``.

Runs where it may mount a file system of its own (``unshare --user --map-root-user --mount``). While the disk is full
nothing may be accepted and lost, and ``awk status`` must say so; once there is space, work goes on by itself. Says what
was accepted and what was found again; exits 1 where that differs.
"""

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.e2e.processes import wait_until
from tests.project import Project, empty_project
from tests.soak import run_trial, say

ROUNDS: Final = 5
DISK: Final = "size=24m"
SLACK_BYTES: Final = 2 * 1024 * 1024
"""What is left free at first, so that the disk runs full in the middle of a commit."""
CHUNK: Final = b"x" * 65_536
TRIES: Final = 500


def fill(file: Path) -> None:
    """Write until there is no more space, to the last block."""
    with suppress(OSError), file.open("ab", buffering=0) as ballast:
        while ballast.write(CHUNK):
            pass


def one_round(project: Project, number: int) -> tuple[list[str], int]:
    """Fill the disk, send until that is refused, free it again. The texts that were accepted; how many were refused."""
    ballast = project.state_home / "ballast"
    accepted, refused = [], 0
    fill(ballast)
    os.truncate(ballast, ballast.stat().st_size - SLACK_BYTES)
    for n in range(TRIES):
        text = f"round {number} message {n} {'y' * 2000}"
        if project.awk("send", "alice", text).code == 0:
            accepted.append(text)
        else:
            refused += 1
            fill(ballast)
        if refused == 3:
            break
    assert project.awk("status").code == 1, "a kernel that cannot write says that it is up"
    ballast.unlink()
    wait_until(lambda: project.awk("status").code == 0)
    last = f"round {number} with space again"
    assert project.awk("send", "alice", last, "--wait").code == 0
    return [*accepted, last], refused


def main(base: Path, rounds: int) -> int:
    project = empty_project(base)
    subprocess.run(["mount", "-t", "tmpfs", "-o", DISK, "none", str(project.state_home)], check=True)
    project.agent("alice", "text: done")
    assert project.awk("start").code == 0
    accepted: list[str] = []
    for number in range(rounds):
        texts, refused = one_round(project, number)
        accepted += texts
        say(f"round {number}: {len(texts)} accepted, {refused} refused")
    messages = project.awk("peek", "alice", "-n", "0", "--json").json()["messages"]
    found = [row["text"] for row in messages if row["from"] == "user"]
    lost, doubled, refused_and_kept = (
        set(accepted) - set(found),
        len(found) - len(set(found)),
        set(found) - set(accepted),
    )
    say(f"{len(accepted)} accepted: {len(lost)} lost, {doubled} stored twice; {len(refused_and_kept)} refused and kept")
    project.awk("stop", "--yes")
    subprocess.run(["umount", "--lazy", str(project.state_home)], check=True)
    return 1 if lost or doubled or refused_and_kept else 0


if __name__ == "__main__":
    run_trial(main, ROUNDS)
