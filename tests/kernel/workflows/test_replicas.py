"""A group in files: its instances are agents and members like any other, and only the kernel names them."""

from pathlib import Path

import pytest

from kernel.agents.catalog import Catalog
from kernel.agents.registration import gone, register
from kernel.agents.resources import resources_of
from kernel.agents.trust import agent_units
from kernel.services.reload import Reload
from kernel.store import agents
from kernel.workflows.load import LoadedWorkflow, load_workflow
from kernel.workflows.members import specs
from kernel.workflows.prepare import workflow_units
from protocol.errors import Refused
from protocol.target import find_mentions, parse_target
from tests.kernel.inspect import files
from tests.kernel.refusals import faults
from tests.kernel.store.running_store import open_store

CODER = (
    "backend: mock\nreplicas: {0}\nschedule: {{wakeup: 1h}}\ncontext: {{dir: team/coder}}\nmock: [{{shell: make}}]\n"
)
REVIEW = """\
agents:
  coder: {ref: coder}
  own: {backend: mock, replicas: 2, mock: [{text: hi}]}
  many: {ref: bob, replicas: 2}
"""
TWO = "".join(REVIEW.splitlines(keepends=True)[:3])
MEMBERS = ("coder", "coder.1", "coder.2", "own", "own.1", "own.2", "many", "many.1", "many.2")


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    texts = {"coder": CODER.format(2), "bob": "backend: mock\nmock: [{text: hi}]\n"}
    files.write(tmp_path, {f".agents/{name}.yaml": text for name, text in texts.items()})
    return Catalog(tmp_path)


def load(catalog: Catalog, text: str) -> LoadedWorkflow:
    files.write(catalog.root, {".workflows/review.yaml": text})
    return load_workflow(catalog, "review")


def test_instances_have_the_definition_of_the_group_and_a_folder_each(catalog: Catalog) -> None:
    one = catalog.agent("coder.2").definition
    assert (one.name, one.replicas, one.schedule, one.context.dir) == ("coder.2", None, None, "team/coder.2")
    assert one.mock == catalog.agent("coder").definition.mock
    names = [loaded.definition.name for loaded in catalog.survey().loaded]
    assert names == ["bob", "coder", "coder.1", "coder.2"]
    assert [catalog.defines(name) for name in ("coder.2", "coder.3", "bob.1")] == [True, False, False]
    for name in ("coder.3", "bob.1", "nobody.1"):
        with pytest.raises(Refused, match="not found"):
            catalog.agent(name)


def test_a_workflow_has_the_instances_as_members(catalog: Catalog) -> None:
    loaded = load(catalog, REVIEW)
    assert tuple(loaded.definition.agents) == MEMBERS
    assert loaded.definition.workers == tuple(name for name in MEMBERS if "." in name)
    keys = [(one.key, one.origin) for one in specs(loaded.members, "review:main#1")]
    assert keys[:3] == [("coder", "file"), ("coder.1", "file"), ("coder.2", "file")]
    assert keys[-1] == ("many.2@review:main#1", "inline"), "replicas of the workflow end with it"
    (unit,) = workflow_units(loaded)
    one = catalog.agent("coder.1").definition
    own = resources_of(one, loaded.project, catalog.root)
    assert agent_units(one, loaded.project, own) == (unit,), "trust in a group is trust in its instances"


@pytest.mark.parametrize(
    ("more", "where", "message"),
    [
        ("  x.1: {ref: bob}", "agents.x.1", "'x.1' is the name of an instance: write replicas: under x"),
        ("  x: {ref: bob, replicas: 65}", "agents.x.replicas", "must be at most 64, is 65"),
        ("verdict: {id: go, electors: [coder]}", "verdict.electors", "'coder' is not an agent of this workflow"),
        ("workspace: {document_owner: own}", "workspace.document_owner", "'own' is not an agent of this workflow"),
    ],
)
def test_what_is_wrong_with_a_group_is_told_with_its_place(
    catalog: Catalog, more: str, where: str, message: str
) -> None:
    files.write(catalog.root, {".workflows/review.yaml": f"{TWO}{more}\n"})
    (fault,) = faults(load_workflow, catalog, "review")
    assert (fault.where, fault.message) == (where, message)
    assert fault.line >= 2


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("@coder.2, and @Coder.12.", ("coder.2", "coder.12")),
        ("ask @coder. Then @coder.", ("coder",)),
        ("@coder.0 @coder.100 @coder.2x @coder.2.5 a@coder.2 @coder.md", ()),
    ],
)
def test_an_instance_is_mentioned_by_its_name(text: str, found: tuple[str, ...]) -> None:
    assert find_mentions(text) == found
    target = parse_target("coder.2@review")
    assert (target.agent, str(target)) == ("coder.2", "coder.2@review")


async def test_an_edit_adds_instances_and_removes_idle_ones(catalog: Catalog, tmp_path: Path) -> None:
    async with open_store(str(tmp_path / "store.db")) as store:
        follower = Reload(catalog=catalog, log=store.log, sleep=lambda _seconds: store.log.reader.read(agents.all))
        await register(catalog, store.writer, store.reader)
        await follower.run_once()
        for count in (3, 1, 2):
            files.write(catalog.root, {".agents/coder.yaml": CODER.format(count)})
            await follower.run_once([str(catalog.root / ".agents/coder.yaml")])
            found = [one.key for one in store.reader.now(agents.all) if one.key != "bob"]
            assert found == ["coder", *(f"coder.{n}" for n in range(1, count + 1) if count > 1)]
        files.write(catalog.root, {".agents/coder.yaml": "replicas: none\n"})
        assert await gone(catalog, store.reader) == (), "the last valid version of a broken file remains"
