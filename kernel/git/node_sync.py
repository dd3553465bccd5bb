"""Synchronization of an agent's branch with its clone on a node: before and after each attempt.

Git and a shell on the node create, update and read the clone. The clone belongs to the agent, so its content is not
trusted: git runs on it with the remote user's rights and environment, and in the sandbox if the agent is confined. The
node's answers are names of commits or packs, which the kernel checks (``kernel.git.clone``).

If the workflow has working trees, the agent also has a tree on this machine, which is updated from the clone. An agent
that works in the project itself has only a branch: its changes are never written into the user's checkout.

No work is lost on either side. Before the clone is changed, its changes are committed and fetched: as the next commits
of the branch or, if the branch has diverged, under a separate ref. If the kernel refuses the commits (hostile or
broken), they remain on the node, in a folder beside the clone. Each step can be repeated after an interruption.
"""

import itertools
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import trio

from kernel.git.branches import HomeBranch
from kernel.git.clone import has_commit, is_ancestor, take_commits, write_pack
from kernel.git.runner import COMMIT, SECONDS, Git, GitCommand, failed
from kernel.git.tree_commits import CommitAuthor, WritableTree, author_of, commit_staged, stage
from kernel.git.view import GitView
from kernel.procs.command import CommandResult, run_command
from kernel.procs.launcher import Launcher
from protocol.errors import Refused
from protocol.ipc import Sandbox
from protocol.node import NodeFacts

TREES: Final = "trees"
"""Folder in a node's state folder that contains all clones."""
HERE: Final = "refs/awk/here"
"""Ref in a clone: the last commit that clone and project had in common."""
_SHELL_BYTES: Final = 1024 * 1024
_UNLOCK: Final = 'cd "$1" && rm -f .git/index.lock .git/HEAD.lock ".git/refs/heads/$2.lock" .git/refs/awk/here.lock'
CONFINED: Final = "confined"
"""Marker file beside the clone of a confined agent."""
_MAKE: Final = """
set -e
umask 077
mkdir -p "$1"
cd "$1"
rm -rf new
test -z "$3" || : >"$3"
git init --quiet --template= --object-format="$2" new
for name in user.name user.email; do
    test -z "$4" || git --git-dir=new/.git config "$name" "$4"
    shift
done
test ! -e tree && test ! -L tree || mv tree "kept-$$-$(date +%s)"
mv new tree
"""
_LOOK: Final = 'cd "$1" 2>/dev/null || exit 0; test ! -d tree/.git || echo tree; head -c 200 ready 2>/dev/null || :'
_ASIDE: Final = 'cd "$1" && rm -f ready && mv tree "$2"'
_CLEAR: Final = """
cd "$1" || exit 0
chmod -R u+rwX tree new 2>/dev/null
rm -rf tree new && rm -f ready confined
cd .. && rmdir "$1" 2>/dev/null && rmdir "$(pwd -P)" 2>/dev/null
exit 0
"""
_READY: Final = 'cd "$1" && printf %s "$2" >ready'


