"""Trials of landings by generated histories (landing_draw): kernels serve the queue, and are killed as they do.

``scripts/soak landing`` tries as many as one likes; each follows from its seed. What comes back to an author is
resolved as it was told, and asked for once more.
"""

import argparse
import gc
import os
import random
import re
import secrets
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from unittest import mock

import apsw
import trio

from kernel.git import checkout_move
from kernel.git.merging import Merging
from kernel.policy.landing import Standing, settle
from kernel.services import landings as service
from kernel.store.database import Reader
from kernel.store.transaction import Transaction
from kernel.store.transitions import landings
from kernel.store.transitions.landings import Landing, landing_refused
from kernel.workflows.setup import CheckOutcome
from protocol.api.runs import MergeOutcome
from tests.kernel.git.git_project import GitProject
from tests.kernel.services.landing_draw import Group, History, acts_of, commit_of, draw, files_of, template_in
from tests.kernel.services.landing_judge import judge, refs_of
from tests.kernel.services.landing_life import EVENTS, Doom, Late, be_subreaper, live, plain_launcher, user_git
from tests.kernel.services.landing_project import BRANCH, stored_ground

COUNT: Final = 2000
TOLD: Final = 50
"""Histories between two lines of how far it is."""
ROUNDS: Final = 2
"""How often what came back is resolved and asked for again, and once more."""
MOST_KERNELS: Final = 12


def play(seed: int, folder: Path, template: GitProject, met: Counter[str]) -> list[str]:
    """Play the history of ``seed`` in the new ``folder``. Returns what is wrong at its end."""
    history = draw(seed, folder, template, met)
    before = refs_of(history.git_project)
    kills = min(MOST_KERNELS - 1, _several(history.chance, 0.75, 0.4))
    wrong: list[str] = []
    trio.run(_begin, history)
    for turn in range(ROUNDS):
        while not wrong:
            doom = _doom(history) if kills else None
            kills -= doom is not None
            unasked = [one for one in history.groups if not one.asked]
            nth = history.chance.randint(1, EVENTS * len(history.authors))
            late = Late(nth, tuple((one.run, one.request) for one in unasked))
            life = live(history.git_project, history.store, doom, acts_of(history), late)
            if unasked:
                trio.run(_look, history, unasked)
            if life.broke:
                wrong.append(f"a kernel broke: {life.broke}")
            if not life.killed_at:
                break
            met[f"killed at {life.killed_at}"] += 1
        if wrong:  # what it left cannot be judged
            return wrong
        back = trio.run(_came_back, history)
        if not back or turn == ROUNDS - 1:
            break
        wrong += trio.run(_resolve, history, back)
        now = refs_of(history.git_project)
        before |= {name: where for name, where in now.items() if name.startswith(f"refs/heads/{BRANCH}")}
        trio.run(_ask, history, back)
    return wrong + trio.run(judge, history, before)


def _doom(history: History) -> Doom:
    return Doom.draw(history.chance, len(history.authors), checked_out=history.checked_out)


def _several(chance: random.Random, first: float, more: float) -> int:
    count = int(chance.random() < first)
    while count and chance.random() < more:
        count += 1
    return count


async def _begin(history: History) -> None:
    async with stored_ground(history.git_project, plain_launcher(), history.store) as place:
        for group in history.groups:
            group.run = await place.run_of(*group.names)
            if not group.late:
                group.asked.append(await place.ask(group.run, group.request))


async def _ask(history: History, groups: list[Group]) -> None:
    async with stored_ground(history.git_project, plain_launcher(), history.store) as place:
        for group in groups:
            group.asked.append(await place.ask(group.run, group.request))


async def _look(history: History, groups: list[Group]) -> None:
    async with stored_ground(history.git_project, plain_launcher(), history.store) as place:
        for group in groups:
            found = place.reader.now(landings.newest, group.run)
            group.asked += [] if found is None else [found]
        history.met["asked while others landed"] += sum(bool(group.asked) for group in groups)


