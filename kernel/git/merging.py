"""In-memory merges of branches: new trees and commits exist only in a private view until kept.

Only ``move`` changes a ref, and no function changes a checkout. Git merges (``merge-tree``) under
the kernel's configuration, so no driver, filter, attribute or setting of repository or user affects
the result. Binary files that both sides changed are conflicts.
"""

import os
import pwd
import socket
import stat
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import msgspec
import trio

from kernel.git.directory import GitDirectory, NoRepository, first_line, mode_of
from kernel.git.runner import ProjectGit, Setting, failed, unusable
from kernel.git.tree_commits import different, in_the_way, named
from kernel.git.view import GitView
from kernel.source.scalars import show_size
from protocol.agent import AgentLimits
from protocol.api.runs import MergedBranch
from protocol.errors import Refused
from protocol.names import instruction_id, run_id

PLAIN: Final[Mapping[str, str]] = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
}
"""Variables that exclude the user's configuration: a merge depends only on its input."""
_PLAIN_SETTINGS: Final[tuple[Setting, ...]] = (("core.attributesFile", "/dev/null"), ("merge.directoryRenames", "true"))
FILE_BYTES: Final = 100 * 2**20
"""Maximum unpacked size of one file: git reads it completely, and a small pack can contain a large file."""
BRANCH_BYTES: Final = 2**30
"""Maximum unpacked size of a branch's additions, and of all files that it changes."""
LIST_BYTES: Final = 16 * 2**20
"""Maximum size of the list of a branch's changes: one folder can represent millions of files."""
FILES_SHOWN: Final = 1000
LOCKED_MS: Final = 2000
"""Time to wait for a branch that another git process has locked briefly."""
OTHER_SIDE_BYTES: Final = 24 * 1024
"""Maximum size of the other side's diff in the instruction that asks an author to resolve a conflict."""
_NEEDED: Final = (2, 38)
"""First git version with ``merge-tree --write-tree``."""


class Side(msgspec.Struct, frozen=True):
    """The work of one agent to merge: the tip of its branch, and the numbers of its last instructions.

    ``limits`` are the agent's own, or the common limits of all agents that share the branch.
    """

    agent: str
    branch: str
    tip: str
    instructions: tuple[int, ...] = ()
    limits: tuple[AgentLimits, ...] = ()


class RunToMerge(msgspec.Struct, frozen=True):
    """The branches of one run to merge, in this order. ``squash``: as one commit instead of merge commits."""

    run: int
    place: str
    sides: tuple[Side, ...]
    squash: bool = False


class Added(msgspec.Struct, frozen=True):
    """A successful merge. ``commit`` is the base itself if there was nothing to merge.

    ``steps`` maps each agent with changes to the commit that first includes its work.
    """

    commit: str
    branches: tuple[MergedBranch, ...]
    steps: tuple[tuple[Side, str], ...] = ()


class Conflict(msgspec.Struct, frozen=True):
    """A failed merge: the commit ``ours`` and the branch of ``side`` both changed ``files``."""

    side: Side
    ours: str
    files: tuple[str, ...]
    branches: tuple[MergedBranch, ...]


