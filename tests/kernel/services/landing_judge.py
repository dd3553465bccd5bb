"""The judge of histories of landings: it knows what everybody wrote and did, and nothing of how merges are made.

The branch was never red; what was accepted is on it, or is somebody's open work; no line is lost, and none came back;
every ref and file of the user's is where they left it.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Final

import apsw

from kernel.store.database import Reader
from kernel.store.transitions import landings
from protocol.api.runs import MergeInfo
from tests.kernel.git.git_project import GitProject
from tests.kernel.services.landing_draw import Group, History, files_of, is_green, lines
from tests.kernel.services.landing_life import plain_launcher, user_git
from tests.kernel.services.landing_project import stored_ground
from tests.shorthand import present

OURS: Final = "awk merge"
BASE: Final = 2
"""Commits that every history begins with."""
OF_USER: Final = re.compile(r"refs/(heads|tags)/u\d+")
UNTRACKED: Final = re.compile(r"notes of mine|u\d+\.txt|\w+\.txt\.u\d+")
OPEN: Final = "SELECT name, state FROM instructions WHERE id = ?"


def instruction(conn: apsw.Connection, number: int) -> tuple[object, ...] | None:
    """The agent that has it, and its state."""
    return conn.execute(OPEN, (number,)).fetchone()


def refs_of(git_project: GitProject) -> dict[str, str]:
    listed = git_project.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return {name: where for name, _, where in (row.partition(" ") for row in listed)}


async def judge(history: History, before: dict[str, str]) -> list[str]:
    """What is wrong at the end of ``history``, whose refs were ``before``, but for what the user did."""
    merged: list[Group] = []
    wrong: list[str] = []
    async with stored_ground(history.git_project, plain_launcher(), history.store) as place:
        tips: Counter[str] = Counter()
        for group in history.groups:
            infos = [place.outcome(one) for one in group.asked]
            for info in infos:
                wrong += _outcome(history, place.reader, group, info)
            if infos[-1].state == "merged":
                merged.append(group)
            elif infos[-1].state == "refused":
                wrong += _open_work(history, place.reader, group, infos[-1])
            history.met["merged at another try"] += any(info.tries > 1 and info.state == "merged" for info in infos)
            last = present(place.reader.now(landings.by_id, group.asked[-1].id))
            tips[last.tip] += last.state == "merged" and bool(last.tip)
        history.met["merged together"] += sum(number for number in tips.values() if number > 1)
    if user_git(history.git_project, "fsck", "--connectivity-only", "--no-dangling") is None:
        return [*wrong, "git fsck finds something missing"]  # nothing else can be read
    return wrong + _branch(history) + _lines(history, merged) + _users(history, before)


def _outcome(history: History, reader: Reader, group: Group, info: MergeInfo) -> list[str]:
    kind = info.state if info.state != "refused" else f"refused ({_why(info)})"
    history.met[kind] += 1
    if info.state not in ("merged", "refused"):
        return [f"{info.id} is {info.state}"]
    return [f"{info.id} was refused, and nobody knows why"] if info.state == "refused" and not info.why else []


def _why(info: MergeInfo) -> str:
    if any(one.conflict for one in info.branches):
        return "conflict"
    if info.why.startswith("the check failed"):
        return "red"
    return "the checkout" if "project" in info.why else info.why


def _open_work(history: History, reader: Reader, group: Group, info: MergeInfo) -> list[str]:
    if not group.request.give_back or _why(info) not in ("conflict", "red"):
        history.met["left to who asked"] += 1
        return []
    wrong = [] if info.returned_to else [f"{info.id} is nobody's work: {info.why}"]
    for work in info.returned_to:
        row = reader.now(instruction, int(work[1:]))
        if row is None or row[0] not in group.names or row[1] != "queued":
            wrong.append(f"{info.id} came back as {work}, which is {row}")
        history.met["left to an author"] += 1
    return wrong


def _branch(history: History) -> list[str]:
    git_project, wrong = history.git_project, []
    log = (git_project.root / ".git/logs/refs/heads/main").read_text().splitlines()
    moves = [(row.split(" ", 2)[0], row.split(" ", 2)[1], row.partition("\t")[2]) for row in log][BASE:]
    now = git_project.git("rev-parse", "main")
    if moves and moves[-1][1] != now:
        wrong.append("main was moved, and its log does not know")
    said = git_project.git("rev-list", "--parents", "main", *(new for _, new, _ in moves))
    parents = {row[0]: row[1:] for row in (line.split() for line in said.splitlines())}
    for old, new, why in moves:
        if old not in _ancestors(new, parents):
            wrong.append(f"main was moved away from {old} ({why})")
        if not is_green(files_of(git_project, new)):
            wrong.append(f"main is red at {new} ({why})")
    done = {why.removeprefix("commit: ") for _, _, why in moves if why != OURS}
    said_done = {words[1] for words in history.acts() if words[0] == "commit"}
    history.met["commits of the user"] += len(done)
    if said_done - done:
        wrong.append(f"the user's {said_done - done} are lost")
    if not {f"{name}.txt" for name in done} <= set(files_of(git_project, "main")):
        wrong.append("files of the user are lost")
    return wrong


def _ancestors(commit: str, parents: dict[str, list[str]]) -> set[str]:
    found: set[str] = set()
    left = [commit]
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left += parents.get(one, [])
    return found


def _lines(history: History, merged: list[Group]) -> list[str]:
    on_main = lines(files_of(history.git_project, "main"))
    authors = [history.authors[name] for group in merged for name in group.names]
    # Who resolved took the other side's files, and kept the lines of its branch beside: nothing else of that branch.
    over = [history.authors[name] for one in authors for name in one.resolved]
    kept = {line for one in over for line in one.added}
    # Whose branch began on a colleague's brings what that one took away, whatever became of the colleague's own.
    brought = {name for one in authors if not one.resolved for name in one.carries}
    removed = {line for name in brought for line in history.authors[name].removed} - kept
    added = {line for one in authors for line in one.added} - removed
    removed -= {line for one in over for line in one.removed}
    carried = {name for one in authors for name in one.carries}
    foreign = {line for one in history.authors.values() if one.name not in carried for line in one.added}
    wrong = []
    if added - on_main:
        wrong.append(f"merged, and not on main: {sorted(added - on_main)}")
    if removed & on_main:
        wrong.append(f"taken away, and still on main: {sorted(removed & on_main)}")
    if foreign & on_main:
        wrong.append(f"refused, and on main: {sorted(foreign & on_main)}")
    history.met["lines written"] += len(added)
    history.met["lines taken away"] += len(removed)
    return wrong


def _users(history: History, before: dict[str, str]) -> list[str]:
    git_project, wrong = history.git_project, []
    root: Path = git_project.root
    refs = {name: where for name, where in refs_of(git_project).items() if not OF_USER.fullmatch(name)}
    moved = {name for name, _ in refs.items() ^ before.items()} - {"refs/heads/main"}
    if moved:
        wrong.append(f"refs that are nobody's business moved: {sorted(moved)}")
    head = "main" if history.checked_out else "elsewhere"
    if (root / ".git/HEAD").read_text() != f"ref: refs/heads/{head}\n":
        wrong.append("HEAD is another one")
    if (root / ".env").read_text() != "SECRET=1\n" or (root / "notes of mine").read_text() != "not committed\n":
        wrong.append("files that are in no commit were changed")
    acts = history.acts()
    edits = {words[1]: words[2] for words in acts if words[0] == "edit"}
    begun = {words[1] for words in acts if words[0] == "edits"}
    history.met["edits of the user"] += len(edits)
    for name, text in edits.items():
        last = next(words for words in reversed(acts) if words[0].startswith("edit") and words[1] == name)
        kept = (root / name).read_text() if (root / name).exists() else None
        if last[0] == "edit" and kept != f"{text}\n":
            wrong.append(f"the user's {name} was {'removed' if kept is None else 'written over'}")
    committed = files_of(git_project, "main")
    status = user_git(git_project, "status", "--porcelain", "-z", "--no-renames") or b"?"
    for row in filter(None, status.decode().split("\0")):
        name = row[3:]
        # A kernel that is killed from outside takes along what the user was about to do in its process.
        about_to = row.startswith("A  ") and UNTRACKED.fullmatch(name) and name not in committed
        if name not in begun and not about_to and not (row.startswith("?? ") and UNTRACKED.fullmatch(name)):
            wrong.append(f"the checkout is not clean: {row}")
    wrong += [f"{lock} is left" for lock in (root / ".git").rglob("*.lock")]
    return wrong