async def _came_back(history: History) -> list[Group]:
    async with stored_ground(history.git_project, plain_launcher(), history.store) as place:
        return [one for one in history.groups if place.outcome(one.asked[-1]).returned_to]


TOLD_WORK: Final = """
SELECT i.name, m.text FROM instructions AS i JOIN messages AS m ON m.seq = i.message WHERE i.id = ?
"""
NAMED_COMMIT: Final = re.compile(r"merge the\s+commit\s+([0-9a-f]{40})")


async def _resolve(history: History, back: list[Group]) -> list[str]:
    wrong: list[str] = []
    async with stored_ground(history.git_project, plain_launcher(), history.store) as place:
        for group in back:
            for work in place.outcome(group.asked[-1]).returned_to:
                name, text = _work_of(place.reader, work)
                found = NAMED_COMMIT.search(text)
                other = found[1] if found else ""
                if user_git(history.git_project, "cat-file", "-e", f"{other}^{{commit}}") is None:
                    wrong.append(f"{name} is told to merge a commit that is not there: {text[:300]}")
                    continue
                author = history.authors[name]
                start = files_of(history.git_project, other)
                own = (
                    b"\n".join(sorted({line for one in author.carries for line in history.authors[one].added})) + b"\n"
                )
                files = {**start, f"resolved/{name}": own}
                ref = f"refs/heads/{BRANCH}{name}"
                parents = (other, refs_of(history.git_project)[ref])
                history.git_project.give(commit_of(ref, name, parents, start, files), "fast-import", "--quiet")
                author.resolved = author.carries
                author.carries |= {one for other_name in group.names for one in history.authors[other_name].carries}
                history.met["resolved"] += 1
    return wrong


def _work_of(reader: Reader, instruction: str) -> tuple[str, str]:
    row = reader.now(lambda conn: conn.execute(TOLD_WORK, (int(instruction[1:]),)).fetchone())
    assert row is not None, instruction
    return str(row[0]), str(row[1])


def try_all(
    seeds: Iterable[int], folder: Path, told: Callable[[int, list[str], Counter[str]], None], *, patient: bool = True
) -> int:
    """Play the histories of ``seeds``, and tell what came of each. Returns how many are wrong.

    Who is not ``patient`` wants no more after the first.
    """
    be_subreaper()
    template = template_in(folder / "template")
    met: Counter[str] = Counter()
    bad = 0
    gc.freeze()  # what is there now is not touched in each kernel that is forked
    for seed in seeds:
        place = folder / str(seed)
        wrong = play(seed, place, template, met)
        bad += bool(wrong)
        told(seed, wrong, met)
        shutil.rmtree(place)
        if bad and not patient:
            break
    return bad


async def _unchecked(*_args: object, **_more: object) -> CheckOutcome:
    return CheckOutcome(None)


async def _theirs(merging: Merging, ours: str, theirs: str) -> tuple[str | None, tuple[str, ...]]:
    tree, _files = await _tree(merging, ours, theirs)
    return tree or await _tree_of(merging, theirs), ()


async def _elsewhere_too(merging: Merging, branch: str, expected: str, tip: str) -> bool:
    await _move(merging, "elsewhere", expected, tip)
    return await _move(merging, branch, expected, tip)


async def _whatever_is_there(merging: Merging, branch: str, _expected: str, tip: str) -> bool:
    return await _move(merging, branch, await merging.tip(branch) or "", tip)


async def _not_kept(*_args: object) -> None:
    pass


def _not_back(*_args: object) -> None:
    pass


def _only_requested(conn: apsw.Connection) -> tuple[Landing, ...]:
    return tuple(one for one in _open(conn) if one.state == "requested")


def _nobodys(tx: Transaction, landing: Landing, outcome: MergeOutcome, _returns: object = ()) -> object:
    return landing_refused(tx, landing, outcome)


def _as_expected(now: str | None, _expected: str, *, tip_is_in: bool) -> Standing:
    return settle(now, now or "", tip_is_in=tip_is_in)


