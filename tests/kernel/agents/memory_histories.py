"""Histories of an agent's memory under killed writers and full disks; ``scripts/soak memory``.

Each step runs in a forked process, by the code of the kernel or of the command line. It runs to its end, is killed at
a file operation, or runs out of disk. Between steps, people edit files, files are torn, and the index is damaged. After
each step the files must match a plain model: completed changes are present once, refused ones absent, killed ones
either, and earlier and new readers see the same. A seed determines the history.
"""

import argparse
import errno
import os
import random
import re
import resource
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal, NoReturn

from interface.failure import Failure
from kernel.agents.catalog import Catalog
from kernel.agents.personal_context import ContextPlace, PersonalContexts
from kernel.policy.recall import asked_words, remembered
from kernel.store.recall_index import IndexBroken, IndexUnwritable, open_index, scrub
from kernel.store.turn_index import KeptText, put_kept, search_kept
from protocol.agent_memory import TIERS, Entry, Tier, content, with_done
from protocol.errors import Refused
from protocol.memory_files import Memory, StoredEntry
from tests.crash import memory_trial

COUNT: Final = 2000
KERNELS: Final = 20
STEPS: Final = 12
KEYS: Final = ("auth", "deploys", "style", "the office", "迁移")
AGENT: Final = "alice"
TOLD: Final = 100
"""Histories between two lines of how far it is."""
LOG: Final = "soak"
Fate = Literal["lives", "killed", "full", "cut"]
"""``full``: no space from an operation on; ``cut``: no file may be longer than some bytes."""


@dataclass(frozen=True)
class Kept:
    """All that an agent keeps, as the model has it."""

    memory: tuple[tuple[str, str, Tier], ...] = ()
    notes: tuple[str, ...] = ()
    todos: tuple[tuple[str, bool], ...] = ()

    def of(self, key: str) -> tuple[str, str, Tier] | None:
        return next((one for one in self.memory if one[0] == key), None)


@dataclass(frozen=True)
class Step:
    """What one writer is to do, and what is there after it."""

    text: str
    by_kernel: Callable[[PersonalContexts, ContextPlace], object]
    after: Kept


@dataclass
class History:
    """One agent's folder, what it should hold, and by what chance it goes on."""

    seed: int
    root: Path
    met: Counter[str] = field(default_factory=Counter)
    model: Kept = Kept()
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        (self.root / "p/.agents").mkdir(parents=True)
        (self.root / "p/.agents/alice.yaml").write_text("backend: mock\nmock: [{text: hi}]\n")
        self.reader = self.contexts()
        self.place = self.reader.place(AGENT, None)
        self.folder = self.root / "p/.agents/alice"

    def contexts(self) -> PersonalContexts:
        """As a kernel has them that was just started."""
        return PersonalContexts(Catalog(self.root / "p"), self.root / "state")

    # -- steps ----------------------------------------------------------------------------------------------------

    def draw(self, number: int) -> Step:
        """The next step: something to write, in a text that stands nowhere else."""
        act = self.chance.choice(("set", "set", "set", "forget", "note", "todo", "tick"))
        word = f"word{self.seed}x{number}"
        if act == "set":
            return self._set(self.chance.choice(KEYS), f"{word} {'long' * self.chance.randrange(250)}".strip())
        if act == "forget" and self.model.memory:
            return self._forget(self.chance.choice(self.model.memory)[0])
        if act == "tick" and self.model.todos:
            return self._tick(self.chance.randrange(len(self.model.todos)))
        if act == "note":
            return self._note(word)
        return self._todo(word)

    def _set(self, key: str, value: str) -> Step:
        was = self.model.of(key)
        tier: Tier = self.chance.choice(TIERS) if was is None or self.chance.random() < 0.5 else was[2]
        rest = tuple(one for one in self.model.memory if one[0] != key)

        def by_kernel(contexts: PersonalContexts, place: ContextPlace) -> object:
            return contexts.change_memory(place, lambda memory: [(memory.find(key), Entry(key, value, tier))])

        after = Kept((*rest, (key, value, tier)), self.model.notes, self.model.todos)
        return Step(f"set {key} {value[:20]} {tier}", by_kernel, after)

    def _forget(self, key: str) -> Step:
        def forget(memory: Memory) -> list[tuple[StoredEntry, None]]:
            now = memory.find(key)
            return [(one, None) for one in (*memory.behind(key), *([] if now is None else [now]))]

        rest = tuple(one for one in self.model.memory if one[0] != key)
        after = Kept(rest, self.model.notes, self.model.todos)
        return Step(f"forget {key}", lambda contexts, place: contexts.change_memory(place, forget), after)

    def _note(self, word: str) -> Step:
        body, at = f"note {word}", float(self.chance.randrange(3))

        def by_kernel(contexts: PersonalContexts, place: ContextPlace) -> object:
            return contexts.add_note(place, body, None, at, again=True)

        after = Kept(self.model.memory, (*self.model.notes, content(body)), self.model.todos)
        return Step(f"note {word}", by_kernel, after)

    def _todo(self, word: str) -> Step:
        after = Kept(self.model.memory, self.model.notes, (*self.model.todos, (word, False)))
        return Step(f"todo {word}", lambda contexts, place: contexts.add_todo(place, word, 0), after)

    def _tick(self, number: int) -> Step:
        tick = partial(with_done, number=number + 1)
        todos = tuple((text, done or n == number) for n, (text, done) in enumerate(self.model.todos))

        after = Kept(self.model.memory, self.model.notes, todos)
        return Step(f"tick {number}", lambda contexts, place: contexts.change_todos(place, tick), after)

    # -- what is there --------------------------------------------------------------------------------------------

    def seen(self) -> Kept:
        """What the files say to who has read before; the same as to who has not, or it is wrong."""
        old, new = self.reader.read(self.place), self.contexts().read(self.place)
        # An entry that does not say since when is as old as its file was when it was read first.
        undated = [one._replace(memory=tuple(row._replace(written_ms=0) for row in one.memory)) for one in (old, new)]
        if undated[0] != undated[1]:
            raise Wrong("who had read before sees something else than who had not")
        memory = self.reader.memory(self.place)
        for one in memory.shadowed:
            if not any(f"{one.entry.key} is in " in text for text in new.skipped):
                raise Wrong(f"{one.entry.key} stands in two files, and nobody is told")
        return Kept(
            tuple((one.entry.key, one.entry.value, one.entry.tier) for one in new.memory),
            tuple(one.text for one in new.notes),
            tuple((one.text, one.done) for one in new.todos),
        )


