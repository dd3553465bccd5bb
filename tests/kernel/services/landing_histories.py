"""Generated histories of a repository in which agents' branches land: who wrote what, who conflicts, who dies when.

``scripts/soak landing`` tries as many as one likes; each follows from its seed. The judge knows the branches and what
was asked, and looks at the repository alone.
"""

import argparse
import random
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import trio

from kernel.procs.launcher import Launcher
from kernel.store.landings import Landing
from protocol.api.merges import MergeRequest
from tests.kernel.services.landing_ground import BRANCH, Fate, LandingGround, commit, landing_ground
from tests.kernel.workflows.git_ground import Ground, ground_in, launched

COUNT: Final = 2000
FILES: Final = ("one.txt", "two.txt", "three.txt")
LINES: Final = 24
POINTS: Final = ("begun", "kept", "checked", "locked", "moved", "files", "index", "landed")
CHECK: Final = 'test "$(cat only/* 2>/dev/null | wc -l)" -le 1'
"""The project's: at most one may be chosen. Each branch passes it, and two that choose do not pass it together."""
FLAKY: Final = f"{CHECK} && test $(( $(od -An -N1 -tu1 /dev/urandom) % 4 )) -ne 0"


@dataclass
class History:
    """One history as it goes on: what the branches hold, what the user did, and what was asked for."""

    seed: int
    chance: random.Random
    tokens: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Of each author: what only it wrote."""
    users: list[str] = field(default_factory=list)
    """The user's own commits."""
    asked: list[tuple[Landing, tuple[str, ...], MergeRequest]] = field(default_factory=list)


async def play(seed: int, folder: Path, launcher: Launcher) -> list[str]:
    """Play the history of ``seed`` in the new ``folder``. Returns what is wrong at its end."""
    history = History(seed, random.Random(seed))
    chance = history.chance
    ground = ground_in(folder)
    base: dict[str, bytes | None] = {
        name: b"".join(b"%s %d\n" % (name.encode(), line) for line in range(LINES)) for name in FILES
    }
    commit(ground, "refs/heads/main", {**base, "b.bin": bytes(range(99))}, "main", "base")
    ground.git("reset", "--quiet", "--hard", "main")
    checked_out = chance.random() < 0.6
    if not checked_out:
        ground.git("checkout", "--quiet", "-b", "elsewhere")
    fate = Fate(f"{chance.choice(POINTS)}:{chance.randint(1, 3)}" if chance.random() < 0.7 else "")
    authors = [f"a{number}" for number in range(chance.randint(2, 10))]
    async with landing_ground(ground, launcher, fate) as place:
        for author in authors:
            files, history.tokens[author] = _work(author, chance, base)
            place.branch(author, files)
        while chance.random() < 0.5:
            point = chance.choice(("begun", "kept", "checked", "landed"))
            fate.acts.setdefault(point, []).append(partial(_user_commits, history, ground, checked_out=checked_out))
        others = {name: where for name, where in place.refs().items() if name != "refs/heads/main"}
        groups = _groups(authors, chance)
        for group in groups:
            check = chance.choice((CHECK, CHECK, FLAKY))
            request = MergeRequest(check=check, squash=chance.random() < 0.3, give_back=chance.random() < 0.3)
            history.asked.append((await place.ask(await place.run_of(*group), request), group, request))
        await place.serve()
        wrong = _judge(history, place, checked_out=checked_out)
        left = {name: where for name, where in place.refs().items() if name != "refs/heads/main"}
        if checked_out or "refs/heads/elsewhere" in left:
            wrong += [] if left == others else [f"refs of others moved: {set(left.items()) ^ set(others.items())}"]
        return wrong


def _work(
    author: str, chance: random.Random, base: dict[str, bytes | None]
) -> tuple[dict[str, bytes | None], tuple[str, ...]]:
    """What an author commits, and the words in it that are nobody else's."""
    files: dict[str, bytes | None] = {}
    tokens: list[str] = []
    for number in range(chance.randint(1, 3)):
        token = f"token-{author}-{number}"
        kind = chance.choice(("edit", "edit", "edit", "add", "only", "rename", "binary", "remove"))
        name = chance.choice(FILES)
        before = files.get(name) or base[name] or b""
        match kind:
            case "edit" if name not in files or files[name]:
                lines = before.splitlines(keepends=True)
                lines[chance.randrange(len(lines))] = f"{token}\n".encode()
                files[name] = b"".join(lines)
                tokens = [one for one in tokens if one.encode() in b"".join(filter(None, files.values()))]
            case "only":
                files[f"only/{author}"] = f"{token}\n".encode()
                tokens = [one for one in tokens if one.encode() in b"".join(filter(None, files.values()))]
            case "rename" if name not in files:
                files[name], files[f"{author}/{name}"] = None, before + f"{token}\n".encode()
            case "remove" if name not in files:
                files[name] = None
                continue
            case "binary":
                files["b.bin"] = bytes(range(99)) + token.encode() + b"\0"
                tokens = [one for one in tokens if one.encode() in b"".join(filter(None, files.values()))]
            case _:
                files[f"new/{author}-{number}.txt"] = f"{token}\n".encode()
        tokens.append(token)
    return files, tuple(tokens)


