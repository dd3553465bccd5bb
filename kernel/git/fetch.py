"""Retrieval of the files of one commit of another repository, without a checkout.

Git fetches the commit into an empty folder; its files are extracted here. No hook, prompt, redirect,
submodule or configuration affects a fetch (XF04, XF05). ``git checkout`` is not used, because it runs
programs that ``.gitattributes`` and the configuration name; here blobs are only bytes.

If anonymous access fails, the fetch is repeated with the credential of the user's own git for that host, which is used
for one request. To obtain it, git reads the configuration of the user and the system, but never that of a folder.
"""

import base64
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from kernel.agents.environment import worker_environment
from kernel.git.runner import SETTINGS, GitCommand, GitMissing, Setting
from kernel.procs.command import CommandResult
from kernel.procs.launcher import Launcher
from kernel.procs.spec import SpawnTransient
from protocol.errors import Refused

CREDENTIAL_SECONDS: Final = 20.0
CREDENTIAL_BYTES: Final = 64 * 1024

_CREDENTIAL_PASSED: Final = (
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
"""Variables that locate the data of credential helpers: git's and gh's files, keyrings, agents."""

CREDENTIAL_SETTINGS: Final[tuple[Setting, ...]] = (("safe.bareRepository", "explicit"),)
"""Settings of ``git credential``: the current folder must not be used as a repository."""
SILENT: Final[Mapping[str, str]] = {"GCM_INTERACTIVE": "never"}
"""Variables that ``git credential`` gets in addition to those of every git call."""


def variables(environ: Mapping[str, str], path: str, folder: str) -> dict[str, str]:
    """Return the environment to run ``git credential`` in ``folder``, isolated from the folders above it."""
    passed = {name: environ[name] for name in _CREDENTIAL_PASSED if environ.get(name)}
    return {**passed, **SILENT, "PATH": path, "GIT_CEILING_DIRECTORIES": folder.rpartition("/")[0] or "/"}


async def credential(git: GitCommand, folder: str, url: str) -> str | None:
    """Return the value of an ``Authorization`` header for ``url``, as the user's git would send it, or None.

    Raises GitMissing, SpawnTransient. Cancellation kills the helper's process tree.
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
FETCH_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of all files of a commit."""

_PASSED: Final = ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR")
_SETTINGS: Final[tuple[Setting, ...]] = (
    *SETTINGS,
    ("core.symlinks", "false"),
    ("credential.helper", ""),
    ("fetch.unpackLimit", "1"),
)
_SCHEMES: Final = frozenset({"https", "http"})
_HINT: Final = "check the name; a private repository needs a credential in your git configuration: gh auth setup-git"


class FetchGit:
    """Git commands in ``folder``, an empty directory for their exclusive use."""

    def __init__(
        self, folder: Path, *, launcher: Launcher, environ: Mapping[str, str], own_bin: frozenset[str]
    ) -> None:
        self._folder = folder
        self._launcher = launcher
        self._path = worker_environment(environ, own_bin=own_bin)["PATH"]
        self._environ = environ

    async def fetch(self, url: str, what: str) -> str:
        """Fetch ``what`` (a ref or a commit) of ``url`` without its history, and return the commit.

        Raises Refused (fetch_failed).
        """
        scheme = url.partition("://")[0]
        if scheme not in _SCHEMES:
            raise Refused("fetch_failed", f"{url[:100]!a} cannot be fetched: only https and http are supported")
        await self._run(scheme, "init", "--quiet", "--bare", "--template=", "--", ".")  # no hooks of a template
        options = ("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance")
        words = ("fetch", *options, "--", url, what)
        try:
            await self._run(scheme, *words)
        except Refused as refused:
            known = await self._credential(url) if refused.code == "fetch_failed" else None  # after anonymous access
            if known is None:
                raise
            await self._run(scheme, *words, setting=(f"http.{url}.extraHeader", f"Authorization: {known}"))
        found = await self._run(scheme, "rev-parse", "--verify", "--quiet", "--end-of-options", "FETCH_HEAD^{commit}")
        return found.stdout.decode("ascii", "replace").strip()

    async def _credential(self, url: str) -> str | None:
        folder = str(self._folder)
        command = GitCommand(
            launcher=self._launcher,
            path=self._path,
            settings=CREDENTIAL_SETTINGS,
            variables=variables(self._environ, self._path, folder),
            seconds=CREDENTIAL_SECONDS,
            limit_bytes=CREDENTIAL_BYTES,
        )
        try:
            return await credential(command, folder, url)
        except (GitMissing, SpawnTransient):
            return None

    async def objects(self) -> bytes:
        """Return all fetched objects in the format of ``cat-file --batch``. Raises Refused(fetch_failed)."""
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
            limit_bytes=FETCH_BYTES,
        )
        try:
            result = await command.run(str(self._folder), *words)
        except GitMissing as error:
            raise Refused("fetch_failed", "git not found on the kernel's PATH", "install git") from error
        except SpawnTransient as error:
            raise Refused("busy", f"git could not be started: {error}", "try again") from error
        if not result.ok:
            raise Refused("fetch_failed", f"git {words[0]} failed: {command.why(result)}", _HINT)
        return result


MAX_FILES: Final = 10_000
MAX_ENTRIES: Final = 50_000
"""Maximum number of entries in all folders; a folder that occurs twice counts twice."""
MAX_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of all files; content that occurs twice counts twice."""
MAX_DEPTH: Final = 64

_FILE, _PROGRAM, _TREE = b"100644", b"100755", b"40000"
_OLD_FILE: Final = b"100664"
_HASH_BYTES: Final = 20


class BadObjects(ValueError):
    """Git's output contains no usable commit. The text has the reason."""


