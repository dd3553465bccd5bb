"""``awk config``: an effective definition as plain values, and the origin of each value.

A mock script is one value: its short forms have been expanded, so its parts have no line in the file.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from kernel.agents.catalog import AGENTS, Catalog
from kernel.agents.models import ALIASES, full_model, models_of
from kernel.agents.project import PROJECT_FILES, place_of, read_project
from kernel.agents.providers import MOCK, calls_models, route
from kernel.source.convert import model_of
from kernel.source.diagnostics import BadDefinition
from kernel.source.files import FileMissing, read_tree, tree_of
from kernel.source.scalars import Quantity
from kernel.source.yaml_tree import ListNode, MapNode, Node, ScalarNode
from kernel.workflows.find import WORKFLOWS, workflow_names
from kernel.workflows.load import WORKFLOW_SHAPES, LoadedWorkflow, load_workflow
from kernel.workflows.members import WorkflowMember
from protocol.agent import AgentDefinition, Rule
from protocol.agent_layout import HOME, MEMORY
from protocol.errors import Refused
from protocol.inspection import Kind, Resolution
from protocol.names import split_space
from protocol.project import ProjectDefinition
from protocol.remote_ref import is_remote

DEFAULT: Final = "default"


class Layer(msgspec.Struct, frozen=True):
    """Part of a file that sets a value. ``note``: why the file applies."""

    file: str
    node: Node
    note: str = ""

    def under(self, key: str) -> "Layer | None":
        """Return the layer below ``key``; None if the file does not have it."""
        child = self.node.get(key) if isinstance(self.node, MapNode) else None
        return None if child is None else Layer(self.file, child, self.note)

    def item(self, index: int) -> "Layer | None":
        """Return the layer at ``index`` of a list; None if there is no list or no such item."""
        items = self.node.items if isinstance(self.node, ListNode) else ()
        return Layer(self.file, items[index], self.note) if index < len(items) else None

    @property
    def origin(self) -> str:
        """Return ``file:line`` and the note, for users."""
        return f"{self.file}:{self.node.place.line}{f' ({self.note})' if self.note else ''}"


class Resolving(msgspec.Struct):
    """Converter to plain data that records the origin of each value (file and line) in ``origins``,
    by the path of the value. ``hidden``: keys that files must not have."""

    hidden: frozenset[tuple[type, str]] = frozenset()
    origins: dict[str, str] = msgspec.field(default_factory=dict[str, str])

    def struct(
        self, value: msgspec.Struct, layers: Sequence[Layer], where: str, skip: frozenset[str] = frozenset()
    ) -> dict[str, Any]:
        """Return ``value`` by a file's keys. A key's origin is the first layer with the key."""
        plain: dict[str, Any] = {}
        for one in model_of(type(value)).fields:
            own = getattr(value, one.name)
            if one.name in skip or (own is None and (type(value), one.key) in self.hidden):
                continue
            said = [under for layer in layers if (under := layer.under(one.key)) is not None]
            # A workflow overrides a whole key; of a prompt, each key separately.
            merged = said if one.name == "prompt" else said[:1]
            plain[one.key] = self.value(own, merged, join(where, one.key), one.quantity)
        return plain

    def value(self, value: object, layers: Sequence[Layer], where: str, quantity: Quantity | None = None) -> object:
        """Return ``value`` as plain data, and record the origin of each value in it."""
        if isinstance(value, msgspec.Struct):
            return self.struct(value, layers, where)
        if (
            isinstance(value, tuple)
            and value
            and isinstance(value[0], msgspec.Struct)
            and not isinstance(value[0], Rule)
        ):
            items: list[object] = []
            for index, item in enumerate(value):
                found = layers[0].item(index) if layers else None
                plain = self.value(item, (found or layers[0],) if layers else (), f"{where}[{index}]")
                items.append({k: v for k, v in plain.items() if v is not None} if isinstance(plain, dict) else plain)
            return items
        if isinstance(value, Mapping) and value:
            return {str(key): self._entry(child, layers, where, str(key)) for key, child in value.items()}
        self.origins[where] = layers[0].origin if layers else DEFAULT
        if quantity is not None and isinstance(value, int | float):
            return quantity.show(value)
        return msgspec.to_builtins(value)

    def _entry(self, child: object, layers: Sequence[Layer], where: str, key: str) -> object:
        found = layers[0].under(key) if layers else None
        return self.value(child, (found or layers[0],) if layers else (), join(where, key))


def join(where: str, key: str) -> str:
    """Return the path of ``key`` below ``where``."""
    return f"{where}.{key}" if where else key


OVERRIDE: Final = "override"
_AGENTS: Final = frozenset({"agents"})
_NAME: Final = frozenset({"name"})
_MEMBERS: Final = frozenset({"name", "agents"})
_PRESET: Final = "built in"
_HIDDEN: Final = frozenset(WORKFLOW_SHAPES.refused)


def resolution(root: Path, cwd: Path, asked: str | None) -> Resolution:
    """Resolve ``asked``: a file, an agent, ``@workflow`` or ``agent@workflow``; None: the project.

    Raises Refused, BadDefinition.
    """
    catalog = Catalog(root, Path.home())
    if asked is None:
        return _project(catalog)
    if is_path(asked) and not is_remote(asked):
        return _of_file(catalog, shown(root, cwd / asked))
    agent, at, workflow = asked.partition("@")
    if is_remote(asked):
        return _workflow(catalog, asked)
    if at and agent:
        return _member(catalog, agent, split_space(workflow)[0])
    if at:
        return _workflow(catalog, split_space(workflow)[0])
    return _named(catalog, asked)


def _of_file(catalog: Catalog, name: str) -> Resolution:
    if not (catalog.root / name).exists():
        raise Refused("not_found", f"{name}: file not found")
    kind = kind_of(catalog.root, name)
    if kind == "project":
        return _project(catalog)
    if kind == "workflow":
        return _workflow(catalog, name)
    agent = next((one for one in catalog.names() if catalog.file_of(one) == name), None)
    if agent is None:
        hint = "agents are defined in .agents/ or in the project file; awk validate checks any file"
        raise Refused("not_found", f"{name} does not define an agent of the project", hint)
    return _agent(catalog, agent)


def _named(catalog: Catalog, name: str) -> Resolution:
    is_workflow = name in workflow_names(catalog, catalog.project())
    if not catalog.defines(name):
        return _workflow(catalog, name) if is_workflow else _agent(catalog, name)
    if is_workflow:
        raise Refused("bad_target", f"{name} is an agent and a workflow", f"write @{name} for the workflow")
    return _agent(catalog, name)


def _project(catalog: Catalog) -> Resolution:
    file = read_project(catalog.root)
    resolving = Resolving(_HIDDEN)
    layers = [] if file is None else [Layer(file.name, tree_of(file.data, file.name)[0])]
    definition = catalog.project()
    plain = resolving.struct(definition, layers, "", _AGENTS)
    agents: dict[str, Any] = {}
    for name, entry in definition.agents.items():
        where = f"agents.{name}"
        if isinstance(entry, str):
            agents[name] = entry
            resolving.origins[where] = f"{layers[0].file}:{place_of(layers[0].node, name).line}"
        else:
            own = _agent_layer(catalog, layers[0].file, name)
            agents[name] = _definition(resolving, entry, definition, (own,), where, catalog)
    path = None if file is None else file.name
    plain = {"agents": agents, **plain} if agents else plain
    return Resolution(kind="project", name=None, path=path, definition=plain, origins=resolving.origins)


def _agent(catalog: Catalog, name: str) -> Resolution:
    loaded = catalog.agent(name)
    resolving = Resolving(_HIDDEN)
    layers = (_agent_layer(catalog, loaded.path, name),)
    plain = _definition(resolving, loaded.definition, catalog.project(), layers, "", catalog)
    return Resolution(kind="agent", name=name, path=loaded.path, definition=plain, origins=resolving.origins)


def _member(catalog: Catalog, name: str, workflow: str) -> Resolution:
    loaded = load_workflow(catalog, workflow)
    member = next((one for one in loaded.members if one.name == name), None)
    if member is None:
        members = ", ".join(one.name for one in loaded.members)
        raise Refused("not_a_participant", f"{name} is not in {loaded.path}", f"members: {members}")
    resolving = Resolving(_HIDDEN)
    layers = _layers(catalog, loaded, member)
    plain = _definition(resolving, member.definition, loaded.project, layers, "", catalog)
    return Resolution(kind="agent", name=name, path=layers[-1].file, definition=plain, origins=resolving.origins)


def _workflow(catalog: Catalog, asked: str) -> Resolution:
    loaded = load_workflow(catalog, asked)
    resolving = Resolving(_HIDDEN)
    layer = _layer(catalog, loaded.path)
    agents = {
        member.name: _definition(
            resolving,
            member.definition,
            loaded.project,
            _layers(catalog, loaded, member),
            f"agents.{member.name}",
            catalog,
        )
        for member in loaded.members
    }
    plain = {"agents": agents, **resolving.struct(loaded.definition, (layer,), "", _MEMBERS)}
    return Resolution(
        kind="workflow", name=loaded.definition.name, path=loaded.path, definition=plain, origins=resolving.origins
    )


def _layers(catalog: Catalog, loaded: LoadedWorkflow, member: WorkflowMember) -> tuple[Layer, ...]:
    file = _layer(catalog, loaded.path)
    agents = file.under("agents")
    entry = None if agents is None else agents.under(member.name)
    assert entry is not None
    if member.ref is None:
        return (entry,)
    over = Layer(entry.file, entry.node, OVERRIDE)
    base = catalog.agent(member.ref.ref, loaded.project)
    return over, _agent_layer(catalog, base.path, member.ref.ref)


def _layer(catalog: Catalog, path: str) -> Layer:
    try:
        return Layer(path, read_tree(Path(catalog.place(path)), path)[0])
    except FileMissing:
        raise Refused("not_found", f"{path}: file not found") from None


def _agent_layer(catalog: Catalog, path: str, name: str) -> Layer:
    layer = _layer(catalog, path)
    entries = layer.under("agents") if path in PROJECT_FILES else None
    under = None if entries is None else entries.under(name)
    if under is not None:
        return under
    items = entries.node.items if entries is not None and isinstance(entries.node, ListNode) else ()
    for item in items:
        own = item.get("name") if isinstance(item, MapNode) else None
        if isinstance(own, ScalarNode) and own.text == name:
            return Layer(path, item)
    return layer


def _definition(
    resolving: Resolving,
    definition: AgentDefinition,
    project: ProjectDefinition,
    layers: tuple[Layer, ...],
    where: str,
    catalog: Catalog,
) -> dict[str, Any]:
    plain = resolving.struct(definition, layers, where, _NAME)
    at = join(where, "model")
    model = definition.first_model
    if calls_models(definition) and (names := [full_model(one) for one in models_of(definition, project)]):
        written = ", ".join(definition.models)
        if definition.models != tuple(names):
            known = "alias" if {*definition.models} & {*ALIASES, *project.models.aliases} else "known name"
            source = f"{resolving.origins[at]}, {known} {written}" if written else "models.default of the project file"
            plain["model"], resolving.origins[at] = names[0] if len(names) == 1 else names, source
        model = names[0]
    if calls_models(definition) and not model.startswith(f"{MOCK}/"):
        # The effective provider, which is not a key of the file.
        endpoint_where = join(where, "endpoint")
        way = route(definition, project)
        endpoint_plain: dict[str, Any] = {
            "provider": way.name,
            "dialect": way.dialect,
            "base_url": way.base_url,
            "api_key": [] if definition.login else [f"${key}" for key in way.keys],
        }
        own = next((under for layer in layers if (under := layer.under("provider")) is not None), None)
        entry = _entry(catalog, way.name)
        for key in endpoint_plain:
            found = [layer.under("name" if key == "provider" else key) for layer in (own, entry) if layer is not None]
            origin = next((layer.origin for layer in found if layer is not None), _PRESET)
            if key == "provider":
                origin = (
                    own.origin
                    if own is not None
                    else resolving.origins[join(endpoint_where.rpartition(".")[0], "model")]
                )
            resolving.origins[join(endpoint_where, key)] = origin
        plain["endpoint"] = endpoint_plain
    return plain


def _entry(catalog: Catalog, provider: str) -> Layer | None:
    file = read_project(catalog.root)
    if file is None:
        return None
    layer = Layer(file.name, tree_of(file.data, file.name)[0]).under("providers")
    return None if layer is None else layer.under(provider)


SUFFIXES: Final = (".yaml", ".yml")
_FOLDERS: Final[dict[str, Kind]] = {AGENTS: "agent", WORKFLOWS: "workflow"}
_OF_PROJECT: Final = frozenset({"providers", "workflows", "starvation", "retention"})


def shown(root: Path, path: Path) -> str:
    """Return the displayed form of ``path``: relative to the project root if it is inside, else absolute."""
    real_root, real = os.path.realpath(root), os.path.join(os.path.realpath(path.parent), path.name)
    return os.path.relpath(real, real_root) if real.startswith(real_root + os.sep) else str(path)


def kind_of(root: Path, name: str) -> Kind:
    """Return the kind of a project file by its displayed path (see ``shown``)."""
    by_place = place_kind(name)
    if by_place is not None:
        return by_place
    try:
        node, _ = read_tree(root / name, name)
    except (BadDefinition, FileMissing):
        return "agent"
    if not isinstance(node, MapNode):
        return "agent"
    keys = {key.text for key, _ in node.entries}
    if keys & _OF_PROJECT or isinstance(node.get("agents"), ListNode):
        return "project"
    return "workflow" if keys & {"agents", "kickoff", "setup", "params"} else "agent"


def place_kind(name: str) -> Kind | None:
    """Return the kind of files at this location of a project; None if the location does not determine it."""
    folder, file = os.path.split(name.removeprefix(HOME))
    if not folder and file in PROJECT_FILES:
        return "project"
    if folder.startswith(f"{AGENTS}/") and folder.endswith(f"/{MEMORY}") and file.endswith(SUFFIXES):
        return "memory"
    return _FOLDERS.get(folder) if file.endswith(SUFFIXES) else None


def is_path(asked: str) -> bool:
    """Return whether ``asked`` is a path rather than a name."""
    return os.sep in asked or asked.endswith(SUFFIXES)
