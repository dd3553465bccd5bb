"""Finds the file of a workflow: by name from ``.workflows/`` or the project file, by path, or in a commit of another
repository.

A checkout is the plain files of one commit in the state directory (XF04-XF06): a folder for each, with its digest
beside it. The digest's file tells when its commit was used last. A ref is looked up once: ``.workflows/remote.lock``
says which commit it stands for from then on, until it is asked to update; people commit that file, and it is believed
only as far as the user trusts it. A commit that the lock names is never removed. Nothing of what is fetched is run
here.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec
import trio

from kernel.agents.catalog import Catalog
from kernel.git.fetch import BadObjects, FetchGit, digest_of_files, files_of, parse_objects, read_files, write_files
from kernel.procs.launcher import Launcher
from kernel.source.diagnostics import BadDefinition, Diagnostics, fail, suggest
from kernel.source.files import FileMissing, inside, read_bytes, read_tree
from kernel.source.safe_paths import open_folder
from kernel.source.yaml_tree import Node
from osfiles.atomic_write import replacing
from protocol.errors import Refused
from protocol.names import NameRejected, check_workflow_name
from protocol.project import ProjectDefinition
from protocol.remote_ref import Remote, RemoteRejected, is_commit, is_remote, parse_remote, repository_url


class Checkout(msgspec.Struct, frozen=True):
    """The files of a ``commit`` in ``folder``. ``digest`` is the SHA-256 of all of them, their names and modes."""

    remote: Remote
    url: str
    commit: str
    digest: str
    folder: Path

    @property
    def demand(self) -> str:
        """The demand that starting it makes on the user's trust."""
        return f"it comes from {self.url}, commit {self.commit}, content sha256:{self.digest}"

    def variables(self) -> Mapping[str, str]:
        """``source.*`` for its texts."""
        return {
            "source.dir": str(self.folder),
            "source.url": self.url,
            "source.ref": self.remote.ref,
            "source.commit": self.commit,
        }


DIGEST: Final = ".sha256"
WORKSHOP: Final = "fetching-"
"""How the folders begin in which somebody fetches now, or died doing so."""
UNUSED_SECONDS: Final = 30 * 86_400.0
DEAD_SECONDS: Final = 3600.0
"""A fetch takes minutes at most."""


def digest_file(folder: Path) -> Path:
    """The file that has the digest of the commit in ``folder``."""
    return folder.with_name(f"{folder.name}{DIGEST}")


def used(folder: Path) -> float:
    """Note that the commit in ``folder`` is used now. Returns that, in the time of the file system. Raises OSError."""
    mark = digest_file(folder)
    os.utime(mark)
    return mark.stat().st_mtime


def remove(folder: Path) -> None:
    """Remove ``folder``, as far as that is possible."""
    shutil.rmtree(folder, ignore_errors=True)


def prune(base: Path, now: float, spared: frozenset[str]) -> None:
    """Remove what was not used for long, but for the commits ``spared``, and what was left by fetches that died."""
    for workshop in base.glob(f"{WORKSHOP}*"):
        if _age(workshop, now) > DEAD_SECONDS:
            remove(workshop)
    for mark in list(base.glob(f"*/*/*{DIGEST}")):
        commit = mark.name.removesuffix(DIGEST)
        if commit not in spared and _age(mark, now) > UNUSED_SECONDS:
            mark.unlink(missing_ok=True)  # first: a folder without its digest is fetched again
            remove(mark.with_name(commit))


def _age(path: Path, now: float) -> float:
    with suppress(OSError):
        return now - path.stat().st_mtime
    return 0.0


FOLDER: Final = ".workflows"
NAME: Final = "remote.lock"
SHOWN: Final = f"{FOLDER}/{NAME}"
_AGAIN: Final = "repeat with --update to pin it anew"


