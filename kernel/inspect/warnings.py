"""What is right in a file and would be refused here, on this machine: for ``validate`` to warn of."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from kernel.agents.bubblewrap import find_bubblewrap
from kernel.agents.definition import place_at
from kernel.agents.providers import CauseError, ModelRejected, resolve
from kernel.source.files import read_tree
from kernel.workflows.load import LoadedWorkflow
from kernel.workflows.tree_terms import wants_worktrees
from protocol.agent import AgentDefinition
from protocol.api.problem import FileError
from protocol.project import ProjectDefinition


def agent_warnings(
    definition: AgentDefinition, project: ProjectDefinition, environ: Mapping[str, str], where: str = ""
) -> Iterator[tuple[str, str]]:
    """Keys of ``definition``, and what this machine lacks for them."""
    try:
        resolve(definition, project, environ)
    except CauseError as error:
        yield f"{where}.model" if where else "model", f"{error.text}; in this shell it is not"
    except ModelRejected:
        pass  # a mistake of the file, told as one
    if definition.sandbox == "on" and find_bubblewrap(environ) is None:
        key = f"{where}.sandbox" if where else "sandbox"
        yield key, "bubblewrap (bwrap) is not installed here: all work of this agent will be refused"


def workflow_warnings(loaded: LoadedWorkflow, root: Path, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The same for a workflow and its inline agents."""
    if wants_worktrees(loaded.definition) and not any((folder / ".git").exists() for folder in (root, *root.parents)):
        yield "workspace.git", "this project is in no git repository: a start will be refused"
    for member in loaded.members:
        if member.ref is None:
            yield from agent_warnings(member.definition, loaded.project, environ, f"agents.{member.name}")


def located(root: Path, path: str, warnings: Iterable[tuple[str, str]]) -> tuple[FileError, ...]:
    """``warnings`` at their places in the file ``path``, which is sound."""
    noted = tuple(warnings)
    if not noted:
        return ()
    node, problems = read_tree(Path(os.path.join(root, path)), path)
    for where, message in noted:
        problems.add(place_at(node, where), where, message)
    return problems.errors
