"""Runs git in a keeper, bounded in time and output: to fetch one commit into an empty repository, and to print objects.

Every git that the kernel starts is started here, with settings and an environment of ours. A setting is passed by
``GIT_CONFIG_COUNT``: ``-c`` splits its word at the first ``=``, which can be a part of the key. No transport is allowed
unless a caller names it, nothing that is missing is fetched, and git asks nobody, shows no page and opens no editor. In
a fetch no configuration of the user or the system, hook, prompt, redirect or submodule has a say (XF04, XF05).

What nobody may read without a name is asked for once more, with the name and password that the user's own git has for
that host. That is the one place where git's configuration has a say, and it is the user's: the system's and their own,
never that of a folder. Nobody is prompted; a helper that wants to is answered by nothing. What is found goes into one
request.
"""

import base64
import itertools
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

import msgspec

from kernel.agents.environment import worker_environment
from kernel.procs.command import CommandResult, run_command
from kernel.procs.launcher import Launcher
from kernel.procs.spec import SpawnTransient
from protocol.errors import Refused
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
        "GIT_LFS_SKIP_SMUDGE": "1",
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


class GitCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A way to run git. ``path`` is where it is looked for; on another machine ``program`` is, in the PATH there."""

    launcher: Launcher
    path: str
    settings: Sequence[Setting] = SETTINGS
    variables: Mapping[str, str]
    """The environment, beside VARIABLES, of which each can be another one here."""
    seconds: float
    limit_bytes: int
    program: str = ""
    name: str = "git"
    """The beginning of the names of its attempt directories."""

    async def run(
        self,
        cwd: str,
        *words: str,
        settings: Sequence[Setting] = (),
        variables: Mapping[str, str] | None = None,
        given: bytes | Path = b"",
        into: Path | None = None,
        sandbox: Sandbox | None = None,
    ) -> CommandResult:
        """Run ``git words`` in ``cwd``, with more ``settings`` and ``variables``, and ``given`` to read.

        What it prints is in the answer, or in the new file ``into``.
        Raises GitMissing, SpawnTransient. Cancellation kills its tree.
        """
        git = self.program or shutil.which("git", path=self.path)
        if git is None:
            raise GitMissing
        # They are in no argument, where every user of the machine could read them.
        as_variables_settings = (*self.settings, *settings)
        found = {"GIT_CONFIG_COUNT": str(len(as_variables_settings))}
        for number, (key, value) in enumerate(as_variables_settings):
            found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        return await run_command(
            self.launcher,
            f"{self.name}-{next(_numbers)}",
            (git, *words),
            cwd=cwd,
            env={**VARIABLES, **self.variables, **(variables or {}), **found},
            timeout_seconds=self.seconds,
            output_limit_bytes=self.limit_bytes,
            given=given,
            into=into,
            sandbox=sandbox,
        )

    def why(self, result: CommandResult) -> str:
        """The reason why a run failed, in git's words where it said any."""
        if result.timed_out:
            return f"it took more than {self.seconds:g} s"
        if result.truncated:
            return f"there is more than {self.limit_bytes // 2**20} MiB"
        said = " ".join(result.stderr_tail.decode("utf-8", "replace").split())[-_TAIL:]
        return said or f"exit code {result.exit.code}"


class GitMissing(Exception):
    """There is no git on the path."""


SECONDS: Final = 20.0
GIT_CREDENTIAL_LIMIT_BYTES: Final = 64 * 1024

_GIT_CREDENTIAL_PASSED: Final = (
    "HOME",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "GH_CONFIG_DIR",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GNUPGHOME",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
)
"""Where helpers keep what they know: the files of git and gh, keyrings, agents."""

GIT_CREDENTIAL_SETTINGS: Final[tuple[Setting, ...]] = (("safe.bareRepository", "explicit"),)
"""The folder it runs in is none that has a say."""
SILENT: Final[Mapping[str, str]] = {"GCM_INTERACTIVE": "never"}
"""Beside what holds for every git of ours."""


def variables(environ: Mapping[str, str], path: str, folder: str) -> dict[str, str]:
    """The environment in which ``git credential`` is run in ``folder``; no folder above it is looked at."""
    passed = {name: environ[name] for name in _GIT_CREDENTIAL_PASSED if environ.get(name)}
    return {**passed, **SILENT, "PATH": path, "GIT_CEILING_DIRECTORIES": folder.rpartition("/")[0] or "/"}


