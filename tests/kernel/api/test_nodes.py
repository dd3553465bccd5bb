"""/nodes: what is asked for is checked before anything of it is kept."""

from typing import Any

import pytest

from tests.builders.api import ServedKernel


async def test_a_node_is_added_listed_drained_and_removed(kernel: ServedKernel) -> None:
    asked = {"name": "g1", "node": {"via": "ssh", "host": "h1", "labels": ["gpu"]}}
    added = await kernel.ask("POST", "/nodes", asked)
    assert (added.status, added.json["node"]["name"], added.json["command"]) == (201, "g1", None)
    (row,) = (await kernel.ask("GET", "/nodes")).json["nodes"]
    assert (row["labels"], row["running"], row["machine"]["cpus"]) == (["gpu"], 0, 2)
    drained = await kernel.ask("POST", "/nodes/g1/drain")
    assert drained.json["nodes"][0]["state"] == "draining"
    undone = await kernel.ask("POST", "/nodes/g1/drain", {"undo": True})
    assert undone.json["nodes"][0]["state"] == "up"
    removed = await kernel.ask("DELETE", "/nodes/g1")
    assert (removed.status, removed.json["nodes"]) == (200, [])


async def test_the_word_of_a_node_that_dials_home_comes_in_a_command(kernel: ServedKernel) -> None:
    added = await kernel.ask("POST", "/nodes", {"name": "g1", "node": {"via": "join"}, "host": "10.0.0.2"})
    assert added.json["command"] == "agent-worker node --join awk1.10.0.0.2"


@pytest.mark.parametrize(
    "asked",
    [
        {"name": "G1", "node": {"via": "join"}},
        {"name": "g1", "node": {"via": "ftp"}},
        {"name": "g1", "node": {"via": "ssh"}},
        {"name": "g1", "node": {"via": "ssh", "host": "-oProxyCommand=x"}},
        {"name": "g1", "node": {"via": "ssh", "host": "h", "args": ["a\nb"]}},
        {"name": "g1", "node": {"via": "ssh", "host": "h", "nonsense": 1}},
        {"name": "g1", "node": {"via": "join"}, "host": "x" * 300},
    ],
)
async def test_what_is_wrong_is_refused_and_nothing_is_kept(kernel: ServedKernel, asked: dict[str, Any]) -> None:
    refused = await kernel.ask("POST", "/nodes", asked)
    assert refused.status == 400
    assert (await kernel.ask("GET", "/nodes")).json["nodes"] == []


async def test_force_is_true_or_false(kernel: ServedKernel) -> None:
    assert (await kernel.ask("DELETE", "/nodes/g1?force=perhaps")).status == 400
    assert (await kernel.ask("DELETE", "/nodes/g1?force=true")).status == 404
