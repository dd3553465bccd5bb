"""init: examples that are real definitions, and never overwrite."""

from pathlib import Path

import pytest
import yaml

from interface.cli.commands.init import EXAMPLES
from tests.interface.conftest import Cli

NAMES = sorted(path.name for path in EXAMPLES.iterdir())


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", NAMES)
def test_every_file_of_the_example_is_written_and_named(name: str, cli: Cli) -> None:
    """init --example NAME."""
    ran = cli("init", "--example", name)
    assert ran.code == 0
    assert sorted(ran.out.splitlines()) == sorted(_files(EXAMPLES / name))
    assert _files(cli.root) == _files(EXAMPLES / name)


def test_what_is_there_stays(cli: Cli) -> None:
    """Never overwrites: a second time nothing is written, and a file of the user's is left alone."""
    mine = cli.root / ".agents" / "alice.yaml"
    mine.write_text("mine")
    ran = cli("init")
    assert (ran.code, ran.out, mine.read_text()) == (0, ".workflows/hello.yaml\n", "mine")
    assert ".agents/alice.yaml exists" in ran.err
    assert cli("init").out == ""


def test_the_review_example_is_the_one_of_the_repository() -> None:
    """One example, shipped twice: in the package and for scripts/demo."""
    original = Path(__file__).parents[2] / "examples" / "review"
    ours = _files(EXAMPLES / "review")
    assert ours == {name: content for name, content in _files(original).items() if name in ours}
    assert {name.split("/")[0] for name in ours} == {".agents", ".workflows"}


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.yaml")), ids=lambda path: path.name)
def test_examples_need_no_key(path: Path) -> None:
    """A first run works without one; the comment says which line to change."""
    document = yaml.safe_load(path.read_text())
    agents = document["agents"].values() if "agents" in document else [document]
    assert all(agent.get("model", "mock/").startswith("mock/") for agent in agents)
