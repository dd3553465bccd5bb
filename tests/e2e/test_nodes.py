"""Nodes as users have them: a project file, the command line, and the programs that lead to other machines.

What is not installed here is skipped and says so; docker and kubectl are stood in for by programs that write down how
they were called and then do what they were asked.
"""

import os
import re
import shlex
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e.far_machines import AGENT_WORKER, Ray, Slurm, Sshd, program
from tests.e2e.processes import wait_until
from tests.project import Project, empty_project

RECORDED = """#!/bin/sh
printf '%s\\n' "$@" > {record}
while [ $# -gt 0 ] && [ "$1" != {far} ]; do shift; done
exec env AGENT_WORKER_HOME={home} "$@"
"""
UP_SECONDS = 60.0
RAY = os.environ.get("AGENT_WORKER_TEST_RAY")
"""A Python that has the package ray."""


@pytest.fixture
def nodes(tmp_path: Path, far: Path) -> Iterator[Project]:
    """A project; its kernel is gone before the nodes are."""
    assert far.is_dir()
    made = empty_project(tmp_path)
    yield made
    made.stop()


def rows(project: Project) -> dict[str, dict[str, Any]]:
    ran = project.awk("node", "list", "--json")
    assert ran.code == 0, ran.err
    return {row["name"]: row for row in ran.json()["nodes"]}


def until(project: Project, name: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def is_so() -> bool:
        found.update(rows(project).get(name, {}))
        return bool(found) and holds(found)

    try:
        wait_until(is_so, UP_SECONDS)
    except AssertionError as error:
        log = (project.state / "kernel.log").read_text("utf-8")[-3000:]
        raise AssertionError(f"{name} stays {found}\n{log}") from error
    return found


def is_up(row: dict[str, Any]) -> bool:
    return bool(row["state"] == "up")


def command_node(far: Path) -> str:
    return f"{{via: command, argv: [env, AGENT_WORKER_HOME={far}], command: {AGENT_WORKER}, labels: [gpu], workers: 3}}"


def test_a_node_of_the_project_file_is_listed_drained_and_kept_apart(nodes: Project, far: Path) -> None:
    nodes.write("moniro.yaml", f"nodes:\n  g1: {command_node(far)}\n")
    assert nodes.awk("start").code == 0
    assert "awk trust" in until(nodes, "g1", lambda row: row["state"] == "off")["why"]
    shown = nodes.awk("trust", "--yes")
    assert f"env AGENT_WORKER_HOME={far}" in shown.out + shown.err
    row = until(nodes, "g1", is_up)
    assert (row["labels"], row["workers"], row["running"], row["machine"]["cpus"]) == (["gpu"], 3, 0, os.cpu_count())
    assert "draining" in nodes.awk("node", "drain", "g1").out
    assert rows(nodes)["g1"]["state"] == "draining"
    assert nodes.awk("node", "drain", "g1", "--undo").code == 0
    until(nodes, "g1", is_up)
    assert "is defined in the project file" in nodes.awk("node", "rm", "g1").err


@pytest.mark.promise("P87")
def test_a_node_that_dials_home_needs_only_the_command_that_add_printed(nodes: Project, far: Path) -> None:
    assert nodes.awk("start").code == 0
    added = nodes.awk("node", "add", "box", "--join", "--label", "eu")
    assert added.code == 0, added.err
    words = shlex.split(added.out)
    assert words[:3] == ["agent-worker", "node", "--join"]
    box = nodes.spawn(*words[1:], env={"AGENT_WORKER_HOME": str(far)})
    try:
        assert until(nodes, "box", is_up)["labels"] == ["eu"]
        shown = psutil.Process(box.pid).cmdline()
        assert not any(word.startswith("awk1.") for word in shown), "every user of that machine reads the list"
        assert nodes.awk("node", "rm", "box").code == 0
        assert rows(nodes) == {}
    finally:
        box.send_signal(signal.SIGTERM)
        box.communicate(timeout=30)


@pytest.mark.parametrize(
    ("name", "keys", "called"),
    [
        ("docker", "image: 'a:1', args: ['--gpus', all]", "run -i --rm --init --gpus all a:1 FAR node --project"),
        ("docker", "container: box", "exec -i box FAR node --project"),
        ("kubectl", "pod: agents-0, namespace: ci", "exec -i --namespace=ci agents-0 -- FAR node --project"),
        ("kubectl", "image: 'a:1'", "run FRESH -i --rm --quiet --restart=Never --image=a:1 --command -- FAR node"),
    ],
)
def test_containers_are_started_as_their_owners_would(
    nodes: Project, far: Path, tmp_path: Path, name: str, keys: str, called: str
) -> None:
    """By contract: the program's words are recorded, and what they ask for is done in its place."""
    stand_in, record = tmp_path / "bin" / name, tmp_path / "record"
    stand_in.parent.mkdir()
    stand_in.write_text(RECORDED.format(record=record, far=AGENT_WORKER, home=far))
    stand_in.chmod(0o755)
    nodes.write("moniro.yaml", f"nodes:\n  box: {{via: {name}, {keys}, command: {AGENT_WORKER}}}\n")
    path = f"{stand_in.parent}:{os.environ['PATH']}"
    assert nodes.awk("start", "--trust", env={"PATH": path}).code == 0
    until(nodes, "box", is_up)
    words = record.read_text("utf-8").split("\n")
    fresh = [word if not word.startswith("awk-box-") else "FRESH" for word in words]
    assert " ".join(fresh).replace(str(AGENT_WORKER), "FAR").startswith(called)


@pytest.mark.long("tests/kernel/services/test_nodes.py")
@pytest.mark.skipif(program("sshd") is None, reason="no sshd here: apt-get install openssh-server")
def test_a_node_over_ssh(nodes: Project, far: Path, tmp_path: Path) -> None:
    with Sshd.running(tmp_path / "sshd") as server:
        args = ", ".join(f"'{word}'" for word in server.args)
        command = f"env AGENT_WORKER_HOME={far} {AGENT_WORKER}"
        nodes.write(
            "moniro.yaml", f"nodes:\n  h1: {{via: ssh, host: 127.0.0.1, args: [{args}], command: '{command}'}}\n"
        )
        assert nodes.awk("start", "--trust").code == 0
        first = until(nodes, "h1", is_up)
        kill_transport(nodes)
        until(nodes, "h1", lambda row: is_up(row) and row["since"] != first["since"])
        told = nodes.awk("events", "--jsonl").out.replace(" ", "")
        assert [state for state in re.findall(r'"state":"(\w+)"', told) if state in ("up", "lost")] == [
            "up",
            "lost",
            "up",
        ]


def kill_transport(project: Project) -> None:
    """kill -9 for the ssh that leads to the node."""
    (transport,) = [child for child in project.kernel().children() if child.name().startswith("ssh")]
    transport.kill()


@pytest.mark.long("tests/kernel/services/test_nodes.py")
@pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(program, ("slurmctld", "slurmd", "munged", "srun"))),
    reason="needs root and SLURM: apt-get install slurmctld slurmd slurm-client munge",
)
def test_a_node_in_an_allocation_of_slurm(nodes: Project, far: Path, tmp_path: Path) -> None:
    with Slurm.running(tmp_path / "slurm") as cluster:
        nodes.write(
            "moniro.yaml",
            f"nodes:\n  job: {{via: slurm, args: ['-c2'], command: 'env AGENT_WORKER_HOME={far} {AGENT_WORKER}'}}\n",
        )
        environ = {"SLURM_CONF": str(cluster.conf)}
        assert nodes.awk("start", "--trust", env=environ).code == 0
        until(nodes, "job", is_up)
        assert len(cluster.jobs()) == 1
        assert nodes.awk("stop", "--now").code == 0
        wait_until(lambda: not cluster.jobs(), UP_SECONDS)


