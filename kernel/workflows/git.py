"""git, as little of it as will do: fetch one commit into an empty repository and print its objects.

It runs in a keeper with an environment of its own. No configuration of the user or the system, hook, prompt, other
transport, redirect or submodule has a say (faults XF04, XF05, T50). What nobody may read without a name is asked for
once more, with the password that the user's own git has for that host, if it has one.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kernel.agents.environment import worker_environment
from kernel.procs.command import CommandResult
from kernel.procs.errors import SpawnTransient
from kernel.procs.launcher import Launcher
from kernel.workflows import git_credential
from kernel.workflows.git_command import SETTINGS, GitCommand, GitMissing, Setting
from protocol.errors import Refused

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
        await self._fetch(scheme, url, what)
        found = await self._run(scheme, "rev-parse", "--verify", "--quiet", "--end-of-options", "FETCH_HEAD^{commit}")
        return found.stdout.decode("ascii", "replace").strip()

    async def _fetch(self, scheme: str, url: str, what: str) -> None:
        options = ("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance")
        words = ("fetch", *options, "--", url, what)
        try:
            await self._run(scheme, *words)
        except Refused as refused:
            known = await self._credential(url) if refused.code == "fetch_failed" else None
            if known is None:
                raise
            await self._run(scheme, *words, setting=(f"http.{url}.extraHeader", f"Authorization: {known}"))

    async def _credential(self, url: str) -> str | None:
        """What the user's git would say to be let in, in an environment of its own: it is their configuration."""
        folder = str(self._folder)
        command = GitCommand(
            launcher=self._launcher,
            path=self._path,
            settings=git_credential.SETTINGS,
            variables=git_credential.variables(self._environ, self._path, folder),
            seconds=git_credential.SECONDS,
            limit_bytes=git_credential.LIMIT_BYTES,
        )
        try:
            return await git_credential.credential(command, folder, url)
        except (GitMissing, SpawnTransient):
            return None

    async def objects(self) -> bytes:
        """Every object there is, as ``cat-file --batch`` prints them. Raises Refused(fetch_failed)."""
        return (await self._run("none", "cat-file", "--batch-all-objects", "--batch")).stdout

    async def _run(self, scheme: str, *words: str, setting: Setting | None = None) -> CommandResult:
        """``setting`` is for this address alone."""
        command = GitCommand(
            launcher=self._launcher,
            path=self._path,
            settings=(*_SETTINGS, (f"protocol.{scheme}.allow", "always"), *((setting,) if setting else ())),
            variables=self._variables(scheme),
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

    def _variables(self, scheme: str) -> dict[str, str]:
        passed = {name: self._environ[name] for name in _PASSED if self._environ.get(name)}
        return passed | {
            "PATH": self._path,
            "HOME": str(self._folder),
            "XDG_CONFIG_HOME": str(self._folder),
            "GIT_DIR": str(self._folder),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_SYSTEM": "/dev/null",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_ALLOW_PROTOCOL": scheme,
            "GIT_LFS_SKIP_SMUDGE": "1",
        }
