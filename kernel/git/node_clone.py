"""The clone of an agent's tree on a node: made there, brought to a commit, and asked for what was done in it.

All of it is done by git and a shell over there. What is in the clone is its agent's: where the agent is confined, each
git that looks into it is, too, and in no case has it more than the far user's own rights and environment. An answer is
a name of a commit or a pack; it is checked here (``kernel.git.exchange``).
"""

import itertools
import secrets
from pathlib import Path
from typing import Final

import msgspec

from kernel.git.runner import COMMIT, SECONDS, Git, GitCommand, failed
from kernel.git.tree_commits import Author, WritableTree, commit_staged, stage
from kernel.git.view import View
from kernel.procs.command import CommandResult, run_command
from kernel.procs.launcher import Launcher
from protocol.ipc import Sandbox
from protocol.node import NodeFacts

TREES: Final = "trees"
"""The folder of all clones, in the state folder of a node."""
HERE: Final = "refs/awk/here"
"""The ref in a clone that names the last commit that both sides had."""
_SHELL_BYTES: Final = 1024 * 1024
_UNLOCK: Final = 'cd "$1" && rm -f .git/index.lock .git/HEAD.lock ".git/refs/heads/$2.lock" .git/refs/awk/here.lock'
CONFINED: Final = "confined"
"""A file beside a clone whose agent is confined."""
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
    """Runs git and shells on the node that says ``facts`` of itself, as its user, in an environment of ours."""

    def __init__(self, launcher: Launcher, facts: NodeFacts) -> None:
        self.facts = facts
        self.environment = {"PATH": facts.path, "HOME": facts.home, "LC_ALL": "C", "GIT_LFS_SKIP_SMUDGE": "1"}
        self._launcher = launcher
        self._name = f"files-{secrets.token_hex(4)}"
        self._numbers = itertools.count(1)
        name, known = f"{self._name}-git", self.environment
        command = GitCommand(launcher=launcher, path=facts.path, program="git", name=name, variables=known)
        super().__init__(command, where=" on the node", hint="see what git says there")

    async def shell(self, script: str, *words: str, given: bytes | Path = b"", sandbox: Sandbox | None = None) -> bytes:
        """The output of ``script``, which is ours; ``words`` are ``$1`` and so on. Raises Refused, SpawnTransient."""
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
            raise failed(f"the clone on the node cannot be made ready: {self.why(result)}", "see the disk there")
        return result.stdout

    def why(self, result: CommandResult) -> str:
        """The reason why a run failed."""
        if result.exit.failed is not None:
            return result.exit.failed
        return "it took too long" if result.timed_out else super().why(result)


class CloneState(msgspec.Struct, frozen=True):
    """The state of a clone: there or not, and the digest of the setup that was run in it; "": none was."""

    there: bool
    ready: str = ""


class NodeClone:
    """One clone, in ``place``, a folder of the node, with ``tree.branch`` checked out.

    ``box``: the sandbox of its agent, on the node, if that is confined.
    """

    def __init__(self, git: NodeGit, place: str, writable: WritableTree) -> None:
        self.git = git
        self.place = place
        self._writable = writable

    @property
    def view(self) -> View:
        """Its git directory and tree."""
        return self._writable.view

    @property
    def branch(self) -> str:
        """The full name of its branch."""
        return self._writable.branch

    async def look(self) -> CloneState:
        """Find out what is there. Raises Refused, SpawnTransient."""
        said = (await self.git.shell(_LOOK, self.place)).decode("utf-8", "replace")
        there, _, ready = said.partition("\n")
        return CloneState(there == "tree", ready.strip()) if there == "tree" else CloneState(there=False)

    async def make(self, hash_length: int, user: tuple[str, str]) -> None:
        """Make an empty one; ``user`` (name, email) is in whose name its agent commits. Raises Refused."""
        kind = "sha256" if hash_length == 64 else "sha1"
        confined = "" if self.view.sandbox is None else CONFINED
        await self.git.shell(_MAKE, self.place, kind, confined, *user)

    async def unlock(self) -> None:
        """Remove locks that a git left there that was killed: nobody works there now."""
        branch = self.branch.removeprefix("refs/heads/")
        await self.git.shell(_UNLOCK, self.view.top, branch, sandbox=self.view.sandbox)

    async def head(self) -> str | None:
        """The last commit of its branch, as it says; None: it has none. Raises Refused where another is checked out."""
        git, view = self.git, self.view
        out = (await git.run(view, "symbolic-ref", "--quiet", "HEAD")).stdout.decode("utf-8", "replace").strip()
        tip = await git.commit_of(view, self.branch)
        if tip is not None and out != self.branch:
            what = out.removeprefix("refs/heads/")[:100] or "no branch"
            raise failed(f"{what!a} is checked out in {view.top} on the node", "check out the agent's branch there")
        return tip

    async def here(self) -> str | None:
        """The commit that both sides had last, as the clone says."""
        return await self.git.commit_of(self.view, HERE)

    async def commit(self, head: str, message: str, author: Author) -> str:
        """Commit all that is not committed there; the last commit then. Raises Refused, SpawnTransient."""
        git, view = self.git, self.view
        staged = await stage(git, self._writable)
        before = (await git.said(view, "rev-parse", f"{head}^{{tree}}")).decode("ascii", "replace").strip()
        if staged == before:
            return head
        made = await commit_staged(git, self._writable, staged, (head,), message, author)
        if not COMMIT.fullmatch(made):
            raise failed("git commit-tree on the node names no commit")
        await git.said(view, "update-ref", self.branch, made, head)
        return made

    async def take(self, pack: Path, shallow: bytes) -> None:
        """Add the objects in ``pack``. ``shallow``: the commits that the project ends at. Raises Refused."""
        if shallow:
            place = f"{self.view.folder}/shallow"
            await self.git.shell('exec cat >"$1"', place, given=shallow, sandbox=self.view.sandbox)
        await self.git.said(self.view, "index-pack", "--stdin", "--fix-thin", given=pack)

    async def check_out(self, tip: str, head: str | None) -> None:
        """Bring tree and branch to ``tip``; what git ignores stays. Nothing may be there that is not committed."""
        git, view = self.git, self.view
        await git.said(view, "read-tree", "--reset", "-u", tip)
        await git.said(view, "update-ref", self.branch, tip, head or "")
        await git.said(view, "symbolic-ref", "HEAD", self.branch)
        await self.mark(tip)

    async def mark(self, tip: str) -> None:
        """Note in the clone that both sides have ``tip``."""
        await self.git.said(self.view, "update-ref", HERE, tip)

    async def set_aside(self) -> str:
        """Move it out of the way, with all in it. Returns the folder it is in now. Raises Refused."""
        aside = f"{self.place}/kept-{secrets.token_hex(4)}"
        await self.git.shell(_ASIDE, self.place, aside)
        return aside

    async def remove(self) -> None:
        """Remove it; what was set aside stays. Raises Refused, SpawnTransient."""
        await self.git.shell(_CLEAR, self.place)

    async def note_setup(self, digest: str) -> None:
        """Note that the setup of ``digest`` was run there."""
        await self.git.shell(_READY, self.place, digest)
