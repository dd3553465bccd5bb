"""Files that go to a node for one attempt, beside its clone; and what is looked for there: programs, a sandbox."""

import hashlib
import io
import os
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import trio

from kernel.agents.providers import CauseError
from kernel.agents.sandbox import cannot_confine
from kernel.source.safe_paths import open_path
from kernel.workflows.node_clone import NodeGit
from kernel.workflows.project_git import failed
from protocol.backends import BACKENDS, COMMANDED
from protocol.errors import Refused
from protocol.ipc import Sandbox, Start
from protocol.tools import Skill

SENT_BYTES: Final = 64 * 1024 * 1024
"""Of all skills of an attempt."""
_UNPACK: Final = """
umask 077
above=${1%/*}
test ! -L "$above" || rm "$above"
rm -rf "$1" && mkdir -p "$1" && cd "$1" && exec tar -xf -
"""
"""A program in a sandbox may have left a link in the place of the folder above."""
_MAKE: Final = 'umask 077; mkdir -p "$1" && cd -P "$1" && pwd'
_DIGESTS: Final = """
cd "$1" || exit 1
shift
for one do
    if test ! -e "$one" && test ! -L "$one"; then
        echo absent
    elif test -f "$one"; then
        { sha256sum <"$one" || shasum -a 256 <"$one"; } 2>/dev/null | cut -c1-64
    else
        echo other
    fi
done
"""
_REMOVE: Final = 'exec rm -rf "$1"'
_FIND: Final = 'for name do command -v -- "$name" && exit 0; done; exit 0'


class NodeFiles(msgspec.Struct, eq=False):
    """Sends what one attempt needs to ``folder`` on a node, and looks there for what is to be run."""

    git: NodeGit
    folder: str

    async def find(self, names: Sequence[str]) -> str | None:
        """The path of the first of ``names`` that the node has; None: of none. Raises Refused, SpawnTransient."""
        said = (await self.git.shell(_FIND, *names)).decode("utf-8", "replace").split("\n")
        return next((line for line in said if line.startswith("/")), None)

    async def bubblewrap(self) -> str:
        """The path of bubblewrap there. Raises CauseError: nobody is run unconfined who asked to be confined."""
        found = await self.find(("bwrap",))
        if found is None:
            text = "sandbox: on, but bwrap is not on the PATH there (install bubblewrap 0.8 or newer, or choose another"
            raise CauseError("spawn_permanent", f"{text} node by needs.labels)")
        return found

    async def check_sandbox(self, box: Sandbox) -> None:
        """Try ``box``. Raises CauseError where it confines nothing there, SpawnTransient."""
        try:
            await self.git.shell(":", sandbox=box)
        except Refused as refused:
            raise CauseError("spawn_permanent", cannot_confine(refused.text)) from refused

    async def program(self, start: Start, project: str) -> str:
        """The path there of what runs in place of our own loop, if that is no file of ``project``; else "".

        Raises CauseError where there is none, Refused, SpawnTransient.
        """
        if not start.command or start.command[0].startswith(f"{project}/"):
            return ""
        own = (os.path.basename(start.command[0]),)
        names = own if start.backend in COMMANDED else BACKENDS[start.backend].binaries
        found = await self.find(names)
        if found is None:
            text = f"{' or '.join(names)} is not on the PATH there ({self.git.facts.path})"
            raise CauseError("spawn_permanent", f"{text}: install it on that node, or choose another by needs.labels")
        return found

    async def make_folder(self, path: str) -> str:
        """Make ``path`` there, for its user alone. Returns it without links. Raises Refused, SpawnTransient."""
        return (await self.git.shell(_MAKE, path)).decode("utf-8", "surrogateescape").rstrip("\n")

    async def send(self, skills: Sequence[Skill], folders: Mapping[str, str]) -> None:
        """Put each of ``skills`` into the folder there that ``folders`` names for its own. Raises Refused."""
        for skill in skills:
            packed = await trio.to_thread.run_sync(_packed, skill)
            await self.git.shell(_UNPACK, folders[skill.folder], given=packed)

    async def check_trusted(self, pinned: Mapping[str, str], cwd: str) -> None:
        """Raise CauseError (untrusted) where a file of ``pinned`` is not in ``cwd`` there as it was trusted.

        Raises Refused, SpawnTransient.
        """
        said = (await self.git.shell(_DIGESTS, cwd, *pinned)).decode("ascii", "replace").splitlines()
        for word, trusted, found in zip(pinned, pinned.values(), said, strict=False):
            if found != (trusted or "absent"):
                text = f"{word}, which is to be run, is not what was trusted where it works (seen from {cwd})"
                raise CauseError("untrusted", f"{text}: a node has what is committed; commit it, and try again")
        if len(said) != len(pinned):
            raise failed("what is to be run there cannot be read", "see what is there")

    async def remove(self) -> None:
        """Remove the folder, and all in it. Raises Refused, SpawnTransient."""
        await self.git.shell(_REMOVE, self.folder)


def _packed(skill: Skill) -> bytes:
    """The files of ``skill`` that were trusted, as an archive. Blocks. Raises Refused where one has changed."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, digest in sorted(skill.files.items()):
            path = Path(skill.folder, name)
            try:
                with open(open_path(str(path)), "rb") as file:
                    data, runs = file.read(SENT_BYTES + 1), os.fstat(file.fileno()).st_mode & 0o100
            except OSError as error:
                raise failed(f"the skill {skill.name} cannot be sent: {error}", "see the file") from error
            if hashlib.sha256(data).hexdigest() != digest:
                raise failed(f"{path} of the skill {skill.name} has changed meanwhile", "try again")
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o700 if runs else 0o600
            archive.addfile(entry, io.BytesIO(data))
            if out.tell() > SENT_BYTES:
                raise failed(f"the skill {skill.name} has more than {SENT_BYTES // 2**20} MiB", "send less")
    return out.getvalue()
