"""Remote workflows: a ref becomes plain files of one commit, stored in the state directory (XF04-XF06).

A ref is looked up once; then the project's lock names its commit until an update is requested. Fetched files are
neither run nor trusted here (kernel.agents.trust).
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
        """The files that ``asked`` names, fetched unless they are here.

        Raises Refused (bad_request, fetch_failed, busy), BadDefinition for a lock that is wrong. Cancellation kills
        git's tree.
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
            message = f"the content of {found.commit} is not what it was pinned with"
            raise fail(SHOWN, message, "find out why before you remove the entry", where=remote.repository)
        return found

    async def _fetch(self, remote: Remote, url: str, what: str) -> Checkout:
        await trio.to_thread.run_sync(partial(self._folder.mkdir, mode=0o700, parents=True, exist_ok=True))
        workshop = Path(await trio.to_thread.run_sync(partial(tempfile.mkdtemp, prefix=WORKSHOP, dir=self._folder)))
        try:
            git = FetchGit(workshop, launcher=self._launcher, environ=self._environ, own_bin=self._own_bin)
            commit = await git.fetch(url, what)
            if not is_commit(commit) or (is_commit(what) and commit != what):
                raise Refused("fetch_failed", f"{url} gave another commit than was asked for: {commit[:40]!a}")
            objects = await git.objects()
            return await trio.to_thread.run_sync(
                _take, remote, url, commit, objects, self._place(remote, commit), workshop / "files"
            )
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(remove, workshop)

    def _place(self, remote: Remote, commit: str) -> Path:
        """Commits are the same wherever they come from; the names above only help people who look."""
        return self._folder / remote.owner.lower() / remote.repo.lower() / commit


def _read_commit(remote: Remote, url: str, commit: str, folder: Path) -> Checkout | None:
    try:
        digest = digest_file(folder).read_text("ascii").strip()
        return Checkout(remote, url, commit, digest, folder) if digest_of_files(read_files(folder)) == digest else None
    except (OSError, ValueError):
        return None


def _take(remote: Remote, url: str, commit: str, output: bytes, folder: Path, made: Path) -> Checkout:
    """Write the files of ``commit``, in place of what may be there and is not right. Raises Refused(fetch_failed)."""
    try:
        files = files_of(commit, parse_objects(output))
        digest = digest_of_files(files)
        write_files(files, made)
        remove(folder)
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        digest_file(folder).write_text(digest, "ascii")
        made.rename(folder)
    except BadObjects as error:
        raise Refused("fetch_failed", f"{remote} cannot be taken: {error}") from error
    except OSError as error:
        raise Refused("fetch_failed", f"{remote} cannot be written: {error.strerror}", f"see {folder}") from error
    return Checkout(remote, url, commit, digest, folder)


def _tidy(base: Path, root: Path, found: Checkout) -> None:
    """Note that ``found`` is used, and remove what nobody used for long. What cannot be removed stays."""
    with suppress(OSError, BadDefinition):
        prune(base, used(found.folder), commits(root) | {found.commit})
