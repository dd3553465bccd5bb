"""The example of memory: what an agent is told in one workflow it knows in another, and lets a colleague know."""

import json
import shutil

import pytest

from tests.architecture.sources import ROOT
from tests.project import Project


@pytest.mark.long("tests/e2e/test_memory_prompts.py, tests/kernel/api/mcp/test_mediation.py")
@pytest.mark.promise("P45", "P49", "P51")
def test_what_was_learned_in_one_workflow_is_known_in_another_and_given_as_far_as_it_may_be(
    shared_kernel: Project,
) -> None:
    shutil.copytree(ROOT / "examples/memory", shared_kernel.root, dirs_exist_ok=True)
    ran = shared_kernel.awk("run", "learn")
    assert ran.code == 0, ran.err
    kept = {one["key"]: one for one in shared_kernel.awk("agent", "memory", "keeper", "--json").json()["entries"]}
    assert (kept["blue host"]["value"], kept["blue host"]["trust"]) == ("the blue host is down on Fridays", "user")
    assert "blue host:" in (shared_kernel.root / ".agents/keeper/memory/core.yaml").read_text()
    ran = shared_kernel.awk("run", "deploy", "--jsonl")
    assert ran.code == 0, ran.err
    ended = [one for one in map(json.loads, ran.out.splitlines()) if one.get("type") == "instruction.ended"]
    here = {one["agent"]: one["instruction"] for one in ended}
    system = str(shared_kernel.ask("GET", f"/instructions/{here['keeper']}/prompt")["system"])
    assert "\n- blue host: the blue host is down on Fridays" in system
    assert "> 1: ask whether the blue host is up again" in system
    given = json.dumps(shared_kernel.ask("GET", f"/instructions/{here['deployer']}/entries"))
    assert "the blue host is down on Fridays" in given
    assert "in the safe" not in given
    (row,) = shared_kernel.awk("audit", "--json").json()["rows"]
    assert (row["receiver"], [one["key"] for one in row["given"]]) == ("deployer", ["blue host"])