class NotMoved(Exception):
    """A branch or its checkout cannot be moved; nothing has changed. ``files`` prevent the move."""

    def __init__(self, text: str, files: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.files = files


class Merging:
    """Merges in one view of a repository. Commits that are not kept are discarded with the view."""

    def __init__(self, git: ProjectGit, view: GitView, repository: str, identity: Mapping[str, str]) -> None:
        self._git = git
        self._view = view
        self.repository = repository
        self._identity = identity

    async def tip(self, branch: str) -> str | None:
        """Return the commit of ``branch``, or None if it does not exist."""
        return await self._git.commit_of(self._view, f"refs/heads/{branch}")

    async def has(self, commit: str, inside: str) -> bool:
        """Return whether ``commit`` is the commit ``inside`` or one of its ancestors."""
        return (await self._git.run(self._view, "merge-base", "--is-ancestor", commit, inside)).ok

    async def add(self, base: str, wanted: RunToMerge) -> Added | Conflict:
        """Merge the branches of ``wanted`` into the commit ``base``, in order. Raises Refused."""
        ours, our_tree = base, ""
        steps: list[tuple[Side, str]] = []
        branches: list[MergedBranch] = []
        for side in wanted.sides:
            commits = await self._bound(ours, side)
            tree = None
            if commits:
                our_tree = our_tree or await self._tree_of(ours)
                tree, files = await self._tree(ours, side.tip)
                if tree is None:
                    met = MergedBranch(
                        agent=side.agent, branch=side.branch, tip=side.tip, commits=commits, conflict=True
                    )
                    return Conflict(side, ours, files, (*branches, met))  # the first conflict ends the merge
                if tree == our_tree:
                    commits, tree = 0, None  # the changes exist already in other commits
            branches.append(MergedBranch(agent=side.agent, branch=side.branch, tip=side.tip, commits=commits))
            if tree is not None:
                ours, our_tree = await self._commit(tree, (ours, side.tip), message_of(wanted, (side,))), tree
                steps.append((side, ours))
        if wanted.squash and steps:  # one commit replaces the merge commits
            merged = tuple(side for side, _ in steps)
            ours = await self._commit(our_tree, (base,), message_of(wanted, merged))
        return Added(ours, tuple(branches), tuple(steps))

    async def other_side(self, conflict: Conflict) -> str:
        """Return a diff of limited length: the changes of ``ours`` in the files of ``conflict``."""
        return await self.diff(await self.start_of(conflict.ours, conflict.side.tip), conflict.ours, conflict.files)

    async def start_of(self, ours: str, theirs: str) -> str:
        """Return the merge base of the commits ``ours`` and ``theirs``."""
        return (await self._git.said(self._view, "merge-base", ours, theirs)).decode("ascii", "replace").strip()

    async def diff(self, start: str, end: str, files: Sequence[str] = ()) -> str:
        """Return the diff from ``start`` to ``end``, of ``files`` if given; its length is limited."""
        words = ("diff", "--no-color", "--no-ext-diff", "--no-textconv", start, end, "--", *files[:100])
        result = await self._git.run(
            self._view, *words, settings=_PLAIN_SETTINGS, variables=PLAIN, limit_bytes=OTHER_SIDE_BYTES
        )
        text = result.stdout.decode("utf-8", "replace")
        return f"{text}\n[... the rest is left out ...]" if result.truncated else text

    @asynccontextmanager
    async def checked_out(self, commit: str) -> AsyncGenerator[str]:
        """Write the files of ``commit`` into a temporary folder, and yield its path."""
        async with self._git.folder() as place:
            top = f"{place}/tree"
            await trio.Path(top).mkdir(mode=0o700)
            written = GitView(self._view.folder, top)
            await self._git.said(
                written, "read-tree", "--reset", "-u", commit, variables={"GIT_INDEX_FILE": f"{place}/index"}
            )
            yield top

    async def changed(self, ours: str, side: Side) -> tuple[str, ...]:
        """Return the files that ``side`` changed since its merge base with ``ours``. Raises Refused for a long list."""
        start = await self.start_of(ours, side.tip)
        names = await self._list(side, "diff-tree", "-r", "-z", "--name-only", start, side.tip)
        return tuple(name.decode("utf-8", "replace") for name in names.split(b"\0") if name)

    async def keep(self, tip: str) -> None:
        """Store ``tip`` and its ancestors in the repository, without a ref."""
        words = ("pack-objects", "--revs", "--stdout", "--quiet")
        known = await self._git.said(self._view, "for-each-ref", "--format=^%(objectname)")
        pack = await self._git.said(self._view, *words, given=f"{tip}\n".encode() + known, variables=PLAIN)
        owned = {"GIT_OBJECT_DIRECTORY": f"{self.repository}/objects"}
        await self._git.said(self._view, "unpack-objects", "-q", given=pack, variables=owned)

    def _lock_of(self, branch: str) -> str:
        return f"{self.repository}/refs/heads/{branch}.lock"

    async def unlock(self, branch: str, tip: str) -> None:
        """Remove the lock of ``branch`` if a killed git process left it while moving to ``tip``."""
        lock = trio.Path(self._lock_of(branch))
        with suppress(OSError):
            if first_line(str(lock)) == tip:  # only our process knows that commit
                await lock.unlink()

    async def move(self, branch: str, expected: str, tip: str) -> bool:
        """Move ``branch`` from ``expected`` to ``tip``; return False if another process has moved it.

        Raises NotMoved if another git process has locked the branch.
        """
        await trio.to_thread.run_sync(_link_logs, self.repository, self._view.folder, branch)
        words = ("update-ref", "-m", "awk merge", f"refs/heads/{branch}", tip, expected)
        settings = (("core.logAllRefUpdates", "true"), ("core.filesRefLockTimeout", str(LOCKED_MS)))
        moved = await self._git.run(self._view, *words, settings=settings, variables=self._identity)
        if not moved.ok and await self.tip(branch) == expected:
            lock = self._lock_of(branch)
            locked = f"another git process is running, or was killed: {lock} exists"
            raise NotMoved(f"{branch} cannot be moved: {locked if mode_of(lock) else self._git.why(moved)}")
        return moved.ok

    async def different(self, one: str, other: str) -> frozenset[str]:
        """Return the files that differ between two commits."""
        return await different(self._git, self._view, one, other)

    async def taken_back(self, expected: str, tip: str, now: str) -> str:
        """Return a text about files of ``tip`` that the branch, at ``now``, has reverted; "" if there are none."""
        gone = await self.different(expected, tip) & await self.different(tip, now) - await self.different(
            expected, now
        )
        if not gone:
            return ""
        words = ("log", "-1", "--format=%H", f"{tip}..{now}", "--", *sorted(gone)[:100])
        commit = (await self._git.said(self._view, *words)).decode("ascii", "replace").strip()
        return f"since then {len(gone)} files were reverted by {commit or now}: {named(sorted(gone))}"

    async def in_the_way(self, top: str, expected: str, tip: str) -> tuple[str, ...]:
        """Return the ignored files in ``top``, a clean checkout of ``expected``, that ``tip`` would replace."""
        return await in_the_way(self._git, self._view, top, expected, tip)

    async def _bound(self, ours: str, side: Side) -> int:
        """Check the size of the additions of ``side``, and return the number of its new commits.

        Raises Refused if they exceed a limit, before git reads their content.
        """
        rows = (await self._list(side, "rev-list", "--objects", f"{ours}..{side.tip}")).split(b"\n")[:-1]
        commits = sum(b" " not in row for row in rows)  # other rows end with a path, which is "" for the top folder
        if not commits:
            return 0
        added = [row.partition(b" ")[::2] for row in rows]
        base = (await self._git.run(self._view, "merge-base", ours, side.tip)).stdout.decode("ascii", "replace").strip()
        fields = (await self._list(side, "diff-tree", "-r", "-z", base or ours, side.tip)).split(b"\0")
        changes = ((change.split(), name) for change, name in zip(fields[:-1:2], fields[1::2], strict=True))
        # Deletions and submodules have no content to read.
        changed = [(words[3], name) for words, name in changes if words[1] not in (b"000000", b"160000")]
        asked = b"".join(b"%s\n" % entry for entry, _ in (*added, *changed))
        said = await self._git.said(self._view, "cat-file", "--buffer", "--batch-check=%(objectsize)", given=asked)
        # A missing object has words instead of a size; the merge reports it if needed.
        sizes = [int(row) if row.isdigit() else 0 for row in said.split(b"\n")[:-1]]
        for (entry, name), size in zip((*added, *changed), sizes, strict=True):
            if size > FILE_BYTES:
                what = repr(name[:200].decode("utf-8", "replace")) if name else f"object {entry.decode('ascii')}"
                raise _too_large(side, f"{what} has {size:,} bytes; the limit is {show_size(FILE_BYTES)}")
        for total, of_what in ((sum(sizes[: len(added)]), "adds"), (sum(sizes[len(added) :]), "changes files of")):
            if total > BRANCH_BYTES:
                raise _too_large(side, f"it {of_what} {total:,} bytes; the limit is {show_size(BRANCH_BYTES)}")
        return commits

    async def _list(self, side: Side, *words: str) -> bytes:
        result = await self._git.run(self._view, *words, limit_bytes=LIST_BYTES)
        if result.truncated:
            raise _too_large(side, f"the file list exceeds {show_size(LIST_BYTES)}")
        if not result.ok:
            raise failed(f"git {words[0]} failed: {self._git.why(result)}")
        return result.stdout

    async def _tree(self, ours: str, theirs: str) -> tuple[str | None, tuple[str, ...]]:
        words = ("merge-tree", "--write-tree", "--no-messages", "--name-only", "-z", ours, theirs)
        result = await self._git.run(self._view, *words, settings=_PLAIN_SETTINGS, variables=PLAIN)
        if result.exit.code not in (0, 1) or result.timed_out or result.truncated:
            raise await self._why_not(self._git.why(result))
        tree, *files = [name.decode("utf-8", "replace") for name in result.stdout.split(b"\0") if name]
        return (tree, ()) if result.exit.code == 0 else (None, tuple(dict.fromkeys(files))[:FILES_SHOWN])

    async def _why_not(self, said: str) -> Exception:
        asked = (await self._git.said(self._view, "version")).decode("ascii", "replace").split()
        numbers = tuple(int(part) for part in asked[2].split(".")[:2] if part.isdigit()) if len(asked) > 2 else ()
        if numbers < _NEEDED:
            text = f"merging needs git 2.38 or newer; found {' '.join(asked[:3])}"
            return unusable(NoRepository(text, "upgrade git, or merge the branches yourself"))
        return failed(f"git merge-tree failed: {said}", "run git fsck to find missing objects")

    async def _tree_of(self, commit: str) -> str:
        found = await self._git.said(self._view, "rev-parse", "--verify", f"{commit}^{{tree}}")
        return found.decode("ascii", "replace").strip()

    async def _commit(self, tree: str, parents: Sequence[str], message: str) -> str:
        words = ("commit-tree", tree, *(word for parent in parents for word in ("-p", parent)), "-F", "-")
        made = await self._git.said(self._view, *words, given=message.encode(), variables={**PLAIN, **self._identity})
        return made.decode("ascii", "replace").strip()


def _link_logs(repository: str, folder: str, branch: str) -> None:
    if not stat.S_ISDIR(mode_of(f"{repository}/logs")):
        return
    for file in (f"refs/heads/{branch}", "HEAD"):  # git logs both if the branch is checked out
        path = f"{repository}/logs"
        *folders, name = file.split("/")
        for part in folders:
            path = f"{path}/{part}"
            if mode_of(path) and not stat.S_ISDIR(mode_of(path)):
                return
        if mode_of(f"{path}/{name}") and not stat.S_ISREG(mode_of(f"{path}/{name}")):
            return
    with suppress(FileExistsError):
        os.symlink(f"{repository}/logs", f"{folder}/logs")


def _too_large(side: Side, why: str) -> Refused:
    return failed(
        f"{side.branch} is too large to merge: {why}", "remove the content from the commits, or merge it yourself"
    )


@asynccontextmanager
async def merging_in(git: ProjectGit, repository: str) -> AsyncGenerator[Merging]:
    """Open a view for merges. Raises Refused (bad_definition) if ``repository`` is unusable."""
    directory = GitDirectory(repository, repository, "")
    manner = await git.manner(directory)
    async with git.view(directory) as view:
        yield Merging(git, view, repository, await identity_of(git, view, manner.name, manner.email))


async def identity_of(git: ProjectGit, view: GitView, name: str, email: str) -> dict[str, str]:
    """Return git's variables for the user: as in the repository, else the user's git, else the account."""
    found = {"name": name, "email": email}
    if not all(found.values()):
        asked = await git.run(view, "config", "-z", "--get-regexp", r"^user\.(name|email)$")
        rows = (row.partition("\n") for row in asked.stdout.decode("utf-8", "replace").split("\0"))
        said = {key: value for key, _, value in rows}
        found = {key: own or said.get(f"user.{key}", "").strip() for key, own in found.items()}
    account = str(os.getuid())
    with suppress(KeyError):
        account = pwd.getpwuid(os.getuid()).pw_name
    name = found["name"] or account
    email = found["email"] or f"{account}@{socket.gethostname()}"
    return {
        f"GIT_{who}_{what}": "".join(char if char.isprintable() else " " for char in value)
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", name), ("EMAIL", email))
    }


def message_of(wanted: RunToMerge, sides: Sequence[Side]) -> str:
    """Return the commit message: it names the agents, the run, and the instructions."""
    names = ", ".join(side.agent for side in sides)
    shown = [f"Merge the work of {names} in {run_id(wanted.run)} of {wanted.place}", "", f"Run: {run_id(wanted.run)}"]
    for side in sides:
        work = " ".join(instruction_id(number) for number in side.instructions)
        shown += [f"Agent: {side.agent}", f"Branch: {side.branch}", *([f"Instructions: {work}"] if work else [])]
    return "\n".join(shown) + "\n"
