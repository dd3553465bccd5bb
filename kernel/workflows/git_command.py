"""One run of git, in a keeper: with settings and an environment of ours, bounded in time and output.

Every git that the kernel starts is started here. A setting is passed by ``GIT_CONFIG_COUNT``: ``-c`` splits its word at
the first ``=``, which can be a part of the key. No transport is allowed unless a caller names it, nothing that is
missing is fetched, and git asks nobody, shows no page and opens no editor.
"""

import itertools
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from kernel.procs.command import CommandResult, run_command
from kernel.procs.launcher import Launcher
from protocol.ipc import Sandbox

Setting = tuple[str, str]
"""A key of git's configuration, and its value."""

SETTINGS: Final[tuple[Setting, ...]] = (
    ("safe.bareRepository", "explicit"),
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.askPass", "/bin/false"),
    ("core.sshCommand", "/bin/false"),
    ("core.editor", "/bin/false"),
    ("core.pager", "cat"),
    ("core.alternateRefsCommand", "true"),
    ("core.logAllRefUpdates", "false"),
    ("core.quotePath", "false"),
    ("gpg.program", "/bin/false"),
    ("gpg.ssh.program", "/bin/false"),
    ("gpg.x509.program", "/bin/false"),
    ("log.showSignature", "false"),
    ("protocol.allow", "never"),
    ("http.followRedirects", "false"),
    ("http.cookieFile", "/dev/null"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("diff.ignoreSubmodules", "dirty"),
    ("diff.external", ""),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
)
"""They outweigh every configuration of the same key. Of a transport, what counts is ``GIT_ALLOW_PROTOCOL``."""

VARIABLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "LC_ALL": "C",
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_PROTOCOL_FROM_USER": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "/bin/false",
        "SSH_ASKPASS": "/bin/false",
        "GIT_SSH_COMMAND": "/bin/false",
        "GIT_EDITOR": "/bin/false",
        "GIT_SEQUENCE_EDITOR": "/bin/false",
        "GIT_PAGER": "cat",
    }
)

_TAIL: Final = 500
_numbers: Final = itertools.count(1)
"""Attempt directories are distinct for the life of a kernel, which sweeps older ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitCommand:
    """How git is run. ``path`` is where it is looked for."""

    launcher: Launcher
    path: str
    settings: Sequence[Setting] = SETTINGS
    variables: Mapping[str, str]
    """The environment, beside VARIABLES, of which each can be another one here."""
    seconds: float
    limit_bytes: int

    async def run(
        self,
        cwd: str,
        *words: str,
        settings: Sequence[Setting] = (),
        variables: Mapping[str, str] | None = None,
        given: bytes | Path = b"",
        sandbox: Sandbox | None = None,
    ) -> CommandResult:
        """Run ``git words`` in ``cwd``, with more ``settings`` and ``variables``, and ``given`` to read.

        Raises GitMissing, SpawnTransient. Cancellation kills its tree.
        """
        git = shutil.which("git", path=self.path)
        if git is None:
            raise GitMissing
        return await run_command(
            self.launcher,
            f"git-{next(_numbers)}",
            (git, *words),
            cwd=cwd,
            env={**VARIABLES, **self.variables, **(variables or {}), **_as_variables((*self.settings, *settings))},
            timeout_seconds=self.seconds,
            output_limit_bytes=self.limit_bytes,
            given=given,
            sandbox=sandbox,
        )

    def why(self, result: CommandResult) -> str:
        """Why a run that went wrong did, in git's words where it said any."""
        if result.timed_out:
            return f"it took more than {self.seconds:g} s"
        if result.truncated:
            return f"there is more than {self.limit_bytes // 2**20} MiB"
        said = " ".join(result.stderr_tail.decode("utf-8", "replace").split())[-_TAIL:]
        return said or f"exit code {result.exit.code}"


class GitMissing(Exception):
    """There is no git on the path."""


def _as_variables(settings: Sequence[Setting]) -> dict[str, str]:
    """They are in no argument, where every user of the machine could read them."""
    found = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return found
