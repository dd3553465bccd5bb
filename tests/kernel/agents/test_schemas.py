"""All that the types of the three files allow loads as it was meant, and comes back; one mistake is found at its place.

The mistakes are made in sound documents, one each: whatever else is right stays right.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import inspect as mi

from kernel.agents.catalog import Catalog
from kernel.agents.project import ProjectFileContent, parse_project
from kernel.source.diagnostics import BadDefinition
from kernel.workflows.load import load_workflow
from protocol import yaml_writer
from protocol.agent import AgentDefinition
from protocol.api.document import FileError
from protocol.project import ProjectDefinition
from protocol.workflow import WorkflowDefinition
from tests.kernel.agents.schemas import FREE, TEXTS, Site, Special, sites, values
from tests.kernel.inspect.files import write

CPU_SECONDS: Final = 0.05
"""What finding mistakes may take; of a few trials the best counts, for the machine may be busy."""
TRIALS: Final = 3

_NAMES: Final = st.dictionaries(st.sampled_from(["A", "B_2"]), TEXTS, max_size=2)
_ACTIONS: Final = st.one_of(
    st.fixed_dictionaries({"text": TEXTS}),
    st.fixed_dictionaries({"shell": TEXTS}),
    st.fixed_dictionaries({"tool": st.just("channel_send")}, optional={"args": st.dictionaries(TEXTS, FREE)}),
    st.fixed_dictionaries({"sleep": st.integers(0, 86_400)}),
    st.fixed_dictionaries({"exit": st.sampled_from([{"signal": "KILL"}, {"code": 3, "times": 1}])}),
    st.fixed_dictionaries({"error": st.fixed_dictionaries({"http_status": st.integers(400, 599), "text": TEXTS})}),
    st.fixed_dictionaries({"usage": st.fixed_dictionaries({"input_tokens": st.integers(0, 1000)})}),
)
_RULE: Final = st.fixed_dictionaries(
    {"do": st.lists(_ACTIONS, min_size=1, max_size=2)}, optional={"when": st.just("b+")}
)
_SCRIPT: Final = st.lists(_RULE, min_size=1, max_size=2)
_WAKEUPS: Final = st.sampled_from(["5m", "36h", "0 9 * * 1-5"])

AGENT: Final[Special] = {
    ("AgentDefinition", "name"): None,
    ("AgentDefinition", "model"): st.sampled_from(
        ["anthropic/claude-sonnet-5-5", "sonnet", "openai/gpt-5.5", "mock/x", ["mock/x", "openai/gpt-5.5"]]
    ),
    ("AgentDefinition", "backend"): st.sampled_from(["sdk", "mock"]),
    ("AgentDefinition", "provider"): None,
    ("AgentDefinition", "prompt"): st.one_of(
        st.fixed_dictionaries({"system": TEXTS}), st.just({"system_file": "prompts/a.md"})
    ),
    ("Restart", "delay"): st.just(0),  # never longer than the longest pause
    ("AgentDefinition", "soul"): st.dictionaries(TEXTS, FREE, max_size=2),
    ("AgentDefinition", "tools"): st.sampled_from([[], ["bash", "files"]]),
    ("AgentDefinition", "skills"): None,
    ("AgentDefinition", "thinking"): None,
    ("AgentDefinition", "temperature"): None,
    ("AgentDefinition", "mcp_servers"): None,
    ("AgentDefinition", "read_only"): None,
    ("Ref", "read_only"): None,
    ("AgentDefinition", "sandbox"): st.just("off"),
    ("AgentDefinition", "login"): st.just(False),  # there is one for three backends only
    ("AgentDefinition", "cli"): None,  # as with a login
    ("AgentDefinition", "command"): None,
    ("AgentDefinition", "worktree"): None,  # of a workflow with working trees only
    ("Ref", "worktree"): None,
    ("PlaceNeeds", "labels"): st.sampled_from([[], ["gpu", "arch=arm64"]]),
    ("AgentDefinition", "env"): st.sampled_from([[], ["CI", "TEAM_2"]]),
    ("AgentDefinition", "mock"): _SCRIPT,
    ("Context", "dir"): st.sampled_from(["team/alice/", ".agents/alice"]),
    ("Schedule", "wakeup"): _WAKEUPS,
    ("Schedule", "workspace"): st.sampled_from(["review", "review:pr-1"]),
    ("Schedule", "timezone"): None,
}
"""What must hold between keys: with a model, a prompt and a script any backend here has what it needs."""
WHOLE_AGENT: Final = {"model": "sonnet", "prompt": {"system": "Be kind."}, "mock": [{"do": [{"text": "hi"}]}]}

# A workflow with replicas is loaded with its instances: tests/kernel/workflows/test_replicas.py.
_ONE: Final[Special] = {("AgentDefinition", "replicas"): None, ("Ref", "replicas"): None}
_INLINE: Final[Special] = {**AGENT, **_ONE, ("Context", "dir"): None, ("Schedule", "workspace"): None}
_OWN: Final = values(mi.type_info(AgentDefinition), _INLINE).map(lambda said: WHOLE_AGENT | said)


@st.composite
def _params(draw: st.DrawFn) -> list[dict[str, Any]]:
    defaults = {
        "string": TEXTS,
        "int": st.integers(-9, 9),
        "number": st.sampled_from([0.5, 2.0]),
        "bool": st.booleans(),
    }
    found = []
    for name, short in draw(st.sets(st.sampled_from([("depth", "d"), ("base-1", "B"), ("x", "x")]), max_size=2)):
        kind = draw(st.sampled_from(sorted(defaults)))
        more = st.fixed_dictionaries({}, optional={"default": defaults[kind], "short": st.just(short)})
        found.append({"name": name, "type": kind, **draw(more)})
    return found


WORKFLOW: Final[Special] = {
    **_INLINE,
    ("WorkflowDefinition", "name"): st.just("flow"),
    ("WorkflowDefinition", "params"): _params(),
    ("WorkflowDefinition", "setup"): st.sampled_from([[], [{"shell": "ls", "as": "a"}, {"shell": "echo ${{ a }}"}]]),
    ("WorkflowDefinition", "kickoff"): st.sampled_from(["@own begin", "all is said:\n  ${{ workflow.tag }}\n"]),
    ("WorkflowDefinition", "tasks"): st.sampled_from(
        [[], [{"key": "a", "title": "x"}, {"title": "y", "needs": ["a"]}]]
    ),
    ("WorkflowDefinition", "rules"): st.sampled_from(
        [
            [],
            [{"name": "greet", "when": {"said": {"matches": "^hi"}}, "then": [{"say": "hello"}]}],
            [{"on": "failed", "from": "own", "assign": "own"}],
        ]
    ),
    ("WorkflowDefinition", "workspace"): st.sampled_from(
        [
            False,
            {"provider": "file"},
            {"bind": "data/x"},
            {"git": "worktree"},
            {"provider": "memory", "dir": "out/${{ workflow.tag }}"},
        ]
    ),
    ("WorkflowDefinition", "verdict"): st.just("release"),
    ("Deliver", "into"): st.sampled_from(["main", "feature/x-1"]),
    ("Deliver", "check"): st.sampled_from(["make test", "true"]),
    ("WorkflowDefinition", "output_schema"): st.just({"type": "object", "required": ["a"]}),
    ("Ref", "ref"): st.just("bob"),
    ("Ref", "model"): st.sampled_from(["haiku", "openai/gpt-5.5", ["haiku", "openai/gpt-5.5"]]),
    ("Ref", "backend"): st.just("mock"),
    ("Ref", "provider"): None,
    ("Ref", "thinking"): None,
    ("Ref", "temperature"): None,
    ("Ref", "mock"): _SCRIPT,
}
_REF: Final = values(mi.type_info(WorkflowDefinition).fields[1].type.value_type.types[0], WORKFLOW)  # type: ignore[attr-defined]
_TEAM: Final = st.fixed_dictionaries({"own": _OWN}, optional={"bob": _REF})

PROJECT: Final[Special] = {
    **AGENT,
    ("ProjectDefinition", "agents"): st.fixed_dictionaries({}, optional={"own": _OWN, "far": st.just("lib/far.yaml")}),
    ("ProjectDefinition", "workflows"): st.sampled_from([{}, {"flow": "flows/flow.yaml"}]),
    ("ProjectDefinition", "providers"): st.sampled_from(
        [{}, {"mine": {"base_url": "https://example.invalid/v1", "api_key": "$KEY", "dialect": "anthropic"}}]
    ),
    ("ProjectDefinition", "tools"): st.sampled_from([{}, {"lint": {"description": "Lints.", "command": ["lint"]}}]),
    ("IncomingHook", "to"): st.sampled_from(["alice", "@review:pr-1", "alice@review"]),
    ("IncomingHook", "secret"): st.just("$HOOK_SECRET"),
    ("ProjectDefinition", "webhooks"): st.sampled_from(
        [[], [{"url": "https://example.invalid/x", "events": ["*"], "secret": "$S", "allow_private": True}]]
    ),
    ("ProjectModels", "default"): st.sampled_from(["", "haiku", ["haiku", "openai/gpt-5.5"]]),
    ("ProjectModels", "aliases"): st.sampled_from([{}, {"quick": ["haiku", "mock/x"]}]),
    ("ProjectDefinition", "embeddings"): st.sampled_from([None, {"model": "openai/text-embedding-3-small"}]),
    ("ProjectDefinition", "nodes"): st.sampled_from(
        [
            {},
            {"gpu1": {"via": "ssh", "host": "h1", "args": ["-p", "22"], "labels": ["gpu"], "workers": 4}},
            {"box": {"via": "docker", "image": "agents:1"}, "far": {"via": "join"}},
            {"pod": {"via": "kubectl", "pod": "agents-0", "namespace": "ci"}, "r": {"via": "ray", "most": 3}},
        ]
    ),
    ("ProjectDefinition", "nodes_listen"): st.sampled_from([None, "127.0.0.1:7700"]),
    ("StandbySettings", "to"): st.just("/mnt/nas/awk"),
    ("OtelSettings", "endpoint"): st.just("https://example.invalid"),
    ("OtelSettings", "headers"): st.sampled_from([{}, {"x-key": "$KEY"}]),
    ("ProjectWorkspace", "base"): st.just("out/"),
    ("ProjectLimits", "per_provider"): st.one_of(st.integers(1, 9), st.just({"openai": 2})),
}


def _can_deliver(said: dict[str, Any]) -> bool:
    workspace = said.get("workspace") or {}
    in_trees = isinstance(workspace, dict) and workspace.get("git") == "worktree"
    return in_trees and ("verdict" in said or said["deliver"].get("when") != "verdict")


def _delivers_what_there_is(said: dict[str, Any]) -> dict[str, Any]:
    return (
        said
        if "deliver" not in said or _can_deliver(said)
        else {key: value for key, value in said.items() if key != "deliver"}
    )


def _can_vote(said: dict[str, Any]) -> bool:
    return said.get("workspace") is not False or not {"verdict", "tasks", "rules"} & said.keys()


@dataclass(frozen=True, repr=False)
class File:
    """One of the three files: what it may say, how it is loaded, and references that lead nowhere."""

    kind: type[msgspec.Struct]
    path: str
    documents: st.SearchStrategy[dict[str, Any]]
    load: Callable[[Catalog, bytes], msgspec.Struct]
    lost: tuple[tuple[str, Any], ...]
    """Where, and the document that says so."""


def _load_agent(catalog: Catalog, data: bytes) -> msgspec.Struct:
    return catalog.parse("alice", ".agents/alice.yaml", data, ProjectDefinition())


def _load_workflow(catalog: Catalog, data: bytes) -> msgspec.Struct:
    (catalog.root / ".workflows/flow.yaml").write_bytes(data)
    return load_workflow(catalog, "flow").definition


def _load_project(catalog: Catalog, data: bytes) -> msgspec.Struct:
    parsed = parse_project(ProjectFileContent("moniro.yaml", data))
    for errors in parsed.broken.values():
        raise BadDefinition(errors)
    return parsed.definition


FILES: Final = [
    pytest.param(
        File(
            AgentDefinition,
            ".agents/alice.yaml",
            values(mi.type_info(AgentDefinition), AGENT).map(lambda said: WHOLE_AGENT | said),
            _load_agent,
            (
                ("model", WHOLE_AGENT | {"model": "nobody/x"}),
                ("prompt.system_file", WHOLE_AGENT | {"prompt": {"system_file": "no/such.md"}}),
                ("context.dir", WHOLE_AGENT | {"context": {"dir": "../x"}}),
                ("env[0]", WHOLE_AGENT | {"env": ["LD_PRELOAD"]}),
            ),
        ),
        id="agent",
    ),
    pytest.param(
        File(
            WorkflowDefinition,
            ".workflows/flow.yaml",
            values(mi.type_info(WorkflowDefinition), {**WORKFLOW, ("WorkflowDefinition", "agents"): _TEAM})
            .filter(_can_vote)
            .map(_delivers_what_there_is),
            _load_workflow,
            (
                ("agents.zed.ref", {"agents": {"zed": {"ref": "nobody"}}}),
                ("kickoff", {"agents": {"own": WHOLE_AGENT}, "kickoff": "${{ nobody }}"}),
                ("deliver", {"agents": {"own": WHOLE_AGENT}, "deliver": {}}),
                ("setup[0].shell", {"agents": {"own": WHOLE_AGENT}, "setup": [{"shell": "${{ params.zed }}"}]}),
            ),
        ),
        id="workflow",
    ),
    pytest.param(
        File(
            ProjectDefinition,
            "moniro.yaml",
            values(mi.type_info(ProjectDefinition), PROJECT),
            _load_project,
            (
                ("limits.per_provider.nobody", {"limits": {"per_provider": {"nobody": 1}}}),
                ("workspace.base", {"workspace": {"base": "../x"}}),
                ("agents.own.model", {"agents": {"own": WHOLE_AGENT | {"model": "nobody/x"}}}),
            ),
        ),
        id="project",
    ),
]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """A project with what sound documents refer to."""
    root: Path = tmp_path_factory.mktemp("project")
    bob = "model: sonnet\nprompt: {system: x}\nmock: [{text: hi}]\n"
    write(root, {"prompts/a.md": "Be kind.", ".agents/bob.yaml": bob, ".workflows/flow.yaml": ""})
    return Catalog(root)


_quick = settings(
    max_examples=2 * settings.get_profile("untimed").max_examples,
    deadline=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.mark.parametrize("file", FILES)
@_quick
@given(st.data())
def test_what_the_types_allow_loads_as_it_was_meant_and_comes_back(
    file: File, catalog: Catalog, data: st.DataObject
) -> None:
    document = data.draw(file.documents)
    loaded = file.load(catalog, msgspec.json.encode(document))
    assert loaded == msgspec.convert(_tagged(file, document), file.kind)
    written = _untagged(msgspec.to_builtins(loaded))
    assert file.load(catalog, (yaml_writer.document(written) or "{}").encode()) == loaded


@pytest.mark.promise("CF05", "CF06", "CF07", "CF10", "CF11", "CF12", "CF13")
@pytest.mark.parametrize("file", FILES)
@_quick
@given(st.data())
def test_one_mistake_is_found_where_it_is_and_quickly(file: File, catalog: Catalog, data: st.DataObject) -> None:
    """A located refusal within 50 ms of CPU, never anything else."""
    document = data.draw(file.documents)
    found = list(sites(mi.type_info(file.kind), document))
    text, where = data.draw(st.sampled_from(_MISTAKES))(document, found, file, data)
    errors, seconds = _refusal(file, catalog, text)
    lines = text.count("\n") + 1
    for error in errors:
        assert error.path == file.path
        assert 1 <= error.line <= lines
        assert error.column >= 1
        assert error.message
    assert any(error.where.startswith(where) for error in errors), (where, errors)
    assert seconds < CPU_SECONDS


def _refusal(file: File, catalog: Catalog, text: str) -> tuple[tuple[FileError, ...], float]:
    errors: tuple[FileError, ...] = ()
    times: list[float] = []
    while not times or (min(times) >= CPU_SECONDS and len(times) < TRIALS):
        began = time.process_time()
        with pytest.raises(BadDefinition) as caught:
            file.load(catalog, text.encode())
        times.append(time.process_time() - began)
        errors = caught.value.errors
    return errors, min(times)


# -- mistakes: each gives the text of a document with one in it, and where it is -------------------------------------


def _unknown_key(document: Any, found: list[Site], file: File, data: st.DataObject) -> tuple[str, str]:
    structs = [Site((), mi.type_info(file.kind)), *(one for one in found if isinstance(one.kind, mi.StructType))]
    site = data.draw(st.sampled_from(structs))
    return _dump(_put(document, (*site.path, "zzz"), 1)), Site((*site.path, "zzz"), site.kind).where


def _wrong_type(document: Any, found: list[Site], file: File, data: st.DataObject) -> tuple[str, str]:
    site = _one_of(found, data)
    return _dump(_put(document, site.path, [[["zzz"]]])), site.where


def _out_of_range(document: Any, found: list[Site], file: File, data: st.DataObject) -> tuple[str, str]:
    beyond = [
        (site, number)
        for site in found
        if isinstance(site.kind, mi.IntType | mi.FloatType) and site.kind.le is not None and site.kind.ge is not None
        for number in (site.kind.le + 1, site.kind.ge - 1)
    ]
    if not beyond:
        return _wrong_type(document, found, file, data)
    site, number = data.draw(st.sampled_from(beyond))
    return _dump(_put(document, site.path, number)), site.where


def _twice(document: Any, found: list[Site], file: File, data: st.DataObject) -> tuple[str, str]:
    keys = [one for one in found if isinstance(one.path[-1], str)]
    site = _one_of(keys, data)
    return _dump(_put(document, (*site.path[:-1], f"{_AGAIN}{site.path[-1]}"), 1)).replace(_AGAIN, ""), ""


def _lost(document: Any, found: list[Site], file: File, data: st.DataObject) -> tuple[str, str]:
    where, whole = data.draw(st.sampled_from(file.lost))
    return _dump(whole), where


_AGAIN: Final = "\ue000"
_MISTAKES: Final = [_unknown_key, _wrong_type, _out_of_range, _twice, _lost]


def _one_of(found: list[Site], data: st.DataObject) -> Site:
    if not found:
        data.conjecture_data.mark_invalid("an empty document")
    return data.draw(st.sampled_from(found))


def _dump(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, indent=1)


def _put(document: Any, path: Any, value: Any) -> Any:
    if not path:
        return value
    key, *rest = path
    if isinstance(key, int):
        return [_put(item, rest, value) if index == key else item for index, item in enumerate(document)]
    below = document.get(key, {}) if isinstance(document, dict) else {}
    return {**(document if isinstance(document, dict) else {}), key: _put(below, rest, value)}


# -- what stored definitions have beside the keys of files -----------------------------------------------------------


def _tagged(file: File, document: dict[str, Any]) -> dict[str, Any]:
    if file.kind is AgentDefinition:
        return {**document, "name": "alice"}
    said = {name: _tagged_entry(name, entry) for name, entry in document.get("agents", {}).items()}
    given = {"name": "flow"} if file.kind is WorkflowDefinition else {}
    return given | document | {"agents": said}


def _tagged_entry(name: str, entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    return {**entry, "entry": "ref"} if "ref" in entry else {**entry, "entry": "inline", "name": name}


def _untagged(document: Any) -> Any:
    agents = document.get("agents", {})
    bare = {name: _without_tag(entry) for name, entry in agents.items()}
    return _without_tag({**document, "agents": bare} if agents else document)


def _without_tag(entry: Any) -> Any:
    return {key: value for key, value in entry.items() if key != "entry"} if isinstance(entry, dict) else entry
