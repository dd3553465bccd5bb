"""Histories of a repository in which agents' branches land, as their seeds draw them: who wrote what, who does what.

Every line is written once, by one: so what of whom is on a branch can be seen without knowing how it got there.
"""

import io
import itertools
import random
import shutil
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from kernel.store.transitions.landings import Landing
from protocol.api.runs import MergeRequest
from tests.kernel.git.git_project import GitProject, ground_in
from tests.kernel.services.landing_life import EVENTS, user_git
from tests.kernel.services.landing_project import BRANCH

FILES: Final = ("one.txt", "two.txt", "three.txt")
LINES: Final = 24
CHECK: Final = """set -- only/*; [ $# -le 1 ] || { echo "two were chosen"; exit 1; }
for use in uses/*; do [ -e "$use" ] || continue; read -r what < "$use"
[ -e "defs/$what" ] || { echo "$use needs $what"; exit 1; }; done"""
"""The project's: at most one may be chosen, and what is used must be there. Each branch passes it; two that choose do
not pass it together, nor do one that removes and one that uses."""
FLAKY: Final = """{ read -r n < "$F"; } 2>/dev/null || n=0; n=$((n + 1)); echo $n > "$F"
case " %s " in *" $n "*) echo flaky; exit 1;; esac
"""
"""What fails at these times, whatever it checks."""
ELSEWHERE: Final = ("refs/heads/elsewhere", "refs/tags/v1", "refs/stash", "refs/remotes/origin/main", "refs/notes/x")
Tree = dict[str, bytes]


@dataclass
class Author:
    """One agent's branch: the files it has, and the lines that it added and took away."""

    name: str
    files: Tree
    added: frozenset[bytes]
    removed: frozenset[bytes]
    carries: frozenset[str]
    """Itself, and on whose branch it began."""
    resolved: frozenset[str] = frozenset()
    """Whose lines it kept when it took over what the other side had: its own, and of those on whose branch it began."""


@dataclass
class Group:
    """The authors of one run, and what was asked for them, the newest last."""

    names: tuple[str, ...]
    request: MergeRequest
    late: bool
    """It is asked for while a kernel is at work."""
    run: int = 0
    asked: list[Landing] = field(default_factory=list)


@dataclass
class History:
    """One history as it goes on."""

    seed: int
    chance: random.Random
    git_project: GitProject
    authors: dict[str, Author]
    groups: list[Group]
    checked_out: bool
    met: Counter[str]
    """What happened, for who wants to know whether anything did."""
    numbers: Iterator[int] = field(default_factory=partial(itertools.count, 1))
    """For names of what the user does."""

    @property
    def store(self) -> str:
        return str(self.git_project.folder / "store.db")

    def note(self, *words: str) -> None:
        """Note what the user did; it is there whoever is killed next."""
        with (self.git_project.folder / "acts").open("a", encoding="utf-8") as target:
            target.write("\t".join(words) + "\n")

    def acts(self) -> list[list[str]]:
        file = self.git_project.folder / "acts"
        return [line.split("\t") for line in file.read_text().splitlines()] if file.exists() else []


def template_in(folder: Path) -> GitProject:
    """The repository that all histories begin with: with refs of the user's, files that are in no commit, a reflog."""
    git_project = ground_in(folder)
    for name in FILES:
        git_project.write(name, "".join(f"{name} {line}\n" for line in range(LINES)))
    for name in ("x", "y"):
        git_project.write(f"defs/{name}", f"def {name}\n")
    (git_project.root / "b.bin").write_bytes(bytes(range(99)) + b"\nbase\0")
    git_project.write(".gitignore", ".env\n")
    git_project.commit()
    git_project.write(".env", "SECRET=1\n")
    git_project.write("notes of mine", "not committed\n")
    for ref in ELSEWHERE:
        git_project.git("update-ref", ref, "main")
    return git_project


def draw(seed: int, folder: Path, template: GitProject, met: Counter[str]) -> History:
    """The history of ``seed`` in the new ``folder``: its branches are there, and nothing was asked for."""
    chance = random.Random(seed)
    shutil.copytree(template.folder, folder, symlinks=True)
    git_project = GitProject(folder)
    checked_out = chance.random() < 0.6
    if not checked_out:
        (git_project.root / ".git/HEAD").write_text("ref: refs/heads/elsewhere\n")
    base = files_of(git_project, "main")
    authors: dict[str, Author] = {}
    rows: list[bytes] = []
    for number in range(chance.randint(2, 10)):
        name = f"a{number}"
        before = chance.choice(list(authors.values())) if authors and chance.random() < 0.15 else None
        start = before.files if before else base
        files = _work(name, chance, start)
        kept = before.carries if before else frozenset()
        authors[name] = Author(name, files, lines(files) - lines(start), lines(start) - lines(files), kept | {name})
        origin = f"refs/heads/{BRANCH}{before.name}" if before else "refs/heads/main"
        rows.append(commit_of(f"refs/heads/{BRANCH}{name}", name, (origin,), start, files))
    git_project.give(b"".join(rows), "fast-import", "--quiet")
    left, groups = list(authors), []
    while left:
        size = chance.choice((1, 1, 2, 3))
        flaky = FLAKY % " ".join(str(n) for n in range(1, 40) if chance.random() < 0.3)
        flaky = flaky.replace("$F", f"{folder}/flaky")
        check = chance.choice((CHECK, CHECK, CHECK, flaky + CHECK))
        request = MergeRequest(check=check, squash=chance.random() < 0.3, give_back=chance.random() < 0.7)
        groups.append(Group(tuple(left[:size]), request, chance.random() < 0.3))
        left = left[size:]
    met.update(histories=1, authors=len(authors), merges=len(groups))
    return History(seed, chance, git_project, authors, groups, checked_out, met)