class NodeGit(Git):
    """Git and shell commands on the node with ``facts``, as its user, in a controlled environment."""

    def __init__(self, launcher: Launcher, facts: NodeFacts) -> None:
        self.facts = facts
        self.environment = {"PATH": facts.path, "HOME": facts.home, "LC_ALL": "C", "GIT_LFS_SKIP_SMUDGE": "1"}
        self._launcher = launcher
        self._name = f"files-{secrets.token_hex(4)}"
        self._numbers = itertools.count(1)
        name, known = f"{self._name}-git", self.environment
        command = GitCommand(launcher=launcher, path=facts.path, program="git", name=name, variables=known)
        super().__init__(command, where=" on the node", hint="run git on the node to see the error")

    async def shell(self, script: str, *words: str, given: bytes | Path = b"", sandbox: Sandbox | None = None) -> bytes:
        """Run the kernel's ``script`` with arguments ``words``; return its output. Raises Refused, SpawnTransient."""
        result = await run_command(
            self._launcher,
            f"{self._name}-sh-{next(self._numbers)}",
            ("/bin/sh", "-c", script, "sh", *words),
            cwd="/",
            env={**self.environment, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"},
            timeout_seconds=SECONDS,
            output_limit_bytes=_SHELL_BYTES,
            given=given,
            sandbox=sandbox,
        )
        if not result.ok:
            raise failed(f"the clone on the node cannot be prepared: {self.why(result)}", "check the disk of the node")
        return result.stdout

    def why(self, result: CommandResult) -> str:
        """Return the reason why a command failed."""
        if result.exit.failed is not None:
            return result.exit.failed
        return "timed out" if result.timed_out else super().why(result)


class CloneState(msgspec.Struct, frozen=True):
    """The state of a clone: is it ``there``, and the digest of the setup that was run in it (``ready``), or ""."""

    there: bool
    ready: str = ""


class NodeClone:
    """A clone in ``place``, a folder of the node, with ``tree.branch`` checked out.

    ``box``: the agent's sandbox on the node, if it is confined.
    """

    def __init__(self, git: NodeGit, place: str, writable: WritableTree) -> None:
        self.git = git
        self.place = place
        self._writable = writable

    @property
    def view(self) -> GitView:
        """Return the view of git commands on the node: the clone's git directory and tree."""
        return self._writable.view

    @property
    def branch(self) -> str:
        """Return the full name of the clone's branch."""
        return self._writable.branch

    async def look(self) -> CloneState:
        """Return the state of the clone. Raises Refused, SpawnTransient."""
        said = (await self.git.shell(_LOOK, self.place)).decode("utf-8", "replace")
        there, _, ready = said.partition("\n")
        return CloneState(there == "tree", ready.strip()) if there == "tree" else CloneState(there=False)

    async def make(self, hash_length: int, user: tuple[str, str]) -> None:
        """Create an empty clone; ``user`` (name, email) is the author of the agent's commits. Raises Refused."""
        kind = "sha256" if hash_length == 64 else "sha1"
        confined = "" if self.view.sandbox is None else CONFINED
        await self.git.shell(_MAKE, self.place, kind, confined, *user)

    async def unlock(self) -> None:
        """Remove locks of a killed git process. No other process may be using the clone."""
        branch = self.branch.removeprefix("refs/heads/")
        await self.git.shell(_UNLOCK, self.view.top, branch, sandbox=self.view.sandbox)

    async def head(self) -> str | None:
        """Return the last commit of the clone's branch, or None. Raises Refused if another branch is checked out."""
        git, view = self.git, self.view
        out = (await git.run(view, "symbolic-ref", "--quiet", "HEAD")).stdout.decode("utf-8", "replace").strip()
        tip = await git.commit_of(view, self.branch)
        if tip is not None and out != self.branch:
            what = out.removeprefix("refs/heads/")[:100] or "no branch"
            raise failed(f"{what!a} is checked out in {view.top} on the node", "check out the agent's branch there")
        return tip

    async def here(self) -> str | None:
        """Return the last common commit that the clone has recorded (HERE), or None."""
        return await self.git.commit_of(self.view, HERE)

    async def commit(self, head: str, message: str, author: CommitAuthor) -> str:
        """Commit all changes in the clone on ``head``; return its last commit. Raises Refused, SpawnTransient."""
        git, view = self.git, self.view
        staged = await stage(git, self._writable)
        before = (await git.said(view, "rev-parse", f"{head}^{{tree}}")).decode("ascii", "replace").strip()
        if staged == before:
            return head
        made = await commit_staged(git, self._writable, staged, (head,), message, author)
        if not COMMIT.fullmatch(made):
            raise failed("git commit-tree on the node returned no commit")
        await git.said(view, "update-ref", self.branch, made, head)
        return made

    async def take(self, pack: Path, shallow: bytes) -> None:
        """Add the objects in ``pack``. ``shallow``: the boundary commits of a shallow project. Raises Refused."""
        if shallow:
            place = f"{self.view.folder}/shallow"
            await self.git.shell('exec cat >"$1"', place, given=shallow, sandbox=self.view.sandbox)
        await self.git.said(self.view, "index-pack", "--stdin", "--fix-thin", given=pack)

    async def check_out(self, tip: str, head: str | None) -> None:
        """Move tree and branch from ``head`` to ``tip``; ignored files remain. All changes must be committed."""
        git, view = self.git, self.view
        await git.said(view, "read-tree", "--reset", "-u", tip)
        await git.said(view, "update-ref", self.branch, tip, head or "")
        await git.said(view, "symbolic-ref", "HEAD", self.branch)
        await self.mark(tip)

    async def mark(self, tip: str) -> None:
        """Record ``tip`` as the last common commit (HERE)."""
        await self.git.said(self.view, "update-ref", HERE, tip)

    async def set_aside(self) -> str:
        """Rename the clone's folder, so that a new clone can be made. Returns the new path. Raises Refused."""
        aside = f"{self.place}/kept-{secrets.token_hex(4)}"
        await self.git.shell(_ASIDE, self.place, aside)
        return aside

    async def remove(self) -> None:
        """Remove the clone; folders that were set aside remain. Raises Refused, SpawnTransient."""
        await self.git.shell(_CLEAR, self.place)

    async def note_setup(self, digest: str) -> None:
        """Record that the setup steps with ``digest`` were run in the clone."""
        await self.git.shell(_READY, self.place, digest)


LOST: Final = "refs/agent-worker/lost"
"""Prefix of refs for commits from a node that are not descendants of the branch."""


class Synced(msgspec.Struct, frozen=True):
    """Result of a synchronization: the common commit, and ``notes`` for the user."""

    tip: str
    notes: tuple[str, ...] = ()


class NodeSync:
    """An agent's branch and its clone. ``agent`` is the author of commits there, ``message`` their default text."""

    def __init__(self, home: HomeBranch, clone: NodeClone, *, node: str, agent: str, message: str) -> None:
        self._home = home
        self._clone = clone
        self._node = node
        self._agent = agent
        self._message = message

    async def bring(self, *, live: bool = False) -> Synced:
        """Update the clone from the branch; create it if it is missing. Raises Refused, SpawnTransient.

        ``live``: the agent may be running, so git's locks in the clone remain, and a refused clone is not set aside.
        """
        home, clone, notes = self._home, self._clone, list[str]()
        async with home.git.view(home.directory) as view:
            author = await self._author(view)
            head: str | None = None
            there = (await clone.look()).there
            if there:
                if not live:
                    await clone.unlock()
                try:
                    head = await self._settled(view, author, notes)
                except Refused as refused:
                    if live:
                        raise
                    aside, there = await clone.set_aside(), False  # no commit of the node is deleted
                    notes.append(f"{refused.text}; the earlier content of the clone on {self._node} is in {aside}")
            tip = await home.tip(view)
            if not there:
                await clone.make(len(tip), (author.name, author.email))
            known = await self._known(view, [head, await clone.here()]) if head != tip else []
            if head != tip and tip not in known:
                async with home.git.folder() as folder:
                    pack, shallow = Path(folder, "pack"), trio.Path(view.folder, "shallow")
                    await write_pack(home.git, view, tip, known, pack, "--thin")
                    await clone.take(pack, await shallow.read_bytes() if await shallow.exists() else b"")
            if head != tip:
                await clone.check_out(tip, head)
        return Synced(tip, tuple(notes))

    async def collect(self, message: str = "", *, live: bool = False) -> Synced:
        """Commit the clone's changes with ``message``, and fetch its commits into the branch. Raises SpawnTransient.

        ``live``: the agent may be running, so git's locks remain. Raises Refused, and the commits remain on the node.
        """
        home, clone = self._home, self._clone
        async with home.git.view(home.directory) as view:
            tip = await home.tip(view)
            if not live:
                await clone.unlock()
            head = await clone.head()
            if head is None:
                raise failed(f"branch {home.tree.branch} not found on {self._node}", f"check {clone.view.top} there")
            made = await clone.commit(head, message or self._message, await self._author(view))
            if made != tip:
                await self._fetch(view, made, tip)
                if not await is_ancestor(home.git, view, tip, made):
                    text = f"{made[:12]}, the last commit there, is not a descendant of {tip[:12]}"
                    raise failed(text, f"check {clone.view.top} on {self._node}")
                await home.follow(view, tip, made)
            if made != await clone.here():
                await clone.mark(made)
        return Synced(made)

    async def clear(self) -> Synced:
        """Remove the clone of an ended run; fetch its unfetched commits under a separate ref first.

        Raises SpawnTransient; Refused, and the clone remains.
        """
        home, clone, notes = self._home, self._clone, list[str]()
        async with home.git.view(home.directory) as view:
            made = ""
            if not (await clone.look()).there:
                raise failed("the clone is no longer a git repository", f"check {clone.place} on {self._node}")
            await clone.unlock()
            head = await clone.head()
            if head is not None:
                # Uncommitted changes would be lost with the clone.
                made = await clone.commit(head, self._message, await self._author(view))
                if not await self._held(view, made):
                    await self._fetch(view, made, home.tree.base)
                    await self._keep(view, made, notes)
            await clone.remove()
        return Synced(made, tuple(notes))

    async def _author(self, view: GitView) -> CommitAuthor:
        home = self._home
        return await author_of(home.git, view, self._agent, await home.git.manner(home.directory))

    async def _held(self, view: GitView, made: str) -> bool:
        if not await has_commit(self._home.git, view, made):
            return False
        words = ("rev-list", "--count", "--max-count=1", made, "--not", "--all")
        return not int(await self._home.git.said(view, *words))

    async def _keep(self, view: GitView, made: str, notes: list[str]) -> None:
        branch = self._home.tree.branch
        ref = f"{LOST}/{branch.removeprefix('awk/')}/{made[:12]}"
        await self._home.git.said(view, "update-ref", ref, made)
        notes.append(f"commits from {self._node} do not fit on {branch}: stored as {ref}")

    async def _settled(self, view: GitView, author: CommitAuthor, notes: list[str]) -> str | None:
        """Commit and fetch the clone's changes. Returns its last commit, or None if there is none. Raises Refused."""
        home, clone = self._home, self._clone
        head = await clone.head()
        if head is None:
            return None
        tip = await home.tip(view)
        made = await clone.commit(head, self._message, author)
        if made == tip or await self._held(view, made):
            return made
        await self._fetch(view, made, tip)
        if await is_ancestor(home.git, view, tip, made):
            await home.follow(view, tip, made)
            notes.append(f"commits from {self._node} were added: {made[:12]}")
        else:
            await self._keep(view, made, notes)
        return made

    async def _fetch(self, view: GitView, made: str, tip: str) -> None:
        """Fetch commit ``made`` and its ancestors from the clone. Raises Refused if a check rejects them."""
        home, clone = self._home, self._clone
        here = await self._known(view, [await clone.here()])
        async with home.git.folder() as folder:
            pack = Path(folder, "pack")
            await write_pack(clone.git, clone.view, made, here, pack, "--thin")
            await take_commits(home.git, view, made, [tip, home.tree.base], pack)

    async def _known(self, view: GitView, claimed: Sequence[str | None]) -> list[str]:
        names = dict.fromkeys(one for one in claimed if one is not None)
        return [one for one in names if await has_commit(self._home.git, view, one)]
