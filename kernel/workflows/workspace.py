"""Checks of a workflow file beyond its types: workspace, deliveries, tasks, rules and ``output_schema``.

Reads files; git and processes are not used here. Answers are checked against their schema in another process
(kernel.workflows.schema_check): the patterns in a schema are regular expressions of the author of the file, and
matching them can take unlimited time.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from kernel.agents.definition import place_at
from kernel.policy.documents import check_file
from kernel.policy.rule_check import check_rule
from kernel.policy.rules import normal
from kernel.policy.tasks import check_plan, find_cycle
from kernel.source.diagnostics import Diagnostics, Location
from kernel.source.safe_paths import folder_fault, plain_path
from kernel.source.yaml_tree import ListNode, MapNode, Node
from kernel.workflows.templates import expand, variables
from protocol.documents import ENTRY
from protocol.errors import Refused
from protocol.names import DEFAULT_TAG, branch_fault
from protocol.project import ProjectDefinition
from protocol.rules import RULES_LIMIT
from protocol.workflow import ELECT, WorkflowDefinition, Workspace, WorktreeStep


def wants_worktrees(definition: WorkflowDefinition) -> bool:
    """Return whether its agents work in separate working trees, or in a shared one."""
    return isinstance(definition.workspace, Workspace) and definition.workspace.git != "none"


def followed(definition: WorkflowDefinition) -> dict[str, str]:
    """Return the colleague that each agent's tree follows, by agent; others are left out."""
    entries = definition.agents.items()
    return {name: entry.worktree.source for name, entry in entries if entry.worktree is not None}


def tree_demands(definition: WorkflowDefinition) -> Iterator[str]:
    """Yield the demands of its working trees, with commands verbatim."""
    if wants_worktrees(definition):
        yield "its agents work in git working trees: branches awk/... are made in the repository, its files checked out"
    if isinstance(definition.workspace, Workspace):
        yield from (f"each working tree's setup runs: {step.shell}" for step in definition.workspace.setup)
        yield from (f"each working tree's teardown runs: {step.shell}" for step in definition.workspace.teardown)


def delivery_demands(definition: WorkflowDefinition) -> Iterator[str]:
    """Yield the demands of its delivery, with the command verbatim."""
    if definition.deliver is not None:
        into = definition.deliver.into or "the branch that it began from"
        yield f"what its agents did is merged into {into} at the end of a run"
        if definition.deliver.check is not None:
            yield f"before it is merged, this checks it: {definition.deliver.check}"


def check_deliver(definition: WorkflowDefinition, node: Node, problems: Diagnostics) -> None:
    """Report errors in ``deliver`` of ``definition``."""
    deliver = definition.deliver
    if deliver is None:
        return
    if not wants_worktrees(definition):
        message = "needs branches to merge"
        problems.add(place_at(node, "deliver"), "deliver", message, "write workspace: {git: worktree}")
    if deliver.into is not None and (fault := branch_fault(deliver.into)) is not None:
        problems.add(place_at(node, "deliver.into"), "deliver.into", fault, "write the name of a branch: main")
    if deliver.check is not None and not deliver.check.strip():
        problems.add(place_at(node, "deliver.check"), "deliver.check", "the command is empty", "remove it")
    elif deliver.check is not None and any(variables(deliver.check)):
        message = "cannot use variables; the command has environment variables"
        problems.add(
            place_at(node, "deliver.check"), "deliver.check", message, "$AGENT_WORKFLOW, $AGENT_TAG, $AGENT_RUN"
        )
    if deliver.when == "verdict" and definition.verdict is None:
        message = "needs a verdict"
        problems.add(place_at(node, "deliver.when"), "deliver.when", message, "add verdict:, or write when: done")


def check_tasks(definition: WorkflowDefinition, node: Node, problems: Diagnostics) -> None:
    """Report errors in ``tasks`` of ``definition``."""
    if not definition.tasks:
        return
    place = place_at(node, "tasks")
    try:
        if definition.workspace is False:
            text = "cannot be used with workspace: false: the agents share no tasks"
            raise Refused("bad_request", text, "remove workspace: false, or tasks:")
        check_plan(definition.tasks, tuple(definition.agents))
    except Refused as refused:
        problems.add(place, "tasks", refused.text, refused.hint)
        return
    keys = {one.key for one in definition.tasks}
    for index, one in enumerate(definition.tasks):
        unknown = next((name for name in (*one.needs, one.parent) if name is not None and name not in keys), None)
        if unknown is not None:
            problems.add(place, f"tasks[{index}].needs", f"{unknown[:64]!r} is not the key of a task", "add key:")
        if any(variables(text) for text in (one.title, one.text, one.check or "")):
            problems.add(place, f"tasks[{index}]", "tasks cannot use variables", "write the text, or use the kickoff")
    cycle = find_cycle({one.key or "": one.needs for one in definition.tasks})
    if cycle:
        problems.add(place, "tasks", f"these tasks depend on each other: {' -> '.join(cycle)}")