class LockedCommit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The commit that a ref is pinned to: ``digest`` is that of all files of the ``commit``."""

    commit: str
    digest: str


_decode: Final = msgspec.json.Decoder(dict[str, LockedCommit]).decode


def pinned(root: Path, remote: Remote) -> LockedCommit | None:
    """The commit that ``remote`` is pinned to in the project at ``root``.

    Raises BadDefinition where the file is wrong.
    """
    found = _read(root).get(remote.repository)
    if found is not None and not is_commit(found.commit):
        raise fail(SHOWN, f"{found.commit[:60]!a} is not the id of a commit", _AGAIN, where=remote.repository)
    return found


def commits(root: Path) -> frozenset[str]:
    """All commits that are pinned in the project at ``root``. Raises BadDefinition where the file is wrong."""
    return frozenset(one.commit for one in _read(root).values())


def pin(root: Path, checkout: Checkout) -> None:
    """Note what ``checkout`` stood for, if that is not there already. Raises BadDefinition, Refused(fetch_failed)."""
    pins = _read(root)
    new = LockedCommit(commit=checkout.commit, digest=checkout.digest)
    if pins.get(checkout.remote.repository) == new:
        return
    pins[checkout.remote.repository] = new
    try:
        content = msgspec.json.format(msgspec.json.encode(pins, order="sorted")) + b"\n"
        folder = open_folder(str(root), FOLDER, make=True)
        try:
            with replacing(NAME, 0o644, beside=f".{NAME}.new", folder=folder, sync=False) as file:
                file.write(content)
        finally:
            os.close(folder)
    except OSError as error:
        raise Refused(
            "fetch_failed", f"{SHOWN} cannot be written: {error.strerror}", "links are not followed"
        ) from error


def _read(root: Path) -> dict[str, LockedCommit]:
    try:
        return _decode(read_bytes(inside(root, SHOWN, SHOWN), SHOWN))
    except FileMissing:
        return {}
    except msgspec.MsgspecError as error:
        raise fail(SHOWN, f"cannot be read: {error}", "take it from your version control, or remove it") from error


WORKFLOWS: Final = ".workflows"
SUFFIXES: Final = (".yaml", ".yml")


class WorkflowFile(msgspec.Struct, frozen=True):
    """A workflow's file. ``default_name`` is its name unless it says otherwise; ``bound``: it may not say so.

    ``source`` are the variables that tell where it came from (``source.dir``), and their values; ``checkout`` is what
    was fetched, for one that is elsewhere.
    """

    shown: str
    default_name: str
    node: Node
    problems: Diagnostics
    bound: bool
    source: Mapping[str, str] = MappingProxyType({})
    checkout: Checkout | None = None


def workflow_names(catalog: Catalog, project: ProjectDefinition) -> tuple[str, ...]:
    """Names that can be started: those of the project file and of ``.workflows/*.yaml``."""
    try:
        files = [entry.stem for entry in (catalog.root / WORKFLOWS).iterdir() if entry.suffix == SUFFIXES[0]]
    except OSError:
        files = []
    return tuple(sorted({*project.workflows, *(stem for stem in files if _is_name(stem))}))


def find_workflow(
    catalog: Catalog,
    asked: str,
    project: ProjectDefinition,
    cwd: Path | None,
    checkout: Checkout | None = None,
    *,
    confined: bool = False,
) -> WorkflowFile:
    """The file that ``asked`` means: a name, or a path, which ``cwd`` (or else the project's root) is the base of.

    A path given by the owner may lead anywhere; a ``confined`` one, and one in the project file, stays inside.
    ``checkout`` is what ``asked`` was fetched as, if it is elsewhere. Raises Refused(unknown_workflow), BadDefinition.
    """
    if checkout is not None:
        remote = checkout.remote
        try:
            node, problems = read_tree(inside(checkout.folder, remote.path, str(remote)), str(remote))
        except FileMissing:
            hint = "links are not followed there"
            raise Refused("unknown_workflow", f"there is no file {remote.path} in {remote.repository}", hint) from None
        stem = Path(remote.path).stem
        return WorkflowFile(
            str(remote), stem, node, problems, bound=False, source=checkout.variables(), checkout=checkout
        )
    if is_remote(asked):
        raise Refused(
            "bad_request",
            f"{asked[:100]} is not here: it is fetched when it is run",
            "see what it would do: awk run --dry-run, awk trust",
        )
    if "\0" in asked:
        raise _unknown(catalog, asked, project)
    if "/" in asked or asked.endswith(SUFFIXES):
        path = (cwd or catalog.root) / asked
        # How to name path: as seen from the root if it is inside, else as it was given, or by where it leads.
        real_root, real = os.path.realpath(catalog.root), os.path.realpath(path)
        shown = os.path.relpath(real, real_root) if real.startswith(real_root + os.sep) else asked if cwd else real
        try:
            if confined:
                shown = os.path.relpath(path, catalog.root)  # where a link leads is nobody's business
                path = inside(catalog.root, shown, shown)
            node, problems = read_tree(path, shown)
        except FileMissing:
            raise Refused(
                "unknown_workflow", f"there is no file {shown}", "give a path, or a name from .workflows"
            ) from None
        return WorkflowFile(shown, path.stem, node, problems, bound=False)
    if not _is_name(asked):
        raise _unknown(catalog, asked, project)
    shown = project.workflows.get(asked, f"{WORKFLOWS}/{asked}{SUFFIXES[0]}")
    try:
        node, problems = read_tree(inside(catalog.root, shown, shown), shown)
    except FileMissing:
        raise _unknown(catalog, asked, project) from None
    return WorkflowFile(shown, asked, node, problems, bound=True)


def _unknown(catalog: Catalog, asked: str, project: ProjectDefinition) -> Refused:
    names = workflow_names(catalog, project)
    hint = f"{suggest(asked, names, what='workflows here')} (each has a file {WORKFLOWS}/<name>.yaml)"
    return Refused("unknown_workflow", f"there is no workflow {asked[:60]!r}", hint)


def _is_name(text: str) -> bool:
    try:
        check_workflow_name(text)
    except NameRejected:
        return False
    return True


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
