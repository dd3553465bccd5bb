"""Nodes of the project file: mistakes at their places, what each demands, and the command line of each engine."""

import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.agents.engines import ENGINES, RAY_RELAY, command_line, engine_environment, engine_of, node_faults
from kernel.agents.project import ProjectFileContent, parse_project
from kernel.agents.sections import address_of, node_units
from protocol.project import NodeSettings, ProjectDefinition
from tests.kernel.refusals import faults

FAR = ("node", "--project-id", "p1")
SOUND: dict[str, tuple[dict[str, object], list[str]]] = {
    "ssh": ({"host": "h1", "args": ["-p", "2222"]}, ["-p", "2222", "h1", "--", "agent-worker node --project-id p1"]),
    "slurm": ({"args": ["--mem=4G"]}, ["--mem=4G", "--", "agent-worker", *FAR]),
    "command": (
        {"argv": ["env", "A=b"], "command": "/opt/x/agent-worker"},
        ["env", "A=b", "/opt/x/agent-worker", *FAR],
    ),
}


def made(via: str, **more: object) -> NodeSettings:
    return msgspec.convert({"via": via, **more}, NodeSettings)


def parsed(text: str) -> ProjectDefinition:
    return parse_project(ProjectFileContent("moniro.yaml", text.encode())).definition


@pytest.mark.parametrize("via", SOUND)
def test_an_engine_is_called_with_the_words_that_are_given(via: str) -> None:
    given, expected = SOUND[via]
    line = command_line(made(via, **given), FAR, "fresh")
    assert list(line[-len(expected) :]) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"via": "docker", "image": "a:1"}, "docker run -i --rm --init a:1 agent-worker node --project-id p1"),
        ({"via": "docker", "container": "c", "args": ["-u", "me"]}, "docker exec -i -u me c agent-worker node"),
        ({"via": "kubectl", "pod": "p-0"}, "kubectl exec -i p-0 -- agent-worker node --project-id p1"),
        (
            {"via": "kubectl", "pod": "p-0", "namespace": "ci", "container": "main"},
            "kubectl exec -i --namespace=ci --container=main p-0 -- agent-worker",
        ),
        (
            {"via": "kubectl", "image": "a:1"},
            "kubectl run fresh -i --rm --quiet --restart=Never --image=a:1 --command -- agent-worker node",
        ),
        ({"via": "slurm", "host": "n7"}, "srun -Q -N1 -n1 --unbuffered --kill-on-bad-exit=1 --nodelist=n7 -- agent"),
        (
            {"via": "ray", "resources": {"CPU": 2}},
            f'{sys.executable} -I {RAY_RELAY} --resources={{"CPU":2.0}} -- agent',
        ),
    ],
)
def test_the_command_lines_of_the_engines(given: dict[str, object], expected: str) -> None:
    settings = msgspec.convert(given, NodeSettings)
    assert not list(node_faults(settings))
    assert " ".join(command_line(settings, FAR, "fresh")).startswith(expected)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("nodes: {Gpu: {via: ssh, host: h}}", "nodes.Gpu"),
        ("nodes: {g: {via: ftp}}", "nodes.g.via"),
        ("nodes: {g: {via: ssh}}", "nodes.g.via"),
        ("nodes: {g: {via: docker}}", "nodes.g.via"),
        ("nodes: {g: {via: ssh, host: '-oProxyCommand=x'}}", "nodes.g.host"),
        ('nodes: {g: {via: ssh, host: "h\\nx"}}', "nodes.g.host"),
        ("nodes: {g: {via: ssh, host: ''}}", "nodes.g.host"),
        ("nodes: {g: {via: ssh, host: h1 h2}}", "nodes.g.host"),
        ("nodes: {g: {via: docker, image: 'a b'}}", "nodes.g.image"),
        ('nodes: {g: {via: ssh, host: h, args: ["a\\u0007b"]}}', "nodes.g.args"),
        ("nodes: {g: {via: ssh, host: h, image: x}}", "nodes.g.image"),
        ("nodes: {g: {via: join, host: h}}", "nodes.g.host"),
        ("nodes: {g: {via: command, argv: ['-x']}}", "nodes.g.argv"),
        ('nodes: {g: {via: command, command: "a \'b"}}', "nodes.g.command"),
        ("nodes: {g: {via: command, command: ''}}", "nodes.g.command"),
        ("nodes: {g: {via: command, workers: 0}}", "nodes.g.workers"),
        ("nodes: {g: {via: command, labels: ['a b']}}", "nodes.g.labels"),
        ("nodes: {g: {via: command, labels: [a, a]}}", "nodes.g.labels"),
        ("nodes: {g: {via: ray, least: 3, most: 2}}", "nodes.g.least"),
        ("nodes_listen: everywhere", "nodes_listen"),
        ("nodes_listen: 'h:99999'", "nodes_listen"),
    ],
)
def test_a_mistake_is_told_where_it_stands(text: str, where: str) -> None:
    assert [error.where for error in faults(parsed, text)] == [where]