def check_rules(definition: WorkflowDefinition, node: Node, problems: Diagnostics) -> None:
    """Report errors in ``rules`` of ``definition``."""
    specs = tuple(map(normal, definition.rules))
    names = [one.name for one in specs]
    agents = node.get("agents") if isinstance(node, MapNode) else None
    # Include invalid agents: they have their own errors, so report no unknown names for them.
    written = [key.text for key, _ in agents.entries] if isinstance(agents, MapNode) else []
    members = {*definition.agents, *written}
    for index, one in enumerate(specs):
        where = f"rules[{index}]"
        unknown = next((action.invoke for action in one.then if action.invoke not in (None, *names)), None)
        try:
            if definition.workspace is False:
                text = "cannot be used with workspace: false: the agents share no rules"
                raise Refused("bad_request", text, "remove workspace: false or rules: from the file")
            check_rule(one, members)
            if names.index(one.name) < index:
                text = f"rule {one.name} is defined twice"
                raise Refused("bad_request", text, "rename one of them")
            if unknown is not None:
                raise Refused("bad_request", f"rule {unknown[:40]!r} not found", "invoke a rule of this workflow")
        except Refused as refused:
            problems.add(place_at(node, where), where, refused.text, refused.hint)
    if len(specs) > RULES_LIMIT:
        problems.add(place_at(node, "rules"), "rules", f"has more than {RULES_LIMIT} rules")


Keeping = Literal["kept", "memory", "none"]
"""``memory``: messages are deleted after the workflow's end. ``none``: it has no channel."""

FOLDER_VARIABLES: Final = ("workflow.name", "workflow.tag", "workflow.instance")
_HINT: Final = "write a folder relative to the project root, such as data/review"


class WorkspaceSettings(msgspec.Struct, frozen=True):
    """Settings of a workspace; ``folder`` is relative to the root, None without a workspace.

    ``mirror``: messages are also written to ``folder``. ``bound``: messages are kept for later runs.
    """

    keeping: Keeping
    folder: str | None
    mirror: bool
    bound: bool = False


def workspace_settings(definition: WorkflowDefinition, tag: str, project: ProjectDefinition) -> WorkspaceSettings:
    """Return the settings of a valid ``definition`` that is started as ``tag``."""
    workspace = definition.workspace
    if not isinstance(workspace, Workspace):
        return WorkspaceSettings("none", None, mirror=False)
    provider = workspace.provider or project.workspace.provider
    own = workspace.bind or workspace.dir
    if own is None:
        folder = plain_path(f"{project.workspace.base}/{definition.name}/{tag}")
    else:
        folder = plain_path(_filled(own, definition.name, tag))
    bound = workspace.bind is not None
    keeping: Keeping = "memory" if provider == "memory" else "kept"
    return WorkspaceSettings(keeping, folder, mirror=bound or provider == "file", bound=bound)


def check_workspace(
    definition: WorkflowDefinition, node: Node, project: ProjectDefinition, root: Path, problems: Diagnostics
) -> None:
    """Report errors in ``workspace`` of ``definition``."""
    workspace = definition.workspace
    _check_followed(definition, node, problems)
    if workspace is True:
        problems.add(place_at(node, "workspace"), "workspace", "true has no effect", "remove it, or write false")
    if not isinstance(workspace, Workspace):
        return
    provider = workspace.provider or project.workspace.provider
    if workspace.bind is not None and provider == "memory":
        message = "provider: memory stores no messages, so none can be written to a folder"
        problems.add(place_at(node, "workspace.bind"), "workspace.bind", message, "write provider: sqlite, or no bind:")
    if workspace.bind is not None and workspace.dir is not None:
        message = "cannot be combined with bind: both set the workspace folder"
        problems.add(place_at(node, "workspace.dir"), "workspace.dir", message, "remove dir")
    for part in ("setup", "teardown"):
        steps: tuple[WorktreeStep, ...] = getattr(workspace, part)
        where = f"workspace.{part}"
        if steps and workspace.git == "none":
            trouble = "needs working trees"
            problems.add(place_at(node, where), where, trouble, "write git: worktree, or use setup: of the workflow")
        for index, step in enumerate(steps):
            if not step.shell.strip():
                problems.add(place_at(node, where), f"{where}[{index}].shell", "the command is empty")
            elif any(variables(step.shell)):
                trouble = "cannot use variables; the command has environment variables"
                hint = "$AGENT_NAME, $AGENT_NUMBER, $AGENT_WORKFLOW, $AGENT_TAG, $AGENT_PROJECT"
                problems.add(place_at(node, where), f"{where}[{index}].shell", trouble, hint)
    _check_documents(definition, workspace, node, problems)
    for key in ("bind", "dir"):
        path: str | None = getattr(workspace, key)
        fault = None if path is None else _path_fault(path, definition.name, root)
        if fault is not None:
            problems.add(place_at(node, f"workspace.{key}"), f"workspace.{key}", fault, _HINT)


