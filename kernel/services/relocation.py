"""Start frames as a node is told them: every path, address and variable is the node's.

Pure: what was found out there is given. Of the kernel's environment only those variables come along that the agent's
file names; of its machine no path does. What was said (entries, and text of others) stays as it was said, but that the
folders of the project and of the agent's tree are called in it what they are called on the node.
"""

import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from kernel.procs.attempt_dir import LOCK_FILE
from protocol.agent import AgentDefinition
from protocol.discovery import CALL_URL
from protocol.ipc import Sandbox, Start, Turn
from protocol.node import NodeFacts

_MEMORY_QUARTER: Final = 4
_LEAST_PRIVATE_BYTES: Final = 64 * 1024 * 1024
_NOT_IN_NAME: Final = r"(?![A-Za-z0-9._@+-])"


class NodePlace(msgspec.Struct, frozen=True, kw_only=True):
    """The places of one attempt on a node, all absolute there. ``program`` is what runs in place of our own loop."""

    facts: NodeFacts
    tree: str
    cwd: str
    attempt_dir: str
    session_dir: str = ""
    files: str = ""
    """What was sent for this attempt alone."""
    program: str = ""
    bubblewrap: str = ""


def relocate(start: Start, definition: AgentDefinition, there: NodePlace, tops: Mapping[str, str]) -> Start:
    """Return ``start`` for the node. ``definition`` says what the agent may have of the kernel's environment.

    ``tops``: folders of this machine that a frame may name, and what is in their place on the node.
    """
    folders = skill_folders(start, there.files, there.session_dir)
    known = {**tops, start.attempt_dir: there.attempt_dir, start.session_dir: there.session_dir, **folders}
    known.pop("", None)
    moved = sorted(known.items(), key=lambda pair: -len(pair[0]))  # what is deeper comes first
    return msgspec.structs.replace(
        start,
        cwd=there.cwd,
        attempt_dir=there.attempt_dir,
        session_dir=there.session_dir if start.session_dir else "",
        env=environment(start.env, definition.env, there.facts),
        secrets=tuple(name for name in start.secrets if name in definition.env and name in start.env),
        mcp=msgspec.structs.replace(start.mcp, url=f"{kernel_url(there.facts)}/mcp"),
        skills=tuple(msgspec.structs.replace(one, folder=folders[one.folder]) for one in start.skills),
        command=_command(start.command, there, moved),
        pinned={_told(word, moved): digest for word, digest in start.pinned.items()},
        project_tools={
            name: msgspec.structs.replace(tool, command=tuple(_told(word, moved) for word in tool.command))
            for name, tool in start.project_tools.items()
        },
        mcp_servers={
            name: msgspec.structs.replace(
                server,
                command=None if server.command is None else _told(server.command, moved),
                args=tuple(_told(word, moved) for word in server.args),
                env={variable: _told(value, moved) for variable, value in server.env.items()},
            )
            for name, server in start.mcp_servers.items()
        },
        system=_told(start.system, moved),
        system_stable=len(_told(start.system[: start.system_stable], moved)),
        message=_told(start.message, moved),
        messages=tuple(Turn(role=turn.role, text=_told(turn.text, moved)) for turn in start.messages),
        sandbox=None if start.sandbox is None else sandbox_there(definition, there),
        hidden=(there.facts.state_dir,),
    )


def skill_folders(start: Start, files: str, session_dir: str) -> dict[str, str]:
    """The folders on the node that the attempt's skills are sent to, by those that they are in here.

    ``files`` is that of all sent for the attempt; what is in the home of a CLI here is in its home there.
    """
    home = f"{start.session_dir}/"
    return {
        one.folder: f"{session_dir}/{one.folder.removeprefix(home)}"
        if start.session_dir and one.folder.startswith(home)
        else f"{files}/skills/{number}"
        for number, one in enumerate(start.skills)
    }


def kernel_url(facts: NodeFacts) -> str:
    """The address at which programs on the node find the kernel."""
    return facts.mcp_url.removesuffix("/mcp").rstrip("/")


def environment(env: Mapping[str, str], named: Iterable[str], facts: NodeFacts) -> dict[str, str]:
    """The environment of an agent's programs on the node: ``named`` of the kernel's, and the far user's own."""
    passed = {name: env[name] for name in named if name in env}
    far = {"PATH": facts.path, "HOME": facts.home, "LANG": "C.UTF-8"}
    return {**passed, **far, CALL_URL: kernel_url(facts)}


def sandbox_there(definition: AgentDefinition, there: NodePlace) -> Sandbox:
    """The sandbox of a confined agent's programs on the node: its clone, its folders, and the system."""
    return Sandbox(
        program=there.bubblewrap,
        writable=tuple(filter(None, (there.tree, there.attempt_dir, there.session_dir))),
        readable=tuple(filter(None, (f"{there.attempt_dir}/{LOCK_FILE}" if there.attempt_dir else "", there.files))),
        hidden=(there.facts.state_dir,),
        private_bytes=definition.limits.memory or private_bytes(there.facts),
    )


def private_bytes(facts: NodeFacts) -> int:
    """Return the size of each private folder of a sandbox there."""
    return max(_LEAST_PRIVATE_BYTES, facts.memory_bytes // _MEMORY_QUARTER)


def _told(text: str, moved: Iterable[tuple[str, str]]) -> str:
    """``text`` with the folders of this machine called as they are on the node: each place once."""
    table = dict(moved)
    if not table:
        return text
    pattern = "|".join(f"{re.escape(folder)}{_NOT_IN_NAME}" for folder in table)
    return re.sub(pattern, lambda found: table[found[0]], text)


def _command(command: tuple[str, ...], there: NodePlace, moved: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    if not command:
        return ()
    for folder, place in moved:
        if command[0] == folder or command[0].startswith(f"{folder}/"):
            return (posixpath.normpath(place + command[0].removeprefix(folder)), *command[1:])
    return (there.program or posixpath.basename(command[0]), *command[1:])