class GitObject(NamedTuple):
    """An object: ``blob``, ``tree``, ``commit`` or ``tag``, with its bytes."""

    kind: bytes
    data: bytes


class File(NamedTuple):
    """A regular file of a commit. ``path`` is relative, with slashes, and stays inside the tree."""

    path: bytes
    program: bool
    data: bytes


def parse_objects(output: bytes) -> dict[str, GitObject]:
    """Return git's ``cat-file --batch`` output as objects by name. Raises BadObjects."""
    found: dict[str, GitObject] = {}
    position = 0
    while position < len(output):
        end = output.find(b"\n", position)
        words = output[position:end].split(b" ") if end >= 0 else []
        if len(words) != 3 or not words[2].isdigit():
            raise BadObjects("git's output cannot be parsed")
        start, size = end + 1, int(words[2])
        found[words[0].decode("ascii", "replace")] = GitObject(words[1], output[start : start + size])
        position = start + size + 1
    return found


def files_of(commit: str, objects: Mapping[str, GitObject]) -> tuple[File, ...]:
    """Return the regular files of ``commit`` sorted by path; links and submodules are left out.

    Raises BadObjects for missing objects, invalid names, or too much data.
    """
    head = _object(commit, b"commit", objects).data.split(b"\n", 1)[0]
    if not head.startswith(b"tree "):
        raise BadObjects("the commit has no tree")
    found: list[File] = []
    size = 0
    for file in _Walk(objects).files(head[5:].decode("ascii", "replace"), b"", 0):
        found.append(file)
        size += len(file.data)
        if len(found) > MAX_FILES:
            raise BadObjects(f"the commit has more than {MAX_FILES} files")
        if size > MAX_BYTES:
            raise BadObjects(f"the commit has more than {MAX_BYTES // 2**20} MiB")
    return tuple(sorted(found))


def digest_of_files(files: tuple[File, ...]) -> str:
    """Return the SHA-256 of ``files`` in hex: names, modes and content."""
    total = hashlib.sha256()
    for file in files:
        total.update(b"%d %d:%b" % (file.program, len(file.path), file.path))
        total.update(hashlib.sha256(file.data).digest())
    return total.hexdigest()


def write_files(files: tuple[File, ...], folder: Path) -> None:
    """Write ``files`` to the new directory ``folder``, read-only. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True)
    for file in files:
        path = os.path.join(os.fsencode(folder), file.path)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        mode = 0o500 if file.program else 0o400
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        with open(descriptor, "wb") as out:
            out.write(file.data)


def read_files(folder: Path) -> tuple[File, ...]:
    """Return the files in ``folder`` as they are now, for a comparison with what was written.

    Raises OSError; BadObjects if the folder contains other types than files and folders.
    """
    root = os.fsencode(folder)
    return tuple(sorted(_read(root, b"")))


def _read(root: bytes, below: bytes) -> Iterator[File]:
    with os.scandir(os.path.join(root, below)) as entries:
        for entry in entries:
            path = os.path.join(below, entry.name)
            if entry.is_dir(follow_symlinks=False):
                yield from _read(root, path)
                continue
            descriptor = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:
                mode = os.fstat(descriptor).st_mode
                if not stat.S_ISREG(mode):
                    raise BadObjects("the folder contains an entry that is not a file")
                yield File(path, bool(mode & 0o100), file.read())


class _Walk:
    """Walk over the folders of a commit. Its steps are limited: nested folders can represent billions of entries."""

    def __init__(self, objects: Mapping[str, GitObject]) -> None:
        self._objects = objects
        self._steps = 0

    def files(self, tree: str, above: bytes, depth: int) -> Iterator[File]:
        if depth > MAX_DEPTH:
            raise BadObjects(f"folders are nested more than {MAX_DEPTH} deep")
        for mode, name, hexadecimal in _entries(_object(tree, b"tree", self._objects).data):
            self._steps += 1
            if self._steps > MAX_ENTRIES:
                raise BadObjects(f"the folders have more than {MAX_ENTRIES} entries")
            path = above + name
            if mode == _TREE:
                yield from self.files(hexadecimal, path + b"/", depth + 1)
            elif mode in (_FILE, _PROGRAM, _OLD_FILE):
                yield File(path, mode == _PROGRAM, _object(hexadecimal, b"blob", self._objects).data)


def _entries(data: bytes) -> Iterator[tuple[bytes, bytes, str]]:
    position = 0
    while position < len(data):
        end = data.find(b"\0", position)
        mode, space, name = data[position:end].partition(b" ")
        stop = end + 1 + _HASH_BYTES
        if end < 0 or not space or stop > len(data):
            raise BadObjects("a folder cannot be read")
        if not (name not in (b"", b".", b"..") and b"/" not in name and name.lower() != b".git"):
            raise BadObjects(f"{name[:60]!r} is not the name of a file")
        yield mode, name, data[end + 1 : stop].hex()
        position = stop


def _object(hexadecimal: str, kind: bytes, objects: Mapping[str, GitObject]) -> GitObject:
    found = objects.get(hexadecimal)
    if found is None or found.kind != kind:
        raise BadObjects(f"the {kind.decode()} {hexadecimal[:40]!a} is missing")
    return found