def _check_documents(definition: WorkflowDefinition, workspace: Workspace, node: Node, problems: Diagnostics) -> None:
    named: list[str] = []
    for where, file in (
        ("workspace.document", workspace.document or ENTRY),
        *((f"workspace.documents[{index}]", file) for index, file in enumerate(workspace.documents)),
    ):
        place = place_at(node, where.partition("[")[0])
        try:
            if file in named:
                problems.add(place, where, f"{file} is listed twice", "remove it here")
            named.append(check_file(file, named))
        except Refused as refused:
            problems.add(place, where, refused.text, refused.hint)
    owner = workspace.document_owner
    if owner not in (None, ELECT, *definition.workers):
        where, hint = "workspace.document_owner", f"write one of {', '.join(definition.workers)}, or elect"
        problems.add(place_at(node, where), where, f"{str(owner)[:60]!r} is not an agent of this workflow", hint)


def _check_followed(definition: WorkflowDefinition, node: Node, problems: Diagnostics) -> None:
    workspace = definition.workspace
    for name, source in followed(definition).items():
        where, message, hint = f"agents.{name}.worktree", "", None
        if not isinstance(workspace, Workspace) or workspace.git != "worktree":
            message, hint = "needs separate working trees", "write workspace: {git: worktree}"
        elif source == name:
            message = "an agent cannot follow itself"
        elif source not in definition.workers:
            message, hint = (
                f"{source[:60]!r} is not an agent of this workflow",
                f"use {', '.join(definition.workers)}",
            )
        if message:
            problems.add(place_at(node, where), f"{where}.from", message, hint)


def _filled(path: str, name: str, tag: str) -> str:
    return expand(path, dict(zip(FOLDER_VARIABLES, (name, tag, tag), strict=True)))


def _path_fault(path: str, name: str, root: Path) -> str | None:
    wrong = next((one.name for one in variables(path) if one.name not in FOLDER_VARIABLES), None)
    if wrong is not None:
        return f"a folder name can use workflow.name and workflow.tag, not {wrong[:60]!r}"
    return folder_fault(_filled(path, name, DEFAULT_TAG), root)


SCHEMA_BYTES: Final = 64 * 1024
_WHERE: Final = "output_schema"


def check_output(definition: WorkflowDefinition, node: Node, problems: Diagnostics) -> None:
    """Report errors in the ``output_schema`` of ``definition``."""
    schema = definition.output_schema
    if schema is None:
        return
    place = place_at(node, _WHERE)
    if len(msgspec.json.encode(schema)) > SCHEMA_BYTES:
        problems.add(place, _WHERE, f"is larger than {SCHEMA_BYTES // 1024} KiB")
        return
    for path, reference in _references(schema, ()):
        if not reference.startswith("#"):
            hint = "move it to $defs: no schemas are fetched"
            message = f"{reference[:60]!r} refers to another document"
            problems.add(_place(node, path), _joined(path), message, hint)
    from kernel.workflows.schema_check import faults  # noqa: PLC0415  (imports for 0.2 s what few files need)

    for path, message in faults(schema):
        problems.add(_place(node, path), _joined(path), message[:300], "write JSON Schema, revision 2020-12")


def _references(value: object, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, dict):
        for key, child in value.items():
            if key in ("$ref", "$dynamicRef") and isinstance(child, str):
                yield (*path, key), child
            else:
                yield from _references(child, (*path, str(key)))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _references(child, (*path, index))


def _place(node: Node, path: tuple[str | int, ...]) -> Location:
    """Return the location of ``path`` in the schema, or of the nearest key above it."""
    place = place_at(node, _WHERE)
    current = node.get(_WHERE) if isinstance(node, MapNode) else None
    for key in path:
        if isinstance(current, MapNode) and (child := current.get(str(key))) is not None:
            place, current = current.place_of(str(key)), child
        elif isinstance(current, ListNode) and isinstance(key, int) and key < len(current.items):
            current = current.items[key]
            place = current.place
        else:
            break
    return place


def _joined(path: tuple[str | int, ...]) -> str:
    return _WHERE + "".join(f"[{key}]" if isinstance(key, int) else f".{key[:60]}" for key in path)[:200]
