"""Search for a workflow file: by name (``.workflows/``, project file), path, or in a repository.

A checkout is a folder in the state directory with the plain files of one commit (XF04-XF06). A file beside it has the
digest; its modification time is the last use of the checkout. A ref is resolved once: ``.workflows/remote.lock`` pins
its commit until an update is requested. People commit the lock file; it grants no trust. Pinned commits are never
removed. Fetched files are not executed here.
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
from protocol.names import check_workflow_name, is_name
from protocol.project import ProjectDefinition
from protocol.remote_ref import Remote, is_commit, is_remote


class Checkout(msgspec.Struct, frozen=True):
    """The files of a ``commit`` in ``folder``. ``digest`` is the SHA-256 of all files, names and modes."""

    remote: Remote
    url: str
    commit: str
    digest: str
    folder: Path

    @property
    def demand(self) -> str:
        """Return the text that the user has to trust before the workflow may start."""
        return f"it comes from {self.url}, commit {self.commit}, content sha256:{self.digest}"

    def variables(self) -> Mapping[str, str]:
        """Return the values of the ``source.*`` variables for the texts of the workflow."""
        return {
            "source.dir": str(self.folder),
            "source.url": self.url,
            "source.ref": self.remote.ref,
            "source.commit": self.commit,
        }


DIGEST: Final = ".sha256"
WORKSHOP: Final = "fetching-"
"""Prefix of folders of fetches that are running or were interrupted."""
UNUSED_SECONDS: Final = 30 * 86_400.0
DEAD_SECONDS: Final = 3600.0
"""Age at which a fetch counts as interrupted: it takes minutes at most."""


def digest_file(folder: Path) -> Path:
    """Return the digest file of the commit in ``folder``."""
    return folder.with_name(f"{folder.name}{DIGEST}")


def used(folder: Path) -> float:
    """Record the use of the commit in ``folder``; return the time of use. Raises OSError."""
    mark = digest_file(folder)
    os.utime(mark)
    return mark.stat().st_mtime


def remove(folder: Path) -> None:
    """Remove ``folder``; errors are ignored."""
    shutil.rmtree(folder, ignore_errors=True)


def prune(base: Path, now: float, spared: frozenset[str]) -> None:
    """Remove commits unused for UNUSED_SECONDS, except ``spared``, and interrupted fetches."""
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
_AGAIN: Final = "repeat with --update to pin the current commit"


class LockedCommit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The commit to which a ref is pinned: ``digest`` covers all files of the ``commit``."""

    commit: str
    digest: str


_decode: Final = msgspec.json.Decoder(dict[str, LockedCommit]).decode


def pinned(root: Path, remote: Remote) -> LockedCommit | None:
    """Return the commit to which ``remote`` is pinned in the project at ``root``.

    Raises BadDefinition for an invalid file.
    """
    found = _read(root).get(remote.repository)
    if found is not None and not is_commit(found.commit):
        raise fail(SHOWN, f"{found.commit[:60]!a} is not the id of a commit", _AGAIN, where=remote.repository)
    return found


def commits(root: Path) -> frozenset[str]:
    """Return all commits that are pinned in the project at ``root``. Raises BadDefinition for an invalid file."""
    return frozenset(one.commit for one in _read(root).values())


def pin(root: Path, checkout: Checkout) -> None:
    """Pin the commit of ``checkout``, unless it is pinned. Raises BadDefinition, Refused(fetch_failed)."""
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
        raise fail(SHOWN, f"cannot be read: {error}", "restore it from version control, or remove it") from error


WORKFLOWS: Final = ".workflows"
SUFFIXES: Final = (".yaml", ".yml")


class WorkflowFile(msgspec.Struct, frozen=True):
    """File of a workflow. ``default_name`` is its name, unless the file sets another one.

    ``bound``: the file must not set another name. ``source``: the variables about its origin
    (``source.dir``) with their values; ``checkout``: the fetched commit of a remote workflow.
    """

    shown: str
    default_name: str
    node: Node
    problems: Diagnostics
    bound: bool
    source: Mapping[str, str] = MappingProxyType({})
    checkout: Checkout | None = None


def workflow_names(catalog: Catalog, project: ProjectDefinition) -> tuple[str, ...]:
    """Return the workflow names of the project file and of ``.workflows/*.yaml``, sorted."""
    try:
        files = [entry.stem for entry in (catalog.root / WORKFLOWS).iterdir() if entry.suffix == SUFFIXES[0]]
    except OSError:
        files = []
    return tuple(sorted({*project.workflows, *(stem for stem in files if is_name(stem, check_workflow_name))}))


def find_workflow(
    catalog: Catalog,
    asked: str,
    project: ProjectDefinition,
    cwd: Path | None,
    checkout: Checkout | None = None,
    *,
    confined: bool = False,
) -> WorkflowFile:
    """Return the file for ``asked``: a name, or a path relative to ``cwd`` or the project root.

    A ``confined`` path, and a path in the project file, must be inside the project; other paths may lead anywhere.
    ``checkout`` is the fetched commit of a remote ``asked``. Raises Refused(unknown_workflow), BadDefinition.
    """
    if checkout is not None:
        remote = checkout.remote
        try:
            node, problems = read_tree(inside(checkout.folder, remote.path, str(remote)), str(remote))
        except FileMissing:
            hint = "check the path; symbolic links are not followed"
            raise Refused("unknown_workflow", f"file {remote.path} not found in {remote.repository}", hint) from None
        stem = Path(remote.path).stem
        return WorkflowFile(
            str(remote), stem, node, problems, bound=False, source=checkout.variables(), checkout=checkout
        )
    if is_remote(asked):
        raise Refused(
            "bad_request",
            f"{asked[:100]} is not fetched yet: the first run fetches it",
            "preview it with awk run --dry-run or awk trust",
        )
    if "\0" in asked:
        raise _unknown(catalog, asked, project)
    if "/" in asked or asked.endswith(SUFFIXES):
        path = (cwd or catalog.root) / asked
        # Display a path inside the root as relative, otherwise as given, or by its target.
        real_root, real = os.path.realpath(catalog.root), os.path.realpath(path)
        shown = os.path.relpath(real, real_root) if real.startswith(real_root + os.sep) else asked if cwd else real
        try:
            if confined:
                shown = os.path.relpath(path, catalog.root)  # do not reveal the target of a link
                path = inside(catalog.root, shown, shown)
            node, problems = read_tree(path, shown)
        except FileMissing:
            raise Refused(
                "unknown_workflow", f"file {shown} not found", f"use a path, or the name of a workflow in {WORKFLOWS}"
            ) from None
        return WorkflowFile(shown, path.stem, node, problems, bound=False)
    if not is_name(asked, check_workflow_name):
        raise _unknown(catalog, asked, project)
    shown = project.workflows.get(asked, f"{WORKFLOWS}/{asked}{SUFFIXES[0]}")
    try:
        node, problems = read_tree(inside(catalog.root, shown, shown), shown)
    except FileMissing:
        raise _unknown(catalog, asked, project) from None
    return WorkflowFile(shown, asked, node, problems, bound=True)


def _unknown(catalog: Catalog, asked: str, project: ProjectDefinition) -> Refused:
    names = workflow_names(catalog, project)
    hint = f"{suggest(asked, names, what='available workflows')} (defined in {WORKFLOWS}/<name>.yaml)"
    return Refused("unknown_workflow", f"workflow {asked[:60]!r} not found", hint)
