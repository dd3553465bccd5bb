"""Agents without a kernel: which there are, what one is, and whether a text would be one."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from kernel.agents.bubblewrap import sandbox_state
from kernel.agents.catalog import AGENTS, SUFFIX, Catalog
from kernel.inspect.tolerant import TolerantCatalog
from kernel.source.problems import BadDefinition, place_text
from protocol.agent import AgentDefinition
from protocol.api.agents import AgentInfo, AgentList, AgentRow, as_written
from protocol.api.problem import FileError
from protocol.errors import Refused
from protocol.inspection import CheckedFile, Validation
from protocol.names import NameRejected, check_name

OFFLINE = "stopped"
"""The state of every agent while no kernel runs."""


def listing(root: Path) -> AgentList:
    """All agents of the project; a file that is wrong is in state error."""
    survey = TolerantCatalog(root).survey()
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


def info(root: Path, name: str, environ: Mapping[str, str] = MappingProxyType({})) -> AgentInfo:
    """One agent of the project, as a kernel with ``environ`` would have it.

    Raises Refused (unknown_agent), BadDefinition.
    """
    loaded = Catalog(root).agent(name)
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


def judge(root: Path, name: str, data: bytes, *, new: bool) -> Validation:
    """What would be wrong if ``data`` were the file of the agent ``name``; ``new``: there must be none of that name.

    Raises Refused (bad_request for a name that is none, already_exists).
    """
    try:
        check_name(name)
    except NameRejected as error:
        raise Refused("bad_request", str(error)) from error
    catalog = TolerantCatalog(root)
    if new and name in catalog.names():
        raise Refused("already_exists", f"there is an agent {name} already", "take another name, or edit it")
    path = f"{AGENTS}/{name}{SUFFIX}" if new else catalog.file_of(name)
    errors = catalog.meant(_errors(catalog, name, path, data))
    return Validation(files=(CheckedFile(path=path, kind="agent", ok=not errors, errors=errors),))


def _errors(catalog: TolerantCatalog, name: str, path: str, data: bytes) -> tuple[FileError, ...]:
    try:
        catalog.parse(name, path, data, catalog.project())
    except BadDefinition as error:
        return error.errors
    return ()


def _row(definition: AgentDefinition, path: str) -> AgentRow:
    return AgentRow(
        name=definition.name,
        model=definition.model,
        backend=definition.backend,
        file=path,
        ephemeral=False,
        state=OFFLINE,
    )