async def credential(git: GitCommand, folder: str, url: str) -> str | None:
    """The value of an ``Authorization`` header for ``url``, as the user's git would send it; None where it has none.

    Raises GitMissing, SpawnTransient. Cancellation kills the helper's tree.
    """
    parts = urlsplit(url)
    asked = f"protocol={parts.scheme}\nhost={parts.netloc}\npath={parts.path.lstrip('/')}\n\n"
    result = await git.run(folder, "credential", "fill", given=asked.encode())
    parted = (line.partition("=") for line in result.stdout.decode("utf-8", "replace").splitlines())
    answer = {key: value for key, _, value in parted}
    if not result.ok or not answer.get("password"):
        return None
    pair = f"{answer.get('username', '')}:{answer['password']}"
    return f"Basic {base64.b64encode(pair.encode()).decode('ascii')}"


FETCH_SECONDS: Final = 120.0
LIMIT_BYTES: Final = 64 * 1024 * 1024
"""Of all files of a commit together."""

_PASSED: Final = ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR")
_SETTINGS: Final[tuple[Setting, ...]] = (
    *SETTINGS,
    ("core.symlinks", "false"),
    ("credential.helper", ""),
    ("fetch.unpackLimit", "1"),
)
_SCHEMES: Final = frozenset({"https", "http"})
_HINT: Final = "is the name right? What is private needs a credential that your git has: gh auth setup-git"


class Git:
    """Runs git in ``folder``, an empty directory that only it uses."""

    def __init__(
        self, folder: Path, *, launcher: Launcher, environ: Mapping[str, str], own_bin: frozenset[str]
    ) -> None:
        self._folder = folder
        self._launcher = launcher
        self._path = worker_environment(environ, own_bin=own_bin)["PATH"]
        self._environ = environ

    async def fetch(self, url: str, what: str) -> str:
        """Fetch ``what`` (a ref or a commit) of ``url``, without its history. Returns the commit.

        Raises Refused(fetch_failed).
        """
        scheme = url.partition("://")[0]
        if scheme not in _SCHEMES:
            raise Refused("fetch_failed", f"{url[:100]!a} is not fetched: it is neither https nor http")
        await self._run(scheme, "init", "--quiet", "--bare", "--template=", "--", ".")
        options = ("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance")
        words = ("fetch", *options, "--", url, what)
        try:
            await self._run(scheme, *words)
        except Refused as refused:
            known = await self._credential(url) if refused.code == "fetch_failed" else None
            if known is None:
                raise
            await self._run(scheme, *words, setting=(f"http.{url}.extraHeader", f"Authorization: {known}"))
        found = await self._run(scheme, "rev-parse", "--verify", "--quiet", "--end-of-options", "FETCH_HEAD^{commit}")
        return found.stdout.decode("ascii", "replace").strip()

    async def _credential(self, url: str) -> str | None:
        """The header by which the user's git is let in, in an environment of its own: it is their configuration."""
        folder = str(self._folder)
        command = GitCommand(
            launcher=self._launcher,
            path=self._path,
            settings=GIT_CREDENTIAL_SETTINGS,
            variables=variables(self._environ, self._path, folder),
            seconds=SECONDS,
            limit_bytes=GIT_CREDENTIAL_LIMIT_BYTES,
        )
        try:
            return await credential(command, folder, url)
        except (GitMissing, SpawnTransient):
            return None

    async def objects(self) -> bytes:
        """Every object there is, as ``cat-file --batch`` prints them. Raises Refused(fetch_failed)."""
        return (await self._run("none", "cat-file", "--batch-all-objects", "--batch")).stdout

    async def _run(self, scheme: str, *words: str, setting: Setting | None = None) -> CommandResult:
        passed = {name: self._environ[name] for name in _PASSED if self._environ.get(name)}
        command = GitCommand(
            launcher=self._launcher,
            path=self._path,
            settings=(*_SETTINGS, (f"protocol.{scheme}.allow", "always"), *((setting,) if setting else ())),
            variables=(
                passed
                | {
                    "PATH": self._path,
                    "HOME": str(self._folder),
                    "XDG_CONFIG_HOME": str(self._folder),
                    "GIT_DIR": str(self._folder),
                    "GIT_CONFIG_NOSYSTEM": "1",
                    "GIT_CONFIG_GLOBAL": "/dev/null",
                    "GIT_CONFIG_SYSTEM": "/dev/null",
                    "GIT_ATTR_NOSYSTEM": "1",
                    "GIT_ALLOW_PROTOCOL": scheme,
                }
            ),
            seconds=FETCH_SECONDS,
            limit_bytes=LIMIT_BYTES,
        )
        try:
            result = await command.run(str(self._folder), *words)
        except GitMissing as error:
            raise Refused("fetch_failed", "git is not installed where the kernel runs", "install git") from error
        except SpawnTransient as error:
            raise Refused("busy", f"git could not be started now: {error}", "try again") from error
        if not result.ok:
            raise Refused("fetch_failed", f"git {words[0]} failed: {command.why(result)}", _HINT)
        return result
