"""Remote workflows: a ref is resolved to the plain files of one commit, stored in the state directory (XF04-XF06).

A ref is resolved once; then the lock file of the project pins its commit until an update is requested. Fetched files
are neither executed nor trusted here (kernel.agents.trust).
"""

import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import trio

from kernel.git.fetch import BadObjects, FetchGit, digest_of_files, files_of, parse_objects, read_files, write_files
from kernel.procs.launcher import Launcher
from kernel.source.diagnostics import BadDefinition, fail
from kernel.workflows.find import SHOWN, WORKSHOP, Checkout, commits, digest_file, pinned, prune, remove, used
from protocol.errors import Refused
from protocol.remote_ref import Remote, RemoteRejected, is_commit, parse_remote, repository_url

REMOTES: Final = "remotes"
"""The folder in the state directory."""


class Remotes:
    """The remote workflows of one project. One is fetched at a time."""

    def __init__(
        self, state: Path, root: Path, *, launcher: Launcher, environ: Mapping[str, str], own_bin: frozenset[str]
    ) -> None:
        self._folder = state / REMOTES
        self._root = root
        self._launcher = launcher
        self._environ = environ
        self._own_bin = own_bin
        self._turn = trio.Lock()

    async def checkout(self, asked: str, *, update: bool = False) -> Checkout:
        """Return the files of ``asked``, fetched unless they are stored.

        Raises Refused (bad_request, fetch_failed, busy), BadDefinition for an invalid lock. Cancellation kills git's
        tree.
        """
        try:
            remote = parse_remote(asked)
            url = repository_url(remote, self._environ)
        except RemoteRejected as error:
            raise Refused("bad_request", str(error), error.hint) from error
        async with self._turn:
            pin = None if update else await trio.to_thread.run_sync(pinned, self._root, remote)
            what = pin.commit if pin else remote.ref
            found: Checkout | None = None
            if is_commit(what):
                found = await trio.to_thread.run_sync(_read_commit, remote, url, what, self._place(remote, what))
            found = found or await self._fetch(remote, url, what)
            await trio.to_thread.run_sync(_tidy, self._folder, self._root, found)
        if pin is not None and (found.commit, found.digest) != (pin.commit, pin.digest):
            message = f"the content of {found.commit} does not match its pinned digest"
            raise fail(SHOWN, message, "find the reason before you remove the entry", where=remote.repository)
        return found

    async def _fetch(self, remote: Remote, url: str, what: str) -> Checkout:
        await trio.to_thread.run_sync(partial(self._folder.mkdir, mode=0o700, parents=True, exist_ok=True))
        workshop = Path(await trio.to_thread.run_sync(partial(tempfile.mkdtemp, prefix=WORKSHOP, dir=self._folder)))
        try:
            git = FetchGit(workshop, launcher=self._launcher, environ=self._environ, own_bin=self._own_bin)
            commit = await git.fetch(url, what)
            if not is_commit(commit) or (is_commit(what) and commit != what):
                raise Refused("fetch_failed", f"{url} returned another commit than requested: {commit[:40]!a}")
            objects = await git.objects()
            return await trio.to_thread.run_sync(
                _take, remote, url, commit, objects, self._place(remote, commit), workshop / "files"
            )
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(remove, workshop)

    def _place(self, remote: Remote, commit: str) -> Path:
        # The hash is unique; the names above it only help readers.
        return self._folder / remote.owner.lower() / remote.repo.lower() / commit


def _read_commit(remote: Remote, url: str, commit: str, folder: Path) -> Checkout | None:
    try:
        digest = digest_file(folder).read_text("ascii").strip()
        return Checkout(remote, url, commit, digest, folder) if digest_of_files(read_files(folder)) == digest else None
    except (OSError, ValueError):
        return None


def _take(remote: Remote, url: str, commit: str, output: bytes, folder: Path, made: Path) -> Checkout:
    try:
        files = files_of(commit, parse_objects(output))
        digest = digest_of_files(files)
        write_files(files, made)
        remove(folder)
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        digest_file(folder).write_text(digest, "ascii")
        made.rename(folder)
    except BadObjects as error:
        raise Refused("fetch_failed", f"{remote} cannot be used: {error}") from error
    except OSError as error:
        raise Refused("fetch_failed", f"{remote} cannot be written: {error.strerror}", f"check {folder}") from error
    return Checkout(remote, url, commit, digest, folder)


def _tidy(base: Path, root: Path, found: Checkout) -> None:
    """Record the use of ``found``, and remove commits that were unused for long. Errors are ignored."""
    with suppress(OSError, BadDefinition):
        prune(base, used(found.folder), commits(root) | {found.commit})
