"""docs/how-to/operate/add-machines.md as a reader follows it: write its files and run its commands in order.

In place of a model there is a script. Of engines that are not here (kubectl) the words are compared that they get.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from kernel.agents.engines import command_line, node_faults
from kernel.agents.project import ProjectFileContent, parse_project
from tests.builders.git import IDENTITY
from tests.e2e.far_machines import AGENT_WORKER, Ray, Slurm, Sshd, end_node_processes, program
from tests.e2e.processes import wait_until
from tests.pages import blocks, part
from tests.project import Project, empty_project

PAGE: Final = Path(__file__).parents[2] / "docs/how-to/operate/add-machines.md"
RAY: Final = os.environ.get("AGENT_WORKER_TEST_RAY")
SCRIPT: Final = "backend: mock\nmock: [{ text: hello }]"
UP_SECONDS: Final = 60.0


class Reader:
    """Somebody who follows the page in a project."""

    def __init__(self, project: Project, bin_dir: Path, environ: dict[str, str]) -> None:
        self.project = project
        path = f"{bin_dir}:{AGENT_WORKER.parent}:{os.environ['PATH']}"
        self.environ = {**project.environ, **IDENTITY, "PATH": path, **environ}
        self.said: list[str] = []

    def follow(self, heading: str) -> None:
        for block in part(PAGE, heading):
            if block.kind == "yaml" and block.path is not None:
                text = re.sub(r"model: sonnet\nprompt: .*", SCRIPT, block.text)
                self.project.write(block.path, text)
            if block.kind == "console":
                for line in block.script.splitlines():
                    self.run(line)

    def run(self, line: str) -> None:
        """Run one line; where it sends something, once the node is up."""
        if "awk send" in line:
            try:
                wait_until(self.all_up, UP_SECONDS)
            except AssertionError as error:
                raise AssertionError(self.project.ask("GET", "/nodes")) from error
        ran = subprocess.run(
            ["sh", "-c", line],
            cwd=self.project.root,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ran.returncode == 0, f"{line}\n{ran.stdout}{ran.stderr}"
        self.said.append(ran.stdout)

    def all_up(self) -> bool:
        nodes = self.project.ask("GET", "/nodes")["nodes"]
        return all(one["state"] == "up" for one in nodes)

    def nodes_of_work(self, count: int) -> list[str]:
        """Where each of so many pieces of work was done, in their order."""
        shown = [self.project.ask("GET", f"/instructions/i{number}") for number in range(1, count + 1)]
        assert all(one["text"] == "hello" for one in shown)
        return [one["attempts"][-1]["node"] or "" for one in shown]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = empty_project(tmp_path)
    yield made
    made.stop()
    end_node_processes(tmp_path)


def test_every_file_of_the_page_is_right() -> None:
    text = PAGE.read_text("utf-8")
    projects = [one.text for one in blocks(text) if one.path == "moniro.yaml"]
    assert len(projects) == 5
    for one in projects:
        definition = parse_project(ProjectFileContent("moniro.yaml", one.encode())).definition
        assert not [fault for settings in definition.nodes.values() for fault in node_faults(settings)]
    (pod,) = (
        parse_project(ProjectFileContent("moniro.yaml", one.encode())).definition.nodes
        for one in projects
        if "pod" in one
    )
    line = " ".join(command_line(pod["pod"], ("node",), "fresh"))
    assert line == (
        "kubectl run fresh -i --rm --quiet --restart=Never --image=registry.example/agents:1 --namespace=ci "
        "--command -- agent-worker node"
    )


@pytest.mark.long("test_every_file_of_the_page_is_right")
@pytest.mark.skipif(program("sshd") is None, reason="no sshd here: apt-get install openssh-server")
def test_the_way_from_one_machine_to_two(project: Project, tmp_path: Path) -> None:
    """With a real sshd that is called h1, whose PATH has agent-worker as the page asks for."""
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    far = f"PATH={AGENT_WORKER.parent}:/usr/bin:/bin HOME={tmp_path}/h1"
    with Sshd.running(tmp_path / "sshd", setenv=far) as server:
        (tmp_path / "h1").mkdir()
        ssh = bin_dir / "ssh"
        ssh.write_text(f'#!/bin/sh\nexec {program("ssh")} {" ".join(server.args)} -o HostName=127.0.0.1 "$@"\n')
        ssh.chmod(0o755)
        reader = Reader(project, bin_dir, {})
        reader.follow("## 1. One machine")
        project.stop()  # the page's reader has one PATH; here the kernel's was another
        reader.run("awk start")
        reader.follow("## 2. A second machine, over ssh")
        assert reader.nodes_of_work(2) == ["", "h1"]


@pytest.mark.long("test_every_file_of_the_page_is_right")
@pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(program, ("slurmctld", "slurmd", "munged", "srun"))),
    reason="needs root and SLURM: apt-get install slurmctld slurmd slurm-client munge",
)
def test_the_way_to_slurm(project: Project, tmp_path: Path) -> None:
    with Slurm.running(tmp_path / "slurm") as cluster:
        reader = begin(project, tmp_path, {"SLURM_CONF": str(cluster.conf)})
        reader.follow("### SLURM")
        assert reader.nodes_of_work(1) == ["batch"]
        project.stop()


@pytest.mark.long("test_every_file_of_the_page_is_right")
@pytest.mark.skipif(RAY is None, reason="no Ray: set AGENT_WORKER_TEST_RAY to a Python with pip install ray")
def test_the_way_to_ray(project: Project, tmp_path: Path) -> None:
    assert RAY is not None
    with Ray.running(RAY) as cluster:
        reader = begin(project, tmp_path, {})
        (file,) = (one for one in part(PAGE, "### Ray") if one.path == "moniro.yaml")
        project.write("moniro.yaml", file.text.replace("address: auto", f"address: '{cluster.address}', python: {RAY}"))
        for line in ("awk trust --yes", "awk node list", 'awk send coder "say hello" --wait'):
            reader.run(line)
        assert reader.nodes_of_work(1) == ["ray-1"]
        project.stop()


def begin(project: Project, tmp_path: Path, environ: dict[str, str]) -> Reader:
    """A reader who has an agent that wants a big machine, in a project with a commit, and a kernel."""
    reader = Reader(project, tmp_path, environ)
    project.write(".agents/coder.yaml", f"{SCRIPT}\nneeds: {{ labels: [big] }}\n")
    for line in ("git init -q . && git add -A && git commit -qm agents", "awk start"):
        reader.run(line)
    return reader
