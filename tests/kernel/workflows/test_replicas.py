"""A group in files: its instances are agents and members like any other, and only the kernel names them."""

from pathlib import Path

import pytest

from kernel.agents.catalog import Catalog
from kernel.agents.registration import register
from kernel.services.reload import Reload
from kernel.store import agents
from kernel.workflows.instruction_prompt import definition_of
from kernel.workflows.load import load_workflow
from kernel.workflows.members import specs
from kernel.workflows.prepare import workflow_units
from protocol.errors import Refused
from tests.kernel.inspect import files
from tests.kernel.refusals import faults
from tests.kernel.store.running_store import open_store

CODER = "backend: mock\nreplicas: {0}\nschedule: {{wakeup: 1h}}\nmock: [{{shell: make}}]\ncontext: {{dir: team/c}}\n"
REVIEW = """\
agents:
  coder: {ref: coder}
  own: {backend: mock, replicas: 2, mock: [{text: hi}]}
  many: {ref: bob, replicas: 2}
"""


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    texts = {".agents/coder.yaml": CODER.format(2), ".agents/bob.yaml": "backend: mock\nmock: [{text: hi}]\n"}
    files.write(tmp_path, {**texts, ".workflows/review.yaml": REVIEW})
    return Catalog(tmp_path)


def test_instances_have_the_definition_of_the_group_and_a_folder_each(catalog: Catalog) -> None:
    one = catalog.agent("coder.2").definition
    assert (one.name, one.replicas, one.schedule, one.context.dir) == ("coder.2", None, None, "team/c.2")
    names = [loaded.definition.name for loaded in catalog.survey().loaded]
    assert names == ["bob", "coder", "coder.1", "coder.2"]
    for name in ("coder.3", "bob.1", "nobody.1"):
        assert not catalog.defines(name)
        with pytest.raises(Refused, match="not found"):
            catalog.agent(name)


def test_a_workflow_has_the_instances_as_members(catalog: Catalog) -> None:
    loaded = load_workflow(catalog, "review")
    workers = ("coder.1", "coder.2", "own.1", "own.2", "many.1", "many.2")
    assert loaded.definition.workers == workers
    assert set(loaded.definition.agents) == {*workers, "coder", "own", "many"}
    keys = [(one.key, one.origin) for one in specs(loaded.members, "review:main#1")]
    assert keys[:3] == [("coder", "file"), ("coder.1", "file"), ("coder.2", "file")]
    assert keys[-1] == ("many.2@review:main#1", "inline"), "replicas of the workflow end with it"
    assert len(workflow_units(loaded)) == 1, "trust in a group is trust in its instances"


def test_what_is_wrong_with_a_group_is_told_with_its_place(catalog: Catalog) -> None:
    wrong = "  x.1: {ref: bob}\n  x: {ref: bob, replicas: 65}\nverdict: {id: go, electors: [coder]}\n"
    files.write(catalog.root, {".workflows/review.yaml": f"agents:\n  coder: {{ref: coder}}\n{wrong}"})
    assert [(one.line, one.where, one.message) for one in faults(load_workflow, catalog, "review")] == [
        (3, "agents.x.1", "'x.1' is the name of an instance: write replicas: under x"),
        (4, "agents.x.replicas", "must be at most 64, is 65"),
        (5, "verdict.electors", "'coder' is not an agent of this workflow"),
    ]


def test_an_instance_is_no_second_member_beside_its_group(catalog: Catalog) -> None:
    files.write(catalog.root, {".workflows/review.yaml": "agents:\n  dev: {ref: coder}\n  own: {ref: coder.1}\n"})
    told = [(one.line, one.message) for one in faults(load_workflow, catalog, "review")]
    assert told == [(3, "dev and own refer to the same agent coder.1")]


def test_a_surplus_instance_finishes_its_work_as_its_group_is_defined_now(catalog: Catalog) -> None:
    own = definition_of("coder.3", None, catalog)
    assert (own.name, own.replicas, own.context.dir) == ("coder.3", None, "team/c.3")
    with pytest.raises(Refused, match="not found"):
        definition_of("nobody.3", None, catalog)


async def test_an_edit_adds_instances_and_removes_idle_ones(catalog: Catalog, tmp_path: Path) -> None:
    async with open_store(str(tmp_path / "store.db")) as store:
        follower = Reload(catalog=catalog, log=store.log, sleep=lambda _seconds: store.log.reader.read(agents.all))
        await register(catalog, store.writer, store.reader)
        await follower.run_once()
        for count, left in ((3, [1, 2, 3]), (1, []), (2, [1, 2])):
            files.write(catalog.root, {".agents/coder.yaml": CODER.format(count)})
            await follower.run_once([str(catalog.root / ".agents/coder.yaml")])
            found = [one.key for one in store.reader.now(agents.all)]
            assert found == ["bob", "coder", *(f"coder.{number}" for number in left)]
