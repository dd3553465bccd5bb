"""init: examples that are real definitions, and never overwrite."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from interface.cli.commands.project_setup import EXAMPLES, header
from tests.interface.conftest import Cli

REPOSITORY = Path(__file__).parents[2]
NAMES = sorted(path.name for path in EXAMPLES.iterdir())


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", NAMES)
def test_every_file_of_the_example_is_written_and_named(name: str, cli: Cli) -> None:
    ran = cli("init", "--example", name)
    assert ran.code == 0
    written = _files(cli.root)
    assert sorted(ran.out.splitlines()) == sorted(written)
    kinds = ("agent", "workflow", "project")  # those of files that people write
    schemas = {f".agents/.schema/{kind}.json": (REPOSITORY / f"schema/{kind}.json").read_bytes() for kind in kinds}
    examples = {path: header(path).encode() + content for path, content in _files(EXAMPLES / name).items()}
    assert written == examples | schemas
    assert cli("validate").code == 0


def test_a_file_names_the_schema_that_an_editor_checks_it_by(cli: Cli) -> None:
    cli("init")
    for path in cli.root.rglob("*.yaml"):
        first = path.read_text().splitlines()[0]
        schema = path.parent / first.removeprefix("# yaml-language-server: $schema=")
        title = json.loads(schema.read_text())["title"]
        assert title.startswith("An agent" if path.parent.name == ".agents" else "A workflow")


def test_one_flag_has_a_real_program_do_the_work(cli: Cli) -> None:
    assert cli("init", "--example", "team", "--backend", "claude").code == 0
    agents = {path.name: yaml.safe_load(path.read_text()) for path in (cli.root / ".agents").glob("*.yaml")}
    assert len(agents) == 4
    for agent in agents.values():
        assert (agent["backend"], agent["model"], "approval" in agent) == ("claude", "sonnet", False)
    assert cli("validate").code == 0
    assert cli("init", "--example", "hello", "--backend", "codex", "-m", "openai/gpt-5.1").code == 0
    workflow = yaml.safe_load((cli.root / ".workflows/hello.yaml").read_text())
    for agent in (yaml.safe_load((cli.root / ".agents/alice.yaml").read_text()), workflow["agents"]["bob"]):
        assert [agent[key] for key in ("backend", "approval")] == ["codex", "auto"]
        assert agent["sandbox"] in ("on", True)
    assert cli("validate").code == 0


@pytest.mark.parametrize("words", [("--model", "sonnet"), ("--backend", "codex")])
def test_a_program_without_its_model_is_refused_before_anything_is_written(words: tuple[str, str], cli: Cli) -> None:
    """--backend and --model go together; only claude's model goes without saying."""
    ran = cli("init", *words)
    assert (ran.code, "backend" in ran.err or "model" in ran.err) == (2, True)
    assert list(cli.root.rglob("*.yaml")) == []


def test_schemas_are_not_written_through_links_of_the_project(cli: Cli, tmp_path: Path) -> None:
    """A checkout may lead anywhere; only the link itself is replaced, or the folder refused."""
    precious = tmp_path / "precious"
    precious.write_text("mine")
    folder = cli.root / ".agents" / ".schema"
    folder.mkdir()
    (folder / "agent.json").symlink_to(precious)
    assert cli("init").code == 0
    assert (precious.read_text(), (folder / "agent.json").is_symlink()) == ("mine", False)
    shutil.rmtree(folder)
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    assert cli("schema", "--write").code == 1
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_the_examples_can_be_listed(cli: Cli) -> None:
    ran = cli("init", "--example", "list")
    assert [line.split()[0] for line in ran.out.splitlines()] == NAMES
    assert list(cli.root.rglob("*.yaml")) == []


def test_an_example_that_is_complete_stays_as_it_was_edited(cli: Cli) -> None:
    """Never overwrites: a second time nothing is written, and an edited file is left alone. A missing file comes."""
    cli("init")
    mine = cli.root / ".agents" / "alice.yaml"
    (cli.root / ".workflows/hello.yaml").unlink()
    assert cli("init").out == ".workflows/hello.yaml\n"
    mine.write_text("mine")
    ran = cli("init")
    assert (ran.code, ran.out, mine.read_text()) == (0, "", "mine")
    assert ".agents/alice.yaml already exists" in ran.err


@pytest.mark.parametrize("other", ["review", "a file of the user's", "a dangling link"])
def test_an_example_does_not_mix_with_other_files(other: str, cli: Cli) -> None:
    """team has agents of the names of review's: nothing of it is written."""
    mine = cli.root / ".agents/coder.yaml"
    if other == "review":
        assert cli("init", "--example", "review").code == 0
    elif other == "a dangling link":
        mine.symlink_to(cli.root / "nowhere")
    else:
        mine.write_text("mine")
    before = sorted(cli.root.rglob("*"))
    ran = cli("init", "--example", "team")
    assert (ran.code, ran.out, sorted(cli.root.rglob("*"))) == (2, "", before)
    assert ran.err.startswith("error: the example team would mix with other files: .agents/coder.yaml")
    assert "nothing was written" in ran.err


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("review", set()),
        ("team", set()),
        ("handbook", set()),
        ("memory", set()),
        ("nodes", {"moniro.yaml"}),
        ("verdict", {"notes.md"}),
    ],
)
def test_the_example_is_the_one_of_the_repository(name: str, more: set[str]) -> None:
    original = REPOSITORY / "examples" / name
    ours = _files(EXAMPLES / name)
    assert ours == {name: content for name, content in _files(original).items() if name in ours}
    assert {name.split("/")[0] for name in ours} == {".agents", ".workflows"} | more


def test_where_nothing_can_be_written_that_is_said(cli: Cli) -> None:
    """A disk that is read only, or a file in the way: no traceback, and no bug of ours."""
    (cli.root / ".workflows").write_text("")
    ran = cli("init")
    assert (ran.code, "cannot be written" in ran.err, "bug" in ran.err) == (1, True, False)


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.yaml")), ids=lambda path: path.name)
def test_examples_need_no_key(path: Path) -> None:
    document = yaml.safe_load(path.read_text())
    agents = document["agents"].values() if "agents" in document else [document]
    assert all(agent.get("model", "mock/").startswith("mock/") for agent in agents)
