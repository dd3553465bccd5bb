"""What is right in a file and would be refused here, on this machine, or lead nowhere: for ``validate`` to warn of."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from kernel.agents.bubblewrap import find_bubblewrap, home_fault
from kernel.agents.catalog import Catalog
from kernel.agents.definition import place_at
from kernel.agents.providers import CauseError, ModelRejected, resolve
from kernel.agents.servers import Servers, left_out
from kernel.agents.trust import Kept, missing_consent, schedule_units
from kernel.source.files import read_tree
from kernel.source.spelling import suggest
from kernel.workflows.find import workflow_names
from kernel.workflows.interpolate import variables
from kernel.workflows.load import LoadedWorkflow
from kernel.workflows.prepare import kickoff_names
from kernel.workflows.tree_terms import wants_worktrees
from protocol.agent import AgentDefinition
from protocol.api.problem import FileError
from protocol.project import ProjectDefinition
from protocol.tools import BUILT_IN, CONTEXT_TOOLS, SERVER_PREFIX


def agent_warnings(
    definition: AgentDefinition, project: ProjectDefinition, root: Path, environ: Mapping[str, str], where: str = ""
) -> Iterator[tuple[str, str]]:
    """Keys of ``definition``, and what this machine lacks for them."""
    try:
        resolve(definition, project, environ)
    except CauseError as error:
        yield _key(where, "model"), f"{error.text}; in this shell it is not"
    except ModelRejected:
        pass  # a mistake of the file, told as one
    yield from ((_key(where, key), message) for key, message in _server_warnings(definition.mcp_servers, root))
    if definition.sandbox == "on":
        missing = "bubblewrap (bwrap) is not installed here" if find_bubblewrap(environ) is None else None
        fault = missing or home_fault(root, environ)
        if fault is not None:
            yield (
                _key(where, "sandbox"),
                f"{fault.removeprefix('sandbox: on, but ')}: all work of this agent will be refused",
            )
    yield from ((_key(where, key), message) for key, message in _unknown_tools(definition, project))
    prompt = definition.prompt
    file = prompt.system_file and Catalog(root).system_text(definition, prompt.system_file)
    texts = {"prompt.system": prompt.system, "prompt.system_file": file, "prompt.append": prompt.append}
    yield from ((_key(where, key), message) for key, message in _unreplaced(texts))
    wakes_in = ((definition.schedule and definition.schedule.workspace) or "").partition(":")[0]
    if wakes_in and wakes_in not in workflow_names(Catalog(root), project):
        message = f"there is no workflow {wakes_in} here: unless one of that name runs, it wakes in its personal space"
        yield _key(where, "schedule.workspace"), message


def _unknown_tools(definition: AgentDefinition, project: ProjectDefinition) -> Iterator[tuple[str, str]]:
    """Calls of a mock script that nobody answers."""
    called = {action.tool for rule in definition.mock or () for action in rule.do if action.tool is not None}
    called = {name for name in called if not name.startswith(SERVER_PREFIX)} - BUILT_IN.keys() - project.tools.keys()
    known = (*BUILT_IN, *project.tools, *CONTEXT_TOOLS)
    for name in sorted(called - CONTEXT_TOOLS):
        yield "mock", f"there is no tool {name[:60]!r}, so the call will fail; {suggest(name, known, what='there are')}"


def schedule_warnings(definition: AgentDefinition, kept: Kept | None) -> Iterator[tuple[str, str]]:
    """That a schedule does not run where it is not among what is ``kept``; None: not asked."""
    if kept is not None and missing_consent(schedule_units(definition), kept):
        yield "schedule", f"it does not run until you trust it (look at it and keep it: awk trust {definition.name})"


def _unreplaced(texts: Mapping[str, str | None]) -> Iterator[tuple[str, str]]:
    """Prompts that name variables; it is no mistake, for a prompt may well be about such braces."""
    for key, text in texts.items():
        named = next((one.written for one in variables(text or "") if one.is_name), None)
        if named is not None:
            yield key, f"{named[:60]} reaches the model as it is written: nothing is replaced in prompts"


def _server_warnings(servers: Servers, root: Path) -> Iterator[tuple[str, str]]:
    for name, server in servers.items():
        words = (server.command or "").split()
        if len(words) > 1 and not os.path.exists(root / str(server.command)):
            args = ", ".join(json.dumps(word) for word in (*words[1:], *server.args))
            message = f"is the name of one program, spaces included: write command: {words[0]}, args: [{args}]"
            yield f"mcp_servers.{name}.command", message
    yield from (("mcp_servers", message) for message in left_out(servers, root))


def _key(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def workflow_warnings(loaded: LoadedWorkflow, root: Path, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The same for a workflow and its inline agents."""
    if wants_worktrees(loaded.definition) and not any((folder / ".git").exists() for folder in (root, *root.parents)):
        yield "workspace.git", "this project is in no git repository: a start will be refused"
    if loaded.definition.kickoff and loaded.definition.workspace is not False and not kickoff_names(loaded.definition):
        yield "kickoff", "mentions none of the agents, so nobody begins: a run will be refused"
    for member in loaded.members:
        if member.ref is None:
            yield from agent_warnings(member.definition, loaded.project, root, environ, f"agents.{member.name}")
        elif member.ref.prompt is not None:
            yield from _unreplaced({f"agents.{member.name}.prompt.append": member.ref.prompt.append})


def located(root: Path, path: str, warnings: Iterable[tuple[str, str]]) -> tuple[FileError, ...]:
    """``warnings`` at their places in the file ``path``, which is sound."""
    noted = tuple(warnings)
    if not noted:
        return ()
    node, problems = read_tree(Path(os.path.join(root, path)), path)
    for where, message in noted:
        problems.add(place_at(node, where), where, message)
    return problems.errors
