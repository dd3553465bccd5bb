"""Finds the file of a workflow: by name from ``.workflows/`` or the project file, or by path."""

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from kernel.agents.catalog import Catalog
from kernel.source.diagnostics import Diagnostics, suggest
from kernel.source.files import FileMissing, inside, read_tree
from kernel.source.yaml_tree import Node
from kernel.workflows.checkouts import Checkout
from protocol.errors import Refused
from protocol.names import NameRejected, check_workflow_name
from protocol.project import ProjectDefinition
from protocol.remote_ref import is_remote

WORKFLOWS: Final = ".workflows"
SUFFIXES: Final = (".yaml", ".yml")


class Found(msgspec.Struct, frozen=True):
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
) -> Found:
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
        return Found(str(remote), stem, node, problems, bound=False, source=checkout.variables(), checkout=checkout)
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
        return Found(shown, path.stem, node, problems, bound=False)
    if not _is_name(asked):
        raise _unknown(catalog, asked, project)
    shown = project.workflows.get(asked, f"{WORKFLOWS}/{asked}{SUFFIXES[0]}")
    try:
        node, problems = read_tree(inside(catalog.root, shown, shown), shown)
    except FileMissing:
        raise _unknown(catalog, asked, project) from None
    return Found(shown, asked, node, problems, bound=True)


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