class Wrong(AssertionError):
    """What should not be."""


def same(seen: Kept, model: Kept) -> bool:
    """Whether they are the same; entries and notes have no order of their own here."""
    return (
        sorted(seen.memory) == sorted(model.memory)
        and Counter(seen.notes) == Counter(model.notes)
        and seen.todos == model.todos
    )


# -- one who dies -------------------------------------------------------------------------------------------------

OPERATIONS: Final = ("replace", "link", "unlink", "fsync", "mkdir", "open")
MOST_OPERATIONS: Final = 14


class _Doomed:
    """Comes between a process and its files: at its n-th operation the process is killed, or the disk is full."""

    def __init__(self, fate: Fate, at: int, half: bool) -> None:
        self._fate = fate
        self._left = at
        self._half = half

    def wrap(self, name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def doomed(*args: Any, **more: Any) -> Any:
            if name == "open" and not args[1] & os.O_CREAT:
                return real(*args, **more)
            self._left -= 1
            if self._left <= 0 and self._fate == "full" and name != "unlink":
                raise OSError(errno.ENOSPC, "No space left on device")
            if self._left == 0 and self._fate == "killed":
                if name == "fsync" and self._half and os.path.isfile(f"/proc/self/fd/{args[0]}"):
                    os.truncate(args[0], os.fstat(args[0]).st_size // 2)  # half of it had reached the disk
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **more)

        return doomed


def forked(work: Callable[[], object], fate: Fate, at: int = 0, half: bool = False) -> tuple[int, str]:
    """Do ``work`` in a process of its own. Its exit code (0: done, 1: refused, below 0: the signal), and what it
    said."""
    hear, say = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(hear)
        _die(work, fate, at, half, say)
    os.close(say)
    with open(hear, "rb") as told:
        text = told.read().decode()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text


def _die(work: Callable[[], object], fate: Fate, at: int, half: bool, say: int) -> NoReturn:
    code = 2
    try:
        if fate == "cut":
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (at * 8, resource.RLIM_INFINITY))
        doomed = _Doomed(fate, at, half)
        if fate in ("killed", "full"):
            for name in OPERATIONS:
                setattr(os, name, doomed.wrap(name))
        work()
        code = 0
    except (Refused, Failure) as refused:
        code = 1
        os.write(say, str(refused).encode())
    except BaseException as error:  # noqa: BLE001  (a process that is not ours to end in any other way)
        os.write(say, f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(code)


# -- a history ----------------------------------------------------------------------------------------------------


def play(seed: int, root: Path, met: Counter[str]) -> list[str]:
    """Play the history of ``seed`` in the new folder ``root``. Returns what is wrong, with the steps up to there."""
    history = History(seed, root, met)
    try:
        for number in range(STEPS):
            _one(history, number)
            if history.chance.random() < 0.3:
                _by_hand(history, number)
            if history.chance.random() < 0.2:
                _twice(history, number)
            if history.chance.random() < 0.25:
                _index(history)
        return []
    except Wrong as wrong:
        return [re.sub(r"(long)+", "..", f"{wrong}, after: {'; '.join(history.told)}")]


def _one(history: History, number: int) -> None:
    step, chance = history.draw(number), history.chance
    fate: Fate = chance.choice(("lives", "killed", "killed", "full", "cut"))

    def work() -> object:
        return step.by_kernel(history.contexts(), history.place)

    at, half = chance.randrange(1, MOST_OPERATIONS), chance.random() < 0.5
    before = history.model
    code, said = forked(work, fate, at, half)
    history.told.append(f"{step.text} ({fate} at {at}: {code} {said})")
    history.met[f"kernel {('done', 'refused', 'failed')[code] if code >= 0 else 'killed'}"] += 1
    seen = history.seen()
    if code not in (0, 1, -signal.SIGKILL):
        raise Wrong(f"it failed: {said}")
    in_part = code == 1 and ("may exist in two files" in said or "was written" in said)
    possible = [step.after] if code == 0 else [before] if code == 1 and not in_part else [before, step.after]
    if not any(same(seen, one) for one in possible):
        raise Wrong(f"there is {seen}, and should be {' or '.join(map(str, possible))}")
    if code == 1 and not said:
        raise Wrong("it was refused without a word")
    if code != 0:
        again, why = forked(work, "lives")
        if again != 0:
            raise Wrong(f"asked for again: {again} {why}")
        history.told.append("again")
        if not same(history.seen(), step.after):
            raise Wrong(f"asked for again there is {history.seen()}, and should be {step.after}")
    history.model = step.after


def _by_hand(history: History, number: int) -> None:
    memory, chance = history.folder / "memory", history.chance
    memory.mkdir(parents=True, exist_ok=True)
    act = chance.choice(("adds", "tears", "leaves half"))
    history.told.append(f"somebody {act}")
    history.met[f"somebody {act}"] += 1
    file = memory / f"{chance.choice(TIERS)}.yaml"
    text = file.read_text() if file.exists() else ""
    if act == "leaves half":
        (memory / f".{file.name}.tmp-{number:012x}").write_text(text[: len(text) // 2] + "half: 'a wo")
    elif act == "tears":
        file.write_text(f"{text}torn: 'no end\n")
        seen, skipped = history.contexts().memory(history.place), history.contexts().read(history.place).skipped
        if not any(f"memory/{file.name}:" in one for one in skipped):
            raise Wrong(f"nobody is told where {file.name} is torn: {skipped}")
        if any(one.file == file.name for one in seen.kept):
            raise Wrong("entries of a torn file count")
        torn = file.read_bytes()
        forked(lambda: history.draw(number).by_kernel(history.contexts(), history.place), "killed", MOST_OPERATIONS)
        if file.read_bytes() != torn:
            raise Wrong("a torn file was written over")
        _restore(history, file, text)
        return
    else:
        key, value = f"hand{number}", f"word{history.seed}hand{number}"
        file.write_text(f"{text}{key}: {value}\n")
        memory_now = (*history.model.memory, (key, value, file.stem))
        history.model = Kept(memory_now, history.model.notes, history.model.todos)  # type: ignore[arg-type]
    if not same(history.seen(), history.model):
        raise Wrong(f"after a hand's edit there is {history.seen()}, and should be {history.model}")


def _restore(history: History, file: Path, text: str) -> None:
    if text:
        file.write_text(text)
    else:
        file.unlink()
    history.model = history.seen()


def _twice(history: History, number: int) -> None:
    first, second = f"word{history.seed}a{number}", f"word{history.seed}b{number}"
    note = f"note {first}"

    def write(word: str) -> None:
        contexts = history.contexts()
        contexts.change_memory(history.place, lambda memory: [(memory.find(word), Entry(word, word))])
        contexts.add_note(history.place, note, None, 5.0)
        contexts.add_todo(history.place, word)

    children: list[int] = []
    for work in (partial(write, first), partial(write, second)):
        if (child := os.fork()) == 0:
            _die(work, "lives", 0, half=False, say=2)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    history.told.append(f"two at once: {codes}")
    history.met["two at once"] += 1
    if codes != [0, 0]:
        raise Wrong(f"of two writers at once one failed: {codes}")
    seen, was = history.seen(), history.model
    todos = {(first, False), (second, False)}
    if set(seen.todos) - set(was.todos) != todos or seen.notes.count(content(note)) != 2:
        raise Wrong(f"two writers at once left {seen}")
    history.model = Kept(
        (*was.memory, (first, first, "working"), (second, second, "working")),
        (*was.notes, content(note), content(note)),
        seen.todos,
    )
    if not same(seen, history.model):
        raise Wrong(f"two writers at once left {seen}, and should have {history.model}")


# -- the index ----------------------------------------------------------------------------------------------------


def _rows(memory: Memory) -> list[KeptText]:
    texts = [(one.entry, remembered(one.entry).text) for one in memory.kept]
    return [KeptText(entry.key, entry.tier, sha256(text.encode()).digest(), text) for entry, text in texts]


def _index(history: History) -> None:
    path, chance = str(history.root / "index.db"), history.chance
    memory = history.reader.memory(history.place)
    at = chance.randrange(1, 60)

    def write() -> None:
        conn, _why = open_index(path, LOG)
        left = at

        def count(_cursor: object, _statement: str, _values: object) -> bool:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return True

        conn.exec_trace = count
        put_kept(conn, AGENT, _rows(memory))
        scrub(conn)

    code, said = forked(write, "lives")
    if code not in (0, -signal.SIGKILL):
        raise Wrong(f"the index failed: {said}")
    damage = chance.choice(("", "", "deleted", "cut", "garbled"))
    if damage:
        _damage(Path(path), damage)
    history.told.append(f"index ({code}) {damage}")
    history.met[f"index {'killed' if code else 'written'}"] += 1
    history.met[f"index {damage or 'whole'}"] += 1
    conn = _opened(path)
    put_kept(conn, AGENT, _rows(memory))
    for key, value, _tier in history.model.memory:
        word = asked_words(value.split()[0])
        found = search_kept(conn, AGENT, word, TIERS)[0]
        if key not in found:
            raise Wrong(f"{key} is in the files, and the index finds {found} for {word}")
    known = {one.entry.key for one in memory.kept}
    everything = search_kept(conn, AGENT, asked_words(" ".join(value for _, value, _ in history.model.memory)), TIERS)
    if not set(everything[0]) <= known:
        raise Wrong(f"the index finds {set(everything[0]) - known}, which is not kept")
    conn.close()


def _opened(path: str) -> Any:
    try:
        return open_index(path, LOG)[0]
    except (IndexBroken, IndexUnwritable) as error:
        raise Wrong(f"the index is not made anew: {error}") from error


def _damage(path: Path, how: str) -> None:
    for beside in ("-wal", "-shm"):
        Path(f"{path}{beside}").unlink(missing_ok=True)
    if how == "deleted":
        path.unlink(missing_ok=True)
    elif path.exists():
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2] if how == "cut" else b"garbled!" * (len(data) // 8))


# -- many ---------------------------------------------------------------------------------------------------------


def play_all(seeds: Iterable[int], folder: Path, met: Counter[str]) -> Iterator[tuple[int, list[str]]]:
    """What is wrong with each history."""
    for seed in seeds:
        root = folder / str(seed)
        yield seed, play(seed, root, met)
        shutil.rmtree(root)


def main() -> int:
    """Try many, and say what was tried. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/soak memory", description="Try histories of memory.")
    parser.add_argument("count", type=int, nargs="?", default=COUNT)
    parser.add_argument("--kernels", type=int, default=KERNELS, help="so many are killed at work, and followed by one")
    parser.add_argument("--seed", type=int, help="the first; the others follow it")
    asked = parser.parse_args()
    first = secrets.randbelow(2**31) if asked.seed is None else asked.seed
    _say(f"seeds {first} to {first + asked.count - 1}")
    began, bad, met = time.process_time(), 0, Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for number, (seed, wrong) in enumerate(play_all(range(first, first + asked.count), Path(folder), met), 1):
            bad += bool(wrong)
            for text in wrong:
                _say(f"seed {seed}: {text}")
            if number % TOLD == 0:
                _say(f"{number} histories, {bad} wrong")
    used = time.process_time() - began + resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    _say(", ".join(f"{count:,} x {what}" for what, count in sorted(met.items())))
    _say(f"{asked.count:,} histories of {STEPS} steps and more, {bad} wrong, {used:.0f} s CPU")
    killed_wrong = memory_trial.main(asked.kernels, first)
    return int(bad + killed_wrong > 0)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