@given(
    via=st.sampled_from(sorted(ENGINES)),
    words=st.fixed_dictionaries(
        {}, optional={key: st.text(max_size=8) for key in ("host", "image", "container", "pod", "namespace", "address")}
    ),
    command=st.text(max_size=12),
)
def test_what_is_let_through_gives_no_program_an_option_that_nobody_wrote(
    via: str, words: dict[str, str], command: str
) -> None:
    settings = NodeSettings(via=via, command=command, **words)  # type: ignore[arg-type]
    if list(node_faults(settings)) or engine_of(settings) is None:
        return
    line = command_line(settings, FAR, "fresh")
    assert all(word.isprintable() for word in line)
    assert not any(value.startswith("-") for value in words.values())
    assert line[0] and not line[0].startswith("-")


@pytest.mark.promise("P19")
def test_each_node_is_a_demand_in_words(tmp_path: Path) -> None:
    text = "nodes:\n  g: {via: ssh, host: h1, labels: [gpu]}\n  j: {via: join}\nnodes_listen: '0.0.0.0:7700'\n"
    units = {one.subject: one for one in node_units(parsed(text), tmp_path)}
    assert list(units) == ["node g", "node j", "nodes_listen"]
    assert "ssh -T -o BatchMode=yes" in units["node g"].demands[0]
    assert "0.0.0.0:7700" in units["nodes_listen"].demands[0]
    for old, new, changed in (("h1", "h2", 1), ("[gpu]", "[cpu]", 0), ("0.0.0.0", "127.0.0.1", 1)):
        again = {one.digest for one in node_units(parsed(text.replace(old, new)), tmp_path)}
        assert len(again - {one.digest for one in units.values()}) == changed


@pytest.mark.promise("P19")
def test_a_file_of_the_project_that_a_node_is_reached_by_is_pinned(tmp_path: Path) -> None:
    text = """nodes:
  t: {via: command, argv: [./tunnel, box7]}
  s: {via: ssh, host: h1, args: ['-F', config], command: ./agent-worker}
  r: {via: ray, python: env/python}
  p: {via: command, argv: [tunnel]}
"""
    before = {one.subject: one.digest for one in node_units(parsed(text), tmp_path)}
    (tmp_path / "env").mkdir()
    for name, subject in (("tunnel", "node t"), ("config", "node s"), ("env/python", "node r"), ("agent-worker", "")):
        (tmp_path / name).write_text("#!/bin/sh")
        after = {one.subject: one.digest for one in node_units(parsed(text), tmp_path)}
        assert [one for one in after if after[one] != before[one]] == [subject] * bool(subject)
        before = after


@pytest.mark.promise("P18")
def test_an_engine_sees_no_key_of_a_provider() -> None:
    environ = {"ANTHROPIC_API_KEY": "sk-secret", "SSH_AUTH_SOCK": "/s", "HOME": "/h", "PATH": "/usr/bin"}
    seen = engine_environment(made("ssh", host="h"), environ)
    assert "ANTHROPIC_API_KEY" not in seen
    assert seen["SSH_AUTH_SOCK"] == "/s"
    assert "SSH_AUTH_SOCK" not in engine_environment(made("docker", image="x"), environ)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0.0.0.0:7", ("0.0.0.0", 7)), ("[::1]:0", ("::1", 0)), ("h.example:65535", ("h.example", 65535))],
)
def test_an_address_is_a_host_and_a_port(text: str, expected: tuple[str, int]) -> None:
    """IPv6 in brackets."""
    assert address_of(text) == expected


@given(text=st.text(max_size=30))
def test_no_text_makes_an_address_fall_over(text: str) -> None:
    found = address_of(text)
    assert found is None or 0 <= found.port <= 65535
