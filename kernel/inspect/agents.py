"""Agents without a kernel: the list of them, one with its definition, and the check of a text that would be one.

A project file may be wrong: its mistakes are kept, and the agents are looked at anyway. Before an agent is deleted, the
workflows that refer to it are listed, as their files say it.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final

from kernel.agents.catalog import AGENTS, SUFFIX, Catalog
from kernel.agents.project import place_of, read_project
from kernel.agents.sandbox import sandbox_state
from kernel.source.diagnostics import BadDefinition, place_text
from kernel.source.files import tree_of
from kernel.source.yaml_tree import MapNode, Node, ScalarNode
from kernel.workflows.find import find_workflow, workflow_names
from protocol.agent import AgentDefinition
from protocol.agent_files import ContextCounts
from protocol.agent_memory import TIERS
from protocol.api.agents import AgentInfo, AgentList, AgentRow, as_written
from protocol.api.document import FileError
from protocol.errors import Refused
from protocol.inspection import CheckedFile
from protocol.names import NameRejected, check_name
from protocol.project import ProjectDefinition

_NO_PROVIDER: Final = "unknown provider"
_NO_TOOL: Final = "unknown tool"
_NO_AGENT: Final = re.compile(r"there is no agent '([^']*)'")
"""Beginnings of mistakes that may only follow from a project file that could not be read."""


class PartialCatalog(Catalog):
    """A catalog that takes a project file with mistakes for an empty one. ``broken`` has the mistakes."""

    broken: tuple[FileError, ...] = ()
    _empty = ProjectDefinition()

    def project(self) -> ProjectDefinition:
        """The definition in the project file; all defaults where it is wrong."""
        if self.broken:
            return self._empty
        try:
            return super().project()
        except BadDefinition as error:
            self.broken = error.errors
            return self._empty

    def meant(self, errors: tuple[FileError, ...]) -> tuple[FileError, ...]:
        """``errors`` without those that only follow from the project file's."""
        if not self.broken:
            return errors
        # The project file as far as it is YAML.
        tree: Node | None
        try:
            file = read_project(self.root)
            tree = None if file is None else tree_of(file.data, file.name)[0]
        except BadDefinition:
            tree = None
        own: list[FileError] = []
        for error in errors:
            # Would the project file have defined what is missing? Where nobody can tell, it would.
            missed = _NO_AGENT.match(error.message)
            declared = missed is not None and (tree is None or place_of(tree, missed[1]) is not tree.place)
            if not declared and not error.message.startswith((_NO_PROVIDER, _NO_TOOL)):
                own.append(error)
        return tuple(own)


OFFLINE = "stopped"
"""The state of every agent while no kernel runs."""


def agent_list(root: Path) -> AgentList:
    """All agents of the project; a file that is wrong is in state error."""
    survey = PartialCatalog(root, Path.home()).survey()
    rows = [_row(loaded.definition, loaded.path) for loaded in survey.loaded]
    rows += [
        AgentRow(
            name=name,
            model="",
            backend="",
            file=errors[0].path,
            ephemeral=False,
            state="error",
            error=place_text(errors),
        )
        for name, errors in survey.broken
    ]
    return AgentList(agents=tuple(sorted(rows, key=lambda row: row.name)))


def agent_info(root: Path, name: str, environ: Mapping[str, str] = MappingProxyType({})) -> AgentInfo:
    """One agent of the project, as a kernel with ``environ`` would have it.

    Raises Refused (unknown_agent), BadDefinition.
    """
    loaded = Catalog(root, Path.home()).agent(name)
    row = _row(loaded.definition, loaded.path)
    return AgentInfo(
        name=row.name,
        model=row.model,
        backend=row.backend,
        file=row.file,
        ephemeral=False,
        state=OFFLINE,
        reason=None,
        definition=as_written(loaded.definition),
        sandbox=sandbox_state(loaded.definition, environ),
    )


def context_counts(root: Path, state: Path, name: str) -> ContextCounts:
    """Count what the files of the context of the agent ``name`` hold. Raises Refused, BadDefinition."""
    from kernel.agents.personal_context import PersonalContexts  # noqa: PLC0415  (takes the store)

    contexts = PersonalContexts(Catalog(root, Path.home()), state)
    place = contexts.place(name, None)
    kept = contexts.read(place)
    tiers = [one.entry.tier for one in kept.memory]
    done = [item.done for item in kept.todos]
    return ContextCounts(
        dir=place.shown,
        memory={tier: tiers.count(tier) for tier in TIERS},
        notes=len(kept.notes),
        todo={"open": done.count(False), "done": done.count(True)},
    )


def check_agent_text(root: Path, name: str, data: bytes, *, new: bool) -> CheckedFile:
    """Check ``data`` as if it were the file of the agent ``name``; ``new``: there must be none of that name.

    Raises Refused (bad_request for a name that is none, already_exists).
    """
    try:
        check_name(name)
    except NameRejected as error:
        raise Refused("bad_request", str(error)) from error
    catalog = PartialCatalog(root, Path.home())
    if new and catalog.defines(name):
        raise Refused("already_exists", f"there is an agent {name} already", "take another name, or edit it")
    path = f"{AGENTS}/{name}{SUFFIX}" if new else catalog.file_of(name)
    errors: tuple[FileError, ...] = ()
    try:
        catalog.parse(name, path, data, catalog.project())
    except BadDefinition as error:
        errors = catalog.meant(error.errors)
    return CheckedFile(path=path, kind="agent", ok=not errors, errors=errors)


def _row(definition: AgentDefinition, path: str) -> AgentRow:
    return AgentRow(
        name=definition.name,
        model=definition.model,
        backend=definition.backend,
        file=path,
        ephemeral=False,
        state=OFFLINE,
    )


def workflows_using(root: Path, name: str) -> tuple[str, ...]:
    """The files of those workflows that refer to the agent ``name``. One that cannot be read refers to nobody."""
    catalog = PartialCatalog(root, Path.home())
    project = catalog.project()
    found: list[str] = []
    for workflow in workflow_names(catalog, project):
        with suppress(Refused):
            file = find_workflow(catalog, workflow, project, None)
            agents = file.node.get("agents") if isinstance(file.node, MapNode) else None
            entries = [entry for _, entry in agents.entries] if isinstance(agents, MapNode) else []
            refs = [entry.get("ref") for entry in entries if isinstance(entry, MapNode)]
            if any(isinstance(ref, ScalarNode) and ref.text == name for ref in refs):
                found.append(file.shown)
    return tuple(found)
