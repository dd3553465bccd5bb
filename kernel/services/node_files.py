"""Files sent to a node for one attempt, and the lookup of programs and the sandbox on the node."""

import hashlib
import io
import os
import re
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import trio

from kernel.agents.environment import cannot_confine
from kernel.agents.providers import CauseError
from kernel.git.node_sync import NodeGit
from kernel.git.runner import failed
from kernel.procs.attempt_dir import LOCK_FILE
from kernel.source.safe_paths import open_path
from protocol.agent import AgentDefinition
from protocol.backends import BACKENDS, COMMANDED
from protocol.discovery import CALL_URL
from protocol.errors import Refused
from protocol.ipc import Sandbox, Start, Turn
from protocol.node import NodeFacts
from protocol.tools import Skill

_MEMORY_QUARTER: Final = 4
_LEAST_PRIVATE_BYTES: Final = 64 * 1024 * 1024
_NOT_IN_NAME: Final = r"(?![A-Za-z0-9._@+-])"


class NodePlace(msgspec.Struct, frozen=True, kw_only=True):
    """Absolute paths of one attempt on a node; ``program`` is the backend's program there."""

    facts: NodeFacts
    tree: str
    cwd: str
    attempt_dir: str
    session_dir: str = ""
    files: str = ""
    """Folder of files sent only for this attempt."""
    program: str = ""
    bubblewrap: str = ""


def relocate(start: Start, definition: AgentDefinition, there: NodePlace, tops: Mapping[str, str]) -> Start:
    """Return ``start`` with paths of the node, and only the variables that ``definition`` names.

    ``tops`` maps folders of this machine to the corresponding folders on the node.
    """
    folders = skill_folders(start, there.files, there.session_dir)
    known = {**tops, start.attempt_dir: there.attempt_dir, start.session_dir: there.session_dir, **folders}
    known.pop("", None)
    known[f"{start.mcp.url.removesuffix('/mcp')}/gateway"] = f"{kernel_url(there.facts)}/gateway"
    provider = start.provider
    moved = sorted(known.items(), key=lambda pair: -len(pair[0]))  # deeper folders first
    # Variables with which programs of the attempt reach the gateway.
    own = (f"{start.mcp.url.removesuffix('/mcp')}/gateway/", f"awk-{start.attempt}-")
    gateway = {name: _relocated(value, moved) for name, value in start.env.items() if value.startswith(own)}
    commands = [_relocated(word, moved) for word in start.command[:1]]  # a command of the project is part of the clone
    return msgspec.structs.replace(
        start,
        cwd=there.cwd,
        attempt_dir=there.attempt_dir,
        session_dir=there.session_dir if start.session_dir else "",
        env=environment(start.env, definition.env, there.facts) | gateway,
        provider=provider and msgspec.structs.replace(provider, base_url=_relocated(provider.base_url or "", moved)),
        secrets=tuple(name for name in start.secrets if name in definition.env and name in start.env),
        mcp=msgspec.structs.replace(start.mcp, url=f"{kernel_url(there.facts)}/mcp"),
        skills=tuple(msgspec.structs.replace(one, folder=folders[one.folder]) for one in start.skills),
        command=(commands[0] if commands[0] != start.command[0] else there.program, *start.command[1:])
        if commands
        else (),
        pinned={_relocated(word, moved): digest for word, digest in start.pinned.items()},
        project_tools={
            name: msgspec.structs.replace(tool, command=tuple(_relocated(word, moved) for word in tool.command))
            for name, tool in start.project_tools.items()
        },
        mcp_servers={
            name: msgspec.structs.replace(
                server,
                command=None if server.command is None else _relocated(server.command, moved),
                args=tuple(_relocated(word, moved) for word in server.args),
                env={variable: _relocated(value, moved) for variable, value in server.env.items()},
            )
            for name, server in start.mcp_servers.items()
        },
        system=_relocated(start.system, moved),
        system_stable=len(_relocated(start.system[: start.system_stable], moved)),
        message=_relocated(start.message, moved),
        messages=tuple(Turn(role=turn.role, text=_relocated(turn.text, moved)) for turn in start.messages),
        sandbox=None if start.sandbox is None else sandbox_there(definition, there),
        hidden=(there.facts.state_dir,),
    )


def skill_folders(start: Start, files: str, session_dir: str) -> dict[str, str]:
    """Return the folders of the attempt's skills on the node, by their folders on this machine.

    ``files`` is the folder of all files sent for the attempt; skills in the home of a CLI go to its home on the node.
    """
    home = f"{start.session_dir}/"
    return {
        one.folder: f"{session_dir}/{one.folder.removeprefix(home)}"
        if start.session_dir and one.folder.startswith(home)
        else f"{files}/skills/{number}"
        for number, one in enumerate(start.skills)
    }


def kernel_url(facts: NodeFacts) -> str:
    """Return the URL of the kernel for programs on the node."""
    return facts.mcp_url.removesuffix("/mcp").rstrip("/")


def environment(env: Mapping[str, str], named: Iterable[str], facts: NodeFacts) -> dict[str, str]:
    """Return the environment of an agent's programs: the kernel's ``named`` variables and the node's own."""
    passed = {name: env[name] for name in named if name in env}
    far = {"PATH": facts.path, "HOME": facts.home, "LANG": "C.UTF-8"}
    return {**passed, **far, CALL_URL: kernel_url(facts)}


