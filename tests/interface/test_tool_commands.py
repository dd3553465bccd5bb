"""awk tool: the project file is changed where it has to be and nowhere else, and judged before it is put in place."""

import pytest
import yaml

from tests.interface.conftest import Cli

PROJECT = "# my project\nlimits: { workers: 4 }   # few\n"


def test_a_tool_is_added_mocked_and_run_again(cli: Cli) -> None:
    """contracts 7: tool add and mock; every other byte stays."""
    file = cli.root / "moniro.yaml"
    file.write_text(PROJECT)
    words = ["-d", "Count: lines", "-a", "path:string", "-a", "all:boolean?", "--read-only", "--timeout", "10s"]
    added = cli("tool", "add", "count", *words, "--json", "--", "wc", "-l", "--", "${path}")
    assert (added.code, added.json()["tools"], added.json()["changed"]) == (0, ["count"], True)
    text = file.read_text()
    assert text.startswith(PROJECT)
    count = {
        "description": "Count: lines", "command": ["wc", "-l", "--", "${path}"],
        "input": {"path": "string", "all": "boolean?"}, "read_only": True, "timeout": "10s",
    }  # fmt: skip
    assert yaml.safe_load(text)["tools"] == {"count": count}
    mocked = cli("tool", "mock", "count", "-", stdin="42\nlines\n")
    assert (mocked.code, "trust is for exactly what they run" in mocked.err) == (0, True)
    assert "trust" not in cli("tool", "mock", "count", "42\nlines\n").err
    assert yaml.safe_load(file.read_text())["tools"]["count"]["mock"] == "42\nlines\n"
    assert cli("tool", "mock", "count", "--off").code == 0
    assert file.read_text() == text
    assert "trust" not in cli("tool", "add", "canned", "-d", "x", "--mock", "y").err


def test_what_would_be_wrong_is_not_written(cli: Cli) -> None:
    file = cli.root / "moniro.yaml"
    file.write_text(PROJECT)
    wrong = cli("tool", "add", "bash", "-d", "x", "--", "ls")
    assert (wrong.code, wrong.err.splitlines()[0]) == (2, "error: NAME: bash is built in")
    for words, flag in (
        (["x", "-d", "y"], "the command after --: is missing"),
        (["x", "-d", "y", "--timeout", "soon", "--", "ls"], "--timeout: "),
        (["x", "-d", " ", "--", "ls"], "--description: is empty"),
        (["x", "-d", "y", "-a", "n:text", "--", "ls"], "--argument: n: 'text' is no type"),
        (["x", "-d", "y", "-a", "n", "--", "ls", "a${n}b"], "the command after --: 'a${n}b' contains ${n}"),
    ):
        wrong = cli("tool", "add", *words)
        assert (wrong.code, f"error: {flag}" in wrong.err, "moniro.yaml:" in wrong.err) == (2, True, False), wrong.err
    assert cli("tool", "add", "x", "-d", "y", "-a", "a:b:c", "--", "ls").code == 2
    assert cli("tool", "mock", "nothing", "x").code == 5
    assert file.read_text() == PROJECT


def test_tools_are_imported_and_removed(cli: Cli) -> None:
    (cli.root / "other.yaml").write_text(
        "tools:\n  one: { description: '1', mock: 'yes', read_only: true }\n"
        "  two:\n    description: Two\n    command: [ls]\n"
        "    input: { type: object, properties: { n: { type: integer, minimum: 1 } } }\n"
        "agents: { broken: {} }\n"
    )
    assert cli("tool", "import", "other.yaml").code == 0
    found = yaml.safe_load((cli.root / ".agents.yaml").read_text())["tools"]
    assert found["one"] == {"description": "1", "mock": "yes", "read_only": True}
    assert found["two"]["input"]["properties"]["n"]["minimum"] == 1
    again = cli("tool", "import", "other.yaml", "two")
    assert (again.code, "--replace" in again.err) == (2, True)
    (cli.root / ".agents/alice.yaml").write_text("backend: mock\ntools: [two]\nmock: [{ text: x }]\n")
    rows = {row["name"]: row for row in cli("tool", "list", "--json").json()["tools"]}
    assert (rows["two"]["agents"], rows["two"]["kind"], rows["one"]["kind"]) == (["alice"], "command", "mock")
    assert rows["bash"]["switch"] == "bash" and rows["grep"]["switch"] == "files"
    kept = cli("tool", "rm", "two")
    assert (kept.code, "alice has two in tools:" in kept.err) == (1, True)
    assert cli("tool", "rm", "one").code == 0
    assert list(yaml.safe_load((cli.root / ".agents.yaml").read_text())["tools"]) == ["two"]
    (cli.root / ".agents/alice.yaml").unlink()
    assert cli("tool", "rm", "two").code == 0, "also the last one"
    assert (cli("tool", "add", "one", "-d", "One.", "--", "ls").code, cli("validate").code) == (0, 0)


@pytest.mark.parametrize("text", ["nothing", "limits: {}", "tools: { x: { mock: 1, descripton: y } }"])
def test_a_file_without_tools_is_told(cli: Cli, text: str) -> None:
    (cli.root / "other.yaml").write_text(text)
    wrong = cli("tool", "import", "other.yaml")
    assert (wrong.code, "other.yaml:1:" in wrong.err) == (78, True)
    assert not (cli.root / ".agents.yaml").exists()
