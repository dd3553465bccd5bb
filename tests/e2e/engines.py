"""Other engines in a real kernel: real programs where they are installed for tests, a scripted model behind each."""

import hashlib
import json
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.project import Project
from tests.worker.backends.subject import ProgramSubject
from tests.worker.backends.subjects_programs import CLAUDE, CODEX, CURSOR, OPENCODE
from tests.worker.scripted_api import Call, Say, ScriptedApi

KEY: Final = "sk-canary-4711"
NO_MIRROR: Final = "conversations: false\n"
"""A project file under which nothing that we write ourselves is mistaken for what a program left."""
SPEAKS: Final = "scopes: [default, channel.write]"
"""The key of an agent without colleagues that is offered channel_send."""
_DIALECTS: Final = {"claude": "anthropic", "codex": "openai", "opencode": "openai", "sdk": "anthropic"}


@dataclass(frozen=True)
class Engine:
    """A backend and how its model calls a tool of the kernel's. ``program``: it needs one on the PATH."""

    name: str
    program: ProgramSubject | None = None

    @property
    def missing(self) -> bool:
        return self.program is not None and self.program.installed() is None

    def tells(self, message: str, text: str = "") -> Say:
        """The model says ``message`` in the channel."""
        tool = "channel_send" if self.program is None else self.program.daemon_tool("channel_send")
        return Say(text=text, calls=(Call(tool, json.dumps({"message": message}), id=f"call_{abs(hash(message))}"),))

    def agent(self, project: Project, name: str, api: ScriptedApi, more: str = "") -> None:
        """Write an agent that it runs, whose model is ``api``."""
        lines = [f"backend: {self.name}", f"prompt: {{ system: You are {name}. }}", "retry: { backoff: 0.05s }"]
        if self.name == CURSOR.name:
            lines.append("model: cursor/composer-2")
        else:
            dialect = _DIALECTS[self.name]
            url = api.anthropic_url if dialect == "anthropic" else api.openai_url
            where = {"name": "scripted", "base_url": url, "dialect": dialect, "api_key": "$SCRIPTED_KEY"}
            lines += ["model: scripted/claude-sonnet-4-5", f"provider: {json.dumps(where)}"]
        project.write(f".agents/{name}.yaml", "\n".join([*lines, more]) + "\n")


SDK: Final = Engine("sdk")
PROGRAMS: Final = tuple(Engine(one.name, one) for one in (CLAUDE, CODEX, OPENCODE, CURSOR))
BY_NAME: Final = {one.name: one for one in (SDK, *PROGRAMS)}


def environ(folder: Path, cursor: ScriptedApi | None = None) -> dict[str, str]:
    """What a kernel is started with: its programs in ``folder`` before all others, the scripted keys, a TMPDIR there.

    ``cursor`` is whom Cursor's stand-in asks.
    """
    bin_folder, temporary = folder / "bin", folder / "tmp"
    for made in (bin_folder, temporary):
        made.mkdir(exist_ok=True)
    for engine in PROGRAMS:
        command = None if engine.program is None else engine.program.installed()
        if engine.program is not None and command is not None:
            place(bin_folder / engine.program.binary, f'exec {shlex.join(command)} "$@"')
    keys = {"SCRIPTED_KEY": KEY} | ({} if cursor is None else {"CURSOR_API_KEY": f"{KEY}@{cursor.url}"})
    return {"PATH": f"{bin_folder}:{os.environ['PATH']}", "TMPDIR": str(temporary), **keys}


def place(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def fingerprint(*roots: Path) -> dict[str, str]:
    """Every file, folder and link below ``roots`` with its mode and what it holds."""
    found = {}
    for path in (path for root in roots for path in (root, *root.rglob("*"))):
        status = path.lstat()
        held = os.readlink(path) if path.is_symlink() else path.read_bytes().hex() if path.is_file() else ""
        found[str(path)] = f"{status.st_mode:o} {hashlib.sha256(held.encode()).hexdigest()}"
    return found
