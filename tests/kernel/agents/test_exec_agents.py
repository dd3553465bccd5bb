"""Agents that a program of the user's own runs: what their files must say, and what they need trust for."""

from pathlib import Path

import pytest

from kernel.agents.backends import check_trusted_files, command_of
from kernel.agents.catalog import Catalog
from kernel.agents.prices import has_price
from kernel.agents.providers import CauseError, resolve
from kernel.agents.resources import ABSENT, AgentResources, resources_of
from kernel.agents.trust import demands
from kernel.inspect.validate import validate
from protocol.project import ProjectDefinition
from tests.kernel.inspect.files import write
from tests.kernel.refusals import faults
from tests.worker.fake_kernel import make_start


def catalog(root: Path, text: str) -> Catalog:
    write(root, {".agents/alice.yaml": text})
    return Catalog(root)


def test_it_needs_a_command_and_may_do_without_a_model_and_a_prompt(tmp_path: Path) -> None:
    """contracts 1: any executable that speaks the frames; what it asks is its own business."""
    alice = catalog(tmp_path, "backend: exec\ncommand: [python3, mine.py]\n").agent("alice").definition
    found = resolve(alice, ProjectDefinition(), {})
    assert (found.provider, has_price(alice, ProjectDefinition())) == (None, True)
    own = resources_of(alice, ProjectDefinition(), tmp_path)
    assert demands(alice, ProjectDefinition(), own) == ("alice is run by: python3 mine.py",)


def test_a_model_that_it_names_is_resolved_for_it(tmp_path: Path) -> None:
    text = "backend: exec\ncommand: [mine]\nmodel: openai/gpt-5\n"
    alice = catalog(tmp_path, text).agent("alice").definition
    provider = resolve(alice, ProjectDefinition(), {"OPENAI_API_KEY": "sk"}).provider
    assert provider is not None
    assert (provider.name, provider.api_key) == ("openai", "sk")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("backend: exec\n", "command"),
        ("backend: exec\ncommand: ['']\n", "command"),
        ("backend: exec\ncommand: [mine]\nsandbox: on\n", "sandbox"),
        ("backend: claude\nmodel: sonnet\nprompt: { system: hi }\ncommand: [mine]\n", "command"),
    ],
)
def test_what_does_not_go_together_is_a_mistake_of_the_file(tmp_path: Path, text: str, where: str) -> None:
    assert [error.where for error in faults(catalog(tmp_path, text).agent, "alice")] == [where]


@pytest.mark.promise("P19")
def test_another_content_of_its_program_is_another_program(tmp_path: Path) -> None:
    write(tmp_path, {"tools/echo.py": "one", "more.py": "x"})
    alice = catalog(tmp_path, "backend: exec\ncommand: [tools/echo.py, more.py, gone.py]\n").agent("alice").definition

    def found() -> AgentResources:
        return resources_of(alice, ProjectDefinition(), tmp_path)

    (before,) = found().demands
    assert before.startswith("alice is run by: tools/echo.py more.py gone.py (tools/echo.py: sha256:")
    assert found().pinned["gone.py"] == ABSENT
    for name in ("tools/echo.py", "more.py", "gone.py"):
        write(tmp_path, {name: "another"})
        (after,) = found().demands
        assert after != before
        before = after


@pytest.mark.promise("P19")
def test_a_program_that_changed_since_is_not_run(tmp_path: Path) -> None:
    write(tmp_path, {"run": "one", "more.py": "x", "tree/more.py": "x"})
    (tmp_path / "run").chmod(0o755)
    alice = catalog(tmp_path, "backend: exec\ncommand: [./run, more.py, --fast]\n").agent("alice").definition
    pinned = dict(resources_of(alice, ProjectDefinition(), tmp_path).pinned)
    command = command_of(alice, tmp_path, "/usr/bin")
    start = make_start(command=command, pinned=pinned, cwd=str(tmp_path / "tree"))
    check_trusted_files(alice, start)
    for name, text in (("tree/more.py", "mine"), ("run", "two")):
        write(tmp_path, {"tree/more.py": "x", name: text})
        with pytest.raises(CauseError, match="has changed since it was trusted") as caught:
            check_trusted_files(alice, start)
        assert caught.value.cause == "untrusted"


@pytest.mark.promise("P19")
def test_a_server_that_changed_since_is_not_left_to_a_cli(tmp_path: Path) -> None:
    write(tmp_path, {"serve.py": "one"})
    text = "backend: claude\nmodel: sonnet\nprompt: { system: x }\n"
    alice = catalog(tmp_path, f"{text}mcp_servers: {{ own: {{ command: python3, args: [serve.py] }} }}\n").agent(
        "alice"
    )
    own = resources_of(alice.definition, ProjectDefinition(), tmp_path)
    start = make_start(pinned=dict(own.pinned), mcp_servers=dict(own.servers), cwd=str(tmp_path / "tree"))
    write(tmp_path, {"tree/serve.py": "one"})
    check_trusted_files(alice.definition, start)
    write(tmp_path, {"tree/serve.py": "two"})
    with pytest.raises(CauseError, match=r"serve\.py, which agent alice runs, has changed"):
        check_trusted_files(alice.definition, start)


def test_a_workflow_may_have_its_program_played_by_a_script(tmp_path: Path) -> None:
    files = {
        ".agents/alice.yaml": "backend: exec\ncommand: [mine]\n",
        ".workflows/test.yaml": "agents: { alice: { ref: alice, backend: mock, mock: [{ text: hi }] } }\n",
    }
    write(tmp_path, files)
    assert [file.ok for file in validate(tmp_path, tmp_path, ()).files] == [True, True]