@pytest.mark.long("tests/kernel/services/test_nodes.py")
@pytest.mark.skipif(RAY is None, reason="no Ray: set AGENT_WORKER_TEST_RAY to a Python with pip install ray")
def test_a_node_in_an_actor_of_ray(nodes: Project, far: Path) -> None:
    """A real Ray, in a Python of its own: the kernel never imports it."""
    assert RAY is not None
    with Ray.running(RAY) as cluster:
        command = f"env AGENT_WORKER_HOME={far} {AGENT_WORKER}"
        nodes.write(
            "moniro.yaml",
            f"nodes:\n  actor: {{via: ray, address: '{cluster.address}', python: {RAY}, resources: {{CPU: 2}}, "
            f"command: '{command}'}}\n",
        )
        assert nodes.awk("start", "--trust").code == 0
        until(nodes, "actor", is_up)


def gpu_agent(project: Project, name: str, *actions: str) -> None:
    """An agent that works on a node labelled gpu, and nowhere else; all of it is committed."""
    project.agent(name, *actions, more="needs: {labels: [gpu]}")
    project.commit()


def test_an_agent_works_on_a_node_and_uses_tools_of_the_kernel_there(nodes: Project, far: Path) -> None:
    """Its worker is there, with the node's folders; Daemon MCP comes through the node's own stream."""
    nodes.write("moniro.yaml", f"nodes:\n  g1: {command_node(far)}\n")
    tool = "tool: resource_create, args: { content: far }"
    gpu_agent(nodes, "alice", "shell: pwd > where; git add where", tool, "text: done")
    assert nodes.awk("start", "--trust").code == 0
    until(nodes, "g1", is_up)
    shown = nodes.ended(nodes.send("alice"))
    assert (shown["status"], shown["text"]) == ("done", "done")
    assert [attempt["node"] for attempt in shown["attempts"]] == ["g1"]