def _groups(authors: list[str], chance: random.Random) -> list[tuple[str, ...]]:
    """The authors of each run that lands: some alone, some together."""
    left, groups = list(authors), []
    while left:
        size = chance.choice((1, 1, 2, 3))
        groups.append(tuple(left[:size]))
        left = left[size:]
    return groups


def _user_commits(history: History, ground: Ground, *, checked_out: bool) -> None:
    name = f"user-{len(history.users)}.txt"
    if checked_out:
        if (ground.root / ".git/index.lock").exists():
            return  # git refuses while something is at work there
        ground.write(name, f"{name}\n")
        ground.commit()
        history.users.append(ground.git("rev-parse", "main"))
    else:
        history.users.append(commit(ground, "refs/heads/main", {name: f"{name}\n".encode()}, "main", "user"))


def _judge(history: History, place: LandingGround, *, checked_out: bool) -> list[str]:
    ground, wrong = place.ground, []
    listed = ground.git("ls-tree", "-r", "--name-only", "main").splitlines()
    if sum(name.startswith("only/") for name in listed) > 1:
        wrong.append("main is red")
    on_main = ground.git("grep", "-a", "-h", "-o", "token-[a-z0-9-]*", "main", "--", ".") if _has_tokens(ground) else ""
    found = set(on_main.split())
    merged: set[str] = set()
    for landing, group, request in history.asked:
        info = place.outcome(landing)
        if info.state not in ("merged", "refused"):
            wrong.append(f"{info.id} is {info.state}")
        if info.state == "refused" and not info.why:
            wrong.append(f"{info.id} was refused, and nobody knows why")
        if info.state == "refused" and request.give_back and not info.returned_to and (info.output or info.files):
            wrong.append(f"{info.id} was not given back: {info.why}")
        if info.state == "merged":
            merged |= set(group)
            lost = {token for name in group for token in history.tokens[name]} - found
            if lost:
                wrong.append(f"{info.id} is merged, and main lacks {lost}")
            if not request.squash:
                tips = [name for name in group if not _is_in(ground, f"{BRANCH}{name}") and history.tokens[name]]
                wrong += [f"{info.id} is merged, and main has not {name}" for name in tips]
    foreign = {token for name, tokens in history.tokens.items() if name not in merged for token in tokens} & found
    if foreign:
        wrong.append(f"main has {foreign}, which was refused")
    wrong += [f"the user's {one} is lost" for one in history.users if not _is_in(ground, one)]
    if checked_out and ground.git("status", "--porcelain"):
        wrong.append(f"the checkout is not clean: {ground.git('status', '--porcelain')}")
    if (ground.root / ".git/index.lock").exists():
        wrong.append("a lock is left")
    return wrong


def _has_tokens(ground: Ground) -> bool:
    return "token-" in ground.git("log", "-p", "-m", "--text", "--first-parent", "main")


def _is_in(ground: Ground, commit: str) -> bool:
    return ground.git("merge-base", commit, "main") == ground.git("rev-parse", commit)


async def try_all(seeds: list[int], folder: Path, told: Callable[[int, list[str]], None]) -> int:
    """Play the histories of ``seeds``, and tell what came of each. Returns how many are wrong."""
    bad = 0
    async with launched(folder) as launcher:
        for seed in seeds:
            place = folder / str(seed)
            wrong = await play(seed, place, launcher)
            told(seed, wrong)
            bad += bool(wrong)
            shutil.rmtree(place)
    return bad


def main(argv: list[str]) -> int:
    """Try COUNT histories, and say the seeds of those that are wrong."""
    parser = argparse.ArgumentParser(prog="scripts/soak landing", description="Try histories of landings.")
    parser.add_argument("count", type=int, nargs="?", default=COUNT)
    parser.add_argument("--seed", type=int, help="the first; the others follow it")
    asked = parser.parse_args(argv)
    first = secrets.randbelow(2**31) if asked.seed is None else asked.seed
    sys.stdout.write(f"seeds {first} to {first + asked.count - 1}\n")
    began = time.monotonic()

    def told(seed: int, wrong: list[str]) -> None:
        for text in wrong:
            sys.stdout.write(f"seed {seed}: {text}\n")
            sys.stdout.flush()

    with tempfile.TemporaryDirectory(prefix="awk-landing-") as folder:
        bad = trio.run(try_all, list(range(first, first + asked.count)), Path(folder), told)
    sys.stdout.write(f"{asked.count} histories, {bad} wrong, {time.monotonic() - began:.0f} s\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