_tree, _tree_of = vars(Merging)["_tree"], vars(Merging)["_tree_of"]
_move, _open = Merging.move, landings.unfinished
Patch = tuple[object, str, object]
PLANTED: Final[Mapping[str, tuple[Patch, ...]]] = {
    "nothing is checked": ((service, "check_merge", _unchecked),),
    "conflicts are decided for one side": ((Merging, "_tree", _theirs),),
    "another branch is moved as well": ((Merging, "move", _elsewhere_too),),
    "the branch is moved from wherever it is": (
        (Merging, "move", _whatever_is_there),
        (service, "settle", _as_expected),
    ),
    "what is named is not kept": ((Merging, "keep", _not_kept),),
    "a checkout is left half done": ((checkout_move, "go_back", _not_back),),
    "what a dead kernel had begun is forgotten": ((landings, "unfinished", _only_requested),),
    "what is refused goes back to nobody": ((service, "landing_refused", _nobodys),),
}
SEEDS: Final = 100
"""In which a planted fault has to be found."""


def find_planted(what: str, first: int, folder: Path) -> tuple[int, list[str]] | None:
    """The seed, from ``first`` on, at which the judge sees the fault ``what``, and what it says; None: it does not."""
    found: list[tuple[int, list[str]]] = []
    with ExitStack() as stack:
        for owner, name, instead in PLANTED[what]:
            stack.enter_context(mock.patch.object(owner, name, instead))
        try_all(
            range(first, first + SEEDS), folder, lambda seed, wrong, _met: found.append((seed, wrong)), patient=False
        )
    return next(((seed, wrong) for seed, wrong in found if wrong), None)


def _plant(faults: list[str], first: int, folder: Path) -> int:
    missed = 0
    for number, what in enumerate(faults):
        place = folder / str(number)
        place.mkdir()
        found = find_planted(what, first, place)
        missed += found is None
        where = (
            f"found at seed {found[0]}: {found[1][0].splitlines()[0][:150]}" if found else f"not found in {SEEDS} seeds"
        )
        sys.stdout.write(f"{what}: {where}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(faults)} faults planted, {missed} not found\n")
    return missed


def main(argv: list[str]) -> int:
    """Try COUNT histories, and say the seeds of those that are wrong."""
    parser = argparse.ArgumentParser(prog="scripts/soak landing", description="Try histories of landings.")
    parser.add_argument("count", type=int, nargs="?", default=COUNT)
    parser.add_argument("--seed", type=int, help="the first; the others follow it")
    parser.add_argument("--planted", action="store_true", help="plant faults instead, each of which has to be found")
    parser.add_argument("--fault", choices=tuple(PLANTED), action="append", help="of these, only this one")
    asked = parser.parse_args(argv)
    first = secrets.randbelow(2**31) if asked.seed is None else asked.seed
    sys.stdout.write(f"seeds {first} to {first + asked.count - 1}\n")
    began, bad = time.monotonic(), 0

    def told(seed: int, wrong: list[str], met: Counter[str]) -> None:
        nonlocal bad
        bad += bool(wrong)
        for text in wrong:
            sys.stdout.write(f"seed {seed}: {text}\n")
        if met["histories"] % TOLD == 0 or met["histories"] == asked.count:
            spent = os.times()
            cpu = sum(spent[:4])
            kills = sum(number for what, number in met.items() if what.startswith("killed"))
            facts = ", ".join(
                f"{what} {number}" for what, number in sorted(met.items()) if not what.startswith("killed")
            )
            took = f"{time.monotonic() - began:.0f} s, {cpu:.0f} s of CPU"
            sys.stdout.write(f"{met['histories']} histories, {bad} wrong, {took}; kernels killed {kills}, {facts}\n")
        sys.stdout.flush()

    place = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="awk-landing-", dir=place) as folder:
        if asked.planted or asked.fault:
            return 1 if _plant(asked.fault or list(PLANTED), first, Path(folder)) else 0
        try_all(range(first, first + asked.count), Path(folder), told)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