def sandbox_there(definition: AgentDefinition, there: NodePlace) -> Sandbox:
    """Return the sandbox of a confined agent's programs on the node: its clone, its folders, and the system."""
    return Sandbox(
        program=there.bubblewrap,
        writable=tuple(filter(None, (there.tree, there.attempt_dir, there.session_dir))),
        readable=tuple(filter(None, (f"{there.attempt_dir}/{LOCK_FILE}" if there.attempt_dir else "", there.files))),
        hidden=(there.facts.state_dir,),
        private_bytes=definition.limits.memory or private_bytes(there.facts),
    )


def private_bytes(facts: NodeFacts) -> int:
    """Return the size of each private folder of a sandbox on the node."""
    return max(_LEAST_PRIVATE_BYTES, facts.memory_bytes // _MEMORY_QUARTER)


def _relocated(text: str, moved: Iterable[tuple[str, str]]) -> str:
    """Replace this machine's folders in ``text`` by the node's, in one pass."""
    table = dict(moved)
    if not table:
        return text
    pattern = "|".join(f"{re.escape(folder)}{_NOT_IN_NAME}" for folder in table)
    return re.sub(pattern, lambda found: table[found[0]], text)


SENT_BYTES: Final = 64 * 1024 * 1024
"""Limit for all skills of an attempt."""
_UNPACK: Final = """
umask 077
above=${1%/*}
test ! -L "$above" || rm "$above"
rm -rf "$1" && mkdir -p "$1" && cd "$1" && exec tar -xf -
"""
"""Removes a link that a program may have put in place of the parent folder."""
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
    """Sends the files of one attempt to ``folder`` on a node, and finds programs there."""

    git: NodeGit
    folder: str

    async def find(self, names: Sequence[str]) -> str | None:
        """Return the path of the first of ``names`` on the node; None: none. Raises Refused, SpawnTransient."""
        said = (await self.git.shell(_FIND, *names)).decode("utf-8", "replace").split("\n")
        return next((line for line in said if line.startswith("/")), None)

    async def bubblewrap(self) -> str:
        """Return the path of bubblewrap on the node. Raises CauseError if it is missing."""
        found = await self.find(("bwrap",))
        if found is None:
            text = "sandbox: on, but bwrap is not on the PATH there (install bubblewrap 0.8 or newer, or use another"
            raise CauseError("spawn_permanent", f"{text} node with needs.labels)")
        return found

    async def check_sandbox(self, box: Sandbox) -> None:
        """Test ``box`` on the node. Raises CauseError if it does not confine, SpawnTransient."""
        try:
            await self.git.shell(":", sandbox=box)
        except Refused as refused:
            raise CauseError("spawn_permanent", cannot_confine(refused.text)) from refused

    async def program(self, start: Start, project: str) -> str:
        """Return the path of the backend's program on the node; "" for the built-in loop or a file of ``project``.

        Raises CauseError if the program is missing, Refused, SpawnTransient.
        """
        if not start.command or start.command[0].startswith(f"{project}/"):
            return ""
        own = (os.path.basename(start.command[0]),)
        names = own if start.backend in COMMANDED else BACKENDS[start.backend].binaries
        found = await self.find(names)
        if found is None:
            text = f"{' or '.join(names)} is not on the PATH there ({self.git.facts.path})"
            raise CauseError(
                "spawn_permanent", f"{text}: install it on that node, or select another node with needs.labels"
            )
        return found

    async def make_folder(self, path: str) -> str:
        """Create ``path`` on the node, and return its real path. Raises Refused, SpawnTransient."""
        return (await self.git.shell(_MAKE, path)).decode("utf-8", "surrogateescape").rstrip("\n")

    async def send(self, skills: Sequence[Skill], folders: Mapping[str, str]) -> None:
        """Send each of ``skills`` to its folder in ``folders``. Raises Refused."""
        for skill in skills:
            packed = await trio.to_thread.run_sync(_packed, skill)
            await self.git.shell(_UNPACK, folders[skill.folder], given=packed)

    async def check_trusted(self, pinned: Mapping[str, str], cwd: str) -> None:
        """Raise CauseError (untrusted) if a file of ``pinned`` in ``cwd`` on the node differs from the trusted one.

        Raises Refused, SpawnTransient.
        """
        said = (await self.git.shell(_DIGESTS, cwd, *pinned)).decode("ascii", "replace").splitlines()
        for word, trusted, found in zip(pinned, pinned.values(), said, strict=False):
            if found != (trusted or "absent"):
                text = f"{word} differs from the trusted file in {cwd}"
                raise CauseError("untrusted", f"{text}: a node only has committed files; commit it and retry")
        if len(said) != len(pinned):
            raise failed("files to run on the node cannot be read", "inspect the clone on the node")

    async def remove(self) -> None:
        """Remove the folder and its contents. Raises Refused, SpawnTransient."""
        await self.git.shell(_REMOVE, self.folder)


def _packed(skill: Skill) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, digest in sorted(skill.files.items()):
            path = Path(skill.folder, name)
            try:
                with open(open_path(str(path)), "rb") as file:
                    data, runs = file.read(SENT_BYTES + 1), os.fstat(file.fileno()).st_mode & 0o100
            except OSError as error:
                raise failed(f"skill {skill.name} cannot be sent: {error}", "check the file") from error
            if hashlib.sha256(data).hexdigest() != digest:
                raise failed(f"file {path} of skill {skill.name} has changed meanwhile", "retry")
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o700 if runs else 0o600
            archive.addfile(entry, io.BytesIO(data))
            if out.tell() > SENT_BYTES:
                raise failed(f"skill {skill.name} is larger than {SENT_BYTES // 2**20} MiB", "reduce its files")
    return out.getvalue()
