"""Hostile names of documents, and links that lead out, also while they are swapped: nothing outside is touched (P15).

``python -m tests.kernel.services.document_paths [COUNT] [SEED]`` tries many names, and a fifth as many races.
"""

import hashlib
import os
import random
import shutil
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from kernel.policy.documents import file_fault
from kernel.services.mirror_files import DocumentFiles

COUNT: Final = 50_000
RACE_SHARE: Final = 5
"""One race for so many names."""
FRESH: Final = 500
"""So many names are tried in one folder."""
SECRET: Final = "secret"
PARTS: Final = (
    *(
        "..", ".", "...", "....", ".. ", " ..", "..\0", "..\n", "%2e%2e", "%2e%2e%2f", "..%2f", "..\\", "．．", "‥",
        "․․",
    ),
    *("", " ", "~", "~root", "/", "//", "\\", "C:", "C:\\x", "\\\\host\\share", "file:", "con", "NUL", "aux.md"),
    *(
        "link", "up", "top", "deep", "dangling.md", "loop", "file.md", "a.md", "real", "pipe", "documents",
        ".real.md.old",
    ),
    *("é", "e\u0301", "ﬀ", "ß", "İ", "\u202e", "\ufeff", "\u200b", "\x1b[2J", "\ud800", "🙂", "x" * 100, "é" * 120),
    *("notes.md", "plan", "REAL", "Link", "-rf", "$HOME", "`id`", "*", "a b", "new", ".git", ".agents", ".ssh"),
)  # fmt: skip
SEPARATORS: Final = ("/", "/", "/", "/", "//", "/./", "\\", "∕", "／", "\0", "\n")


def path(chance: random.Random) -> str:
    """One name, of up to eight parts."""
    parts = chance.choices(PARTS, k=chance.randint(1, 8 if chance.random() < 0.2 else 3))
    made = parts[0]
    for part in parts[1:]:
        made += chance.choice(SEPARATORS) + part
    return chance.choice(("", "", "", "/", "../", "./", "real/", "link/", "real/deep/")) + made


class Ground:
    """A folder of documents with links in it that lead out, to what nobody may read or change."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.outside, self.project = root / "outside", root / "project"
        self.documents = self.project / "w/documents"
        (self.outside / "below").mkdir(parents=True)
        for name in ("a.md", "notes.md", "below/a.md"):
            (self.outside / name).write_text(SECRET)
        (self.documents / "real").mkdir(parents=True)
        for name, target in (
            ("link", "../../../outside"), ("top", str(self.outside)), ("up", ".."), ("loop", "loop"),
            ("file.md", "../../../outside/a.md"), ("dangling.md", "../../../outside/new.md"),
            ("real/deep", "../../../../outside/below"),
        ):  # fmt: skip
            (self.documents / name).symlink_to(target)
        os.mkfifo(self.documents / "pipe")
        self.before = self.found()

    def found(self) -> list[tuple[str, str | None]]:
        """All there is but the documents: what is beside their folder, and what is in the files that are not ours."""
        found: list[tuple[str, str | None]] = []
        for folder, folders, files in os.walk(self.root):
            here = Path(folder)
            if here == self.documents:
                folders.clear()
                continue
            found += [(str(here / name), None) for name in folders]
            found += [(str(here / name), (here / name).read_text()) for name in files]
        return sorted(found, key=str)

    def check(self, what: object) -> None:
        """Hold it against how it was."""
        assert self.found() == self.before, f"{what!r} touched what is outside"


def try_names(count: int, seed: int) -> int:
    """Write, look at and remove documents of ``count`` names. Returns how many of them were files for a time."""
    chance = random.Random(seed)
    written = 0
    for first in range(0, count, FRESH):
        with TemporaryDirectory() as root:
            ground = Ground(Path(root))
            files = DocumentFiles(str(ground.project), settle_seconds=0.0)
            for _ in range(min(FRESH, count - first)):
                written += _try(ground, files, path(chance), chance.random() < 0.1)
    return written


def _try(ground: Ground, files: DocumentFiles, name: str, looks: bool) -> bool:
    text = f"of {name!r}"
    made = False
    with suppress(OSError, ValueError):
        made = files.put("w", name, text, None)
    ground.check(name)
    if made and file_fault(name) is None:
        written = ground.documents / name
        assert written.read_text() == text, f"{name!r} is another file"
        assert written.resolve() == written.absolute().resolve(), name
        assert written.resolve().is_relative_to(ground.documents.resolve()), f"{name!r} is outside"
    if looks:
        seen = files.look("w", 0.0) or {}
        assert all(one.text != SECRET for one in seen.values()), f"after {name!r} what is outside was read"
    if made:
        with suppress(OSError, ValueError):
            files.put("w", name, None, hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
        ground.check(name)
    return made


@contextmanager
def swapped(folder: Path, target: Path) -> Generator[None]:
    """Have another thread put a link to ``target`` in the place of ``folder``, and take it away, all the time."""
    over = threading.Event()
    aside = folder.with_name("aside")

    def swap() -> None:
        while not over.is_set():
            shutil.rmtree(aside, ignore_errors=True)
            for step in (
                lambda: folder.rename(aside),
                lambda: folder.symlink_to(target),
                folder.unlink,
                lambda: aside.rename(folder),
            ):
                with suppress(OSError):  # the other side makes folders too
                    step()

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        yield
    finally:
        over.set()
        swapper.join()


def race(rounds: int) -> int:
    """Write and remove a document whose folder is swapped for a link meanwhile. Returns how often it got in."""
    reached = 0
    with TemporaryDirectory() as root:
        ground = Ground(Path(root))
        files = DocumentFiles(str(ground.project), settle_seconds=0.0)
        with swapped(ground.documents / "real", ground.outside):
            for number in range(rounds):
                text = f"text {number}"
                with suppress(OSError):
                    reached += files.put("w", "real/b.md", text, None)
                    seen = files.look("w", 0.0) or {}
                    assert all(one.text != SECRET for one in seen.values()), "what is outside was read"
                    files.put("w", "real/b.md", None, hashlib.sha256(text.encode()).digest())
                ground.check("a race")
    return reached


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(2**31)
    sys.stdout.write(f"seed {seed}\n")
    sys.stdout.flush()
    began = time.process_time()
    written = try_names(count, seed)
    sys.stdout.write(f"{count:,} names, {written:,} of them files for a time: nothing outside was read or touched\n")
    sys.stdout.flush()
    rounds = max(count // RACE_SHARE, 1)
    reached = race(rounds)
    assert reached, "it never got in: nothing was raced"
    sys.stdout.write(f"{rounds:,} races with a link, {reached:,} got in: nothing outside was read or touched, ")
    sys.stdout.write(f"{time.process_time() - began:.0f} s CPU\n")


if __name__ == "__main__":
    main()
