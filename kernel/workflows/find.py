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
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from kernel.agents.catalog import Catalog
from kernel.source.diagnostics import Diagnostics, fail, suggest
from kernel.source.files import FileMissing, inside, read_bytes, read_tree
from kernel.source.safe_paths import open_folder
from kernel.source.yaml_tree import Node
from osfiles.atomic_write import replacing
from osfiles.safe_open import closing_descriptor
from protocol.errors import Refused
from protocol.names import NameRejected, check_workflow_name
from protocol.project import ProjectDefinition
from protocol.remote_ref import Remote, is_commit, is_remote


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
        with (
            closing_descriptor(open_folder(str(root), FOLDER, make=True)) as folder,
            replacing(NAME, 0o644, beside=f".{NAME}.new", folder=folder, sync=False) as file,
        ):
            file.write(content)
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