def _work(author: str, chance: random.Random, start: Tree) -> Tree:
    files = dict(start)
    for number in range(chance.randint(1, 3)):
        token = f"token-{author}-{number}\n".encode()
        name = chance.choice(FILES)
        rows = files.get(name, b"").splitlines(keepends=True)
        kind = chance.choice(
            ("edit", "edit", "edit", "cut", "add", "only", "use", "undefine", "rename", "binary", "remove")
        )
        match kind:
            case "edit" if rows:
                rows[chance.randrange(len(rows))] = token
                files[name] = b"".join(rows)
            case "cut" if len(rows) > 3:
                at = chance.randrange(len(rows) - 2)
                files[name] = b"".join(rows[:at] + rows[at + 2 :])
            case "only" if not any(path.startswith("only/") for path in files):
                files[f"only/{author}"] = token
            case "use" if defined := sorted(path for path in files if path.startswith("defs/")):
                files[f"uses/{author}"] = chance.choice(defined).removeprefix("defs/").encode() + b"\n" + token
            case "undefine" if not any(path.startswith("uses/") for path in files):
                files.pop(f"defs/{chance.choice('xy')}", None)
            case "rename" if name in files:
                files[f"{author}/{name}"] = files.pop(name) + token
            case "remove" if name in files:
                del files[name]
            case "binary":
                files["b.bin"] = bytes(range(99)) + b"\n" + token + b"\0"
            case _:
                files[f"new/{author}-{number}.txt"] = token
    return files


def lines(files: Tree) -> frozenset[bytes]:
    """All lines there are; each of them was written once, by one."""
    found = (line for content in files.values() for line in content.split(b"\n"))
    return frozenset(line for line in found if line not in (b"", b"\0", b"x", b"y"))


def is_green(files: Mapping[str, bytes]) -> bool:
    """What CHECK asks for, in other words."""
    used = [content.split(b"\n")[0].decode() for name, content in files.items() if name.startswith("uses/")]
    return sum(name.startswith("only/") for name in files) <= 1 and all(f"defs/{name}" in files for name in used)


def files_of(git_project: GitProject, commit: str) -> Tree:
    packed = user_git(git_project, "archive", "--format=tar", commit)
    assert packed is not None, commit
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        found = ((member.name, archive.extractfile(member)) for member in archive.getmembers() if member.isfile())
        return {name: content.read() for name, content in found if content is not None}


def commit_of(ref: str, who: str, parents: tuple[str, ...], before: Tree, files: Tree) -> bytes:
    """A commit of ``files`` for fast-import: the first parent has the files ``before``."""
    head = f"commit {ref}\ncommitter {who} <{who}@localhost> 1790000000 +0000\ndata 4\nwork\nfrom {parents[0]}\n"
    rows = [head.encode(), *(f"merge {parent}\n".encode() for parent in parents[1:])]
    rows += [f"D {name}\n".encode() for name in before if name not in files]
    for name, content in files.items():
        if before.get(name) != content:
            rows.append(f"M 100644 inline {name}\ndata {len(content)}\n".encode() + content + b"\n")
    return b"".join(rows)


def acts_of(history: History) -> dict[int, Callable[[], None]]:
    """What is done at which event of a kernel."""
    found: dict[int, Callable[[], None]] = {}
    while history.chance.random() < 0.4:
        do = history.chance.choice((_user_commits, _user_commits, _user_commits, _user_edits, _user_tags))
        found[history.chance.randint(1, EVENTS * len(history.authors))] = partial(
            do, history, f"u{next(history.numbers)}"
        )
    return found


def _user_commits(history: History, name: str) -> None:
    git_project = history.git_project
    if history.checked_out:
        git_project.write(f"{name}.txt", f"{name}\n")
        added = user_git(git_project, "add", f"{name}.txt") is not None
        done = added and user_git(git_project, "commit", "--quiet", "-m", name) is not None
        if not done:  # it is at work there: the user gives up
            user_git(git_project, "rm", "--quiet", "--cached", "--ignore-unmatch", f"{name}.txt")
            (git_project.root / f"{name}.txt").unlink(missing_ok=True)
    else:
        old = git_project.git("rev-parse", "main")
        given = commit_of(f"refs/heads/{name}", "user", ("refs/heads/main",), {}, {f"{name}.txt": f"{name}\n".encode()})
        user_git(git_project, "fast-import", "--quiet", given=given)
        done = user_git(git_project, "update-ref", "-m", name, "refs/heads/main", f"refs/heads/{name}", old) is not None
    history.note("commit" if done else "refused", name)


def _user_edits(history: History, name: str) -> None:
    target = history.git_project.root / history.chance.choice(FILES)
    if target.exists():
        text = f"{name} was here\n"
        whole = target.with_name(f"{target.name}.{name}")
        whole.write_text(text)
        history.note("edits", target.name, text.strip())
        whole.rename(target)
        history.note("edit", target.name, text.strip())


def _user_tags(history: History, name: str) -> None:
    done = user_git(history.git_project, "tag", name, "main") is not None
    history.note("tag" if done else "refused", name)
