"""node list, add, drain, rm: other machines on which agents work; node --join: be one of them."""

from protocol.api.processes import NodeAdded, NodeList, NodeRow
from tests.interface.conftest import Cli
from tests.interface.kernel_double import KernelDouble

AT = "2026-11-23T05:00:00.000Z"
ROW = NodeRow(name="g1", via="ssh", state="up", labels=("gpu", "eu"), running=2, workers=8, since=AT)
OFF = NodeRow(name="g2", via="ssh", state="off", labels=(), running=0, workers=8, since=AT, why="no\x1b[1m way")


def test_nodes_are_listed_with_what_keeps_them_from_being_up(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /nodes"] = NodeList(nodes=(ROW, OFF))
    lines = cli("node", "list").out.splitlines()
    assert lines[1].split() == ["g1", "ssh", "up", "2/8", "gpu,eu", AT]
    assert lines[2].split()[:5] == ["g2", "ssh", "off", "0/8", "-"]
    assert "\x1b" not in lines[2] and "way" in lines[2]
    assert [row["name"] for row in cli("node", "list", "--json").json()["nodes"]] == ["g1", "g2"]
    kernel.answers["GET /nodes"] = NodeList(nodes=())
    assert cli("node", "list").out == "no nodes: all work runs on this machine\n"


def test_a_node_is_added_as_its_flags_say(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /nodes"] = NodeAdded(node=ROW)
    words = ["g1", "--via", "ssh", "--host", "h1", "--label", "gpu", "--label", "eu", "--workers", "4"]
    assert cli("node", "add", *words, "--", "-p", "2222").out == "g1 up\n"
    assert cli("node", "add", "g2", "--via", "command", "--", "nice", "-n5").code == 0
    first, second = (asked.body for asked in kernel.of("POST", "/nodes"))
    assert first == {
        "name": "g1",
        "node": {"via": "ssh", "host": "h1", "labels": ["gpu", "eu"], "workers": 4, "args": ["-p", "2222"]},
    }
    assert second["node"] == {"via": "command", "labels": [], "argv": ["nice", "-n5"]}


def test_the_command_of_a_node_that_dials_home_is_all_that_is_printed(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /nodes"] = NodeAdded(node=ROW, command="agent-worker node --join awk1.x")
    assert cli("node", "add", "g1", "--join", "--host", "10.0.0.2").out == "agent-worker node --join awk1.x\n"
    (asked,) = kernel.of("POST", "/nodes")
    assert asked.body == {"name": "g1", "node": {"via": "join", "labels": []}, "host": "10.0.0.2"}


def test_a_node_is_drained_and_removed(cli: Cli, kernel: KernelDouble) -> None:
    """With a key, so that what is repeated is done once."""
    kernel.answers["POST /nodes/g1/drain"] = NodeList(nodes=(ROW,))
    kernel.answers["DELETE /nodes/g1"] = NodeList(nodes=())
    assert "g1" in cli("node", "drain", "g1", "--undo").out
    (asked,) = kernel.of("POST", "/nodes/g1/drain")
    assert asked.body == {"undo": True} and asked.headers["idempotency-key"]
    assert "no nodes" in cli("node", "rm", "g1", "--force").out
    (removed,) = kernel.of("DELETE", "/nodes/g1")
    assert removed.query == {"force": "true"}
