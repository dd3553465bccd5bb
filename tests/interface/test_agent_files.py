"""agent memory, notes and todo: files that people and agents share, written whole and inside the project."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from interface.context import safe_dir
from interface.context.safe_dir import SafeDir
from tests.interface.conftest import Cli
from tests.interface.hostile import HOSTILE, obeyed

ALICE = "backend: mock\nmock: [{text: hi}]\n"
CONTEXT = ".agents/alice"


@pytest.fixture(autouse=True)
def alice(cli: Cli) -> Path:
    """An agent with a file, and no context yet."""
    file = cli.root / ".agents/alice.yaml"
    file.write_text(ALICE)
    return file


def _write(cli: Cli, path: str, text: str) -> Path:
    file = cli.root / CONTEXT / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    "words", [("memory", "alice", "set", "k", "v"), ("notes", "alice", "add", "n"), ("todo", "alice", "add", "t")]
)
def test_where_nothing_can_be_written_that_is_said(words: tuple[str, ...], cli: Cli) -> None:
    """A disk that is read only, or a file in the way: which folder it is, and why."""
    folder = cli.root / CONTEXT
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("")
    ran = cli("agent", *words)
    assert (ran.code, ran.err) == (1, f"error: {CONTEXT} cannot be written: Not a directory\n")


def test_memory_is_set_shown_searched_and_removed(cli: Cli) -> None:
    """contracts 7: agent memory NAME [get K|set K V|rm K|search Q]; nothing is started."""
    assert cli("agent", "memory", "alice").out == "nothing\n"
    assert cli("agent", "memory", "alice", "set", "auth", "JWT with refresh tokens").code == 0
    assert (
        cli("agent", "memory", "alice", "set", "style", "terse", "--tier", "core", "--visibility", "public").code == 0
    )
    assert (cli.root / CONTEXT / "memory/working.yaml").read_text() == "auth: JWT with refresh tokens\n"
    shown = cli("agent", "memory", "alice", "--json").json()
    assert (shown["schema"], [entry["key"] for entry in shown["entries"]]) == ("awk/agent-memory/1", ["style", "auth"])
    assert cli("agent", "memory", "alice", "get", "auth").out == "JWT with refresh tokens\n"
    found = cli("agent", "memory", "alice", "search", "jwt TOKENS", "--json").json()["entries"]
    assert [entry["key"] for entry in found] == ["auth"]
    assert cli("agent", "memory", "alice", "rm", "auth").code == 0
    assert cli("agent", "memory", "alice", "get", "auth").code == 5
    assert cli("agent", "memory", "alice", "rm", "auth").code == 5
    assert list(cli.home.iterdir()) == []


def test_memory_keeps_what_people_wrote_around_it(cli: Cli) -> None:
    file = _write(
        cli, "memory/preferences.yaml", "# mine\nstyle:\n  value: terse # really\n  visibility: public\nx: [1, 2]\n"
    )
    assert cli("agent", "memory", "alice", "set", "style", "wordy").code == 0
    assert file.read_text() == "# mine\nstyle:\n  value: wordy # really\n  visibility: public\nx: [1, 2]\n"
    assert cli("agent", "memory", "alice", "get", "x").out == '["1", "2"]\n'
    assert cli("agent", "memory", "alice", "rm", "style").code == 0
    assert file.read_text() == "# mine\nx: [1, 2]\n"


def test_an_entry_moves_with_its_tier(cli: Cli) -> None:
    """It is never in two tiers; what is in two files is told."""
    cli("agent", "memory", "alice", "set", "k", "v")
    cli("agent", "memory", "alice", "set", "k", "v", "--tier", "core")
    assert [path.name for path in (cli.root / CONTEXT / "memory").iterdir()] == ["core.yaml"]
    _write(cli, "memory/other.yaml", "k: w\n")
    ran = cli("agent", "memory", "alice")
    assert "skipped: .agents/alice/memory/other.yaml:1: k is in core.yaml too\n" in ran.err
    cli("agent", "memory", "alice", "rm", "k")
    assert cli("agent", "memory", "alice").out == "nothing\n"


@pytest.mark.promise("SF17")
def test_what_is_torn_is_skipped_and_told(cli: Cli) -> None:
    _write(cli, "memory/core.yaml", 'a: "torn')
    _write(cli, "memory/working.yaml", "b: whole\n")
    ran = cli("agent", "memory", "alice", "--json")
    assert [entry["key"] for entry in ran.json()["entries"]] == ["b"]
    assert ran.json()["skipped"][0].startswith(".agents/alice/memory/core.yaml:1: found unexpected end")
    assert "skipped: .agents/alice/memory/core.yaml" in ran.err
    _write(cli, "notes/2026-11-21-a.md", "")
    (cli.root / CONTEXT / "notes/2026-11-21-b.md").write_bytes(b"\xff")
    _write(cli, "notes/2026-11-21-c.md", "fine\n")
    ran = cli("agent", "notes", "alice")
    assert ("fine" in ran.out, ran.err.count("skipped: ")) == (True, 2)
    _write(cli, "todo/index.md", "- [ ] a\n- [")
    ran = cli("agent", "todo", "alice")
    assert (ran.out, "line 2 is no item" in ran.err) == ("  1  [ ] a\n", True)
    ran = cli("agent", "memory", "alice", "set", "a", "new", "--tier", "core")
    assert (ran.code, "change it in an editor" in ran.err) == (1, True)
    assert (cli.root / CONTEXT / "memory/core.yaml").read_text() == 'a: "torn'


def test_notes_are_added_and_shown(cli: Cli) -> None:
    """contracts 7: agent notes NAME [add TEXT|show N]: a Markdown file each, named by when and what."""
    assert cli("agent", "notes", "alice").out == "no notes\n"
    assert cli("agent", "notes", "alice", "add", "# Learned about auth\n\nTokens expire.").code == 0
    assert cli("agent", "notes", "alice", "add", "-", stdin="# Learned about auth\n").code == 0
    files = sorted(path.name for path in (cli.root / CONTEXT / "notes").iterdir())
    assert len(files) == 2
    assert all(file.endswith(".md") and "-learned-about-auth" in file for file in files)
    shown = cli("agent", "notes", "alice", "show", "1")
    assert shown.out == "# Learned about auth\n\nTokens expire.\n"
    listed = cli("agent", "notes", "alice", "--json").json()
    assert [(note["n"], note["title"]) for note in listed["notes"]] == [
        (1, "Learned about auth"),
        (2, "Learned about auth"),
    ]
    assert cli("agent", "notes", "alice", "show", "3").code == 5
    assert cli("agent", "notes", "alice", "add", " ").code == 2


def test_todos_are_added_done_and_removed(cli: Cli) -> None:
    """contracts 7: agent todo NAME [add TEXT|done N|rm N]: a checklist, with a person's words around it."""
    file = _write(cli, "todo/index.md", "# This week\n\n- [ ] Review PR #1\n\nLater: more\n")
    assert cli("agent", "todo", "alice", "add", "Review\nPR #2").out == "  1  [ ] Review PR #1\n  2  [ ] Review PR #2\n"
    assert cli("agent", "todo", "alice", "done", "1").out.startswith("  1  [x] Review PR #1\n")
    assert file.read_text() == "# This week\n\n- [x] Review PR #1\n- [ ] Review PR #2\n\nLater: more\n"
    shown = cli("agent", "todo", "alice", "rm", "1", "--json").json()
    assert (shown["schema"], shown["items"]) == ("awk/agent-todo/1", [{"n": 1, "text": "Review PR #2", "done": False}])
    assert cli("agent", "todo", "alice", "done", "2").code == 5
    assert cli("agent", "todo", "alice", "done", "x").code == 2


@pytest.mark.promise("P16")
@pytest.mark.parametrize("text", HOSTILE[:-1], ids=ascii)
def test_what_agents_wrote_is_shown_and_not_obeyed(text: str, cli: Cli) -> None:
    _write(cli, "memory/core.yaml", '"k\\e[31m": "v"\n')
    _write(cli, "notes/2026-11-21-x.md", f"# {text}\n{text}\n")
    _write(cli, "todo/index.md", f"- [ ] a{text}\n- [\n")
    cli("agent", "memory", "alice", "set", "said", f"a{text}")
    for words in (["memory", "alice"], ["memory", "alice", "get", "said"], ["notes", "alice"],
                  ["notes", "alice", "show", "1"], ["todo", "alice"]):  # fmt: skip
        for more in ([], ["--json"]):
            ran = cli("agent", *words, *more)
            assert ran.code == 0, ran.err
            assert obeyed(ran.out + ran.err) == []
    assert cli("agent", "memory", "alice", "get", "said", "--json").json()["entries"][0]["value"] == f"a{text}"


@pytest.mark.promise("XF12", "CF12")
@pytest.mark.parametrize("part", ["memory", "notes", "todo"])
def test_a_link_leads_nowhere(part: str, cli: Cli, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (cli.root / CONTEXT).mkdir()
    (cli.root / CONTEXT / part).symlink_to(outside)
    words = {"memory": ["set", "k", "v"], "notes": ["add", "x"], "todo": ["add", "x"]}[part]
    assert cli("agent", part, "alice", *words).code == 1
    (cli.root / CONTEXT / part).unlink()
    (cli.root / CONTEXT).rmdir()
    (cli.root / CONTEXT).symlink_to(outside)
    ran = cli("agent", part, "alice", *words)
    assert (ran.code, "leads outside the project" in ran.err) == (78, True)
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("path", ["memory/core.yaml", "notes/x.md", "todo/index.md"])
def test_what_is_no_file_is_not_waited_for(path: str, cli: Cli) -> None:
    (cli.root / CONTEXT / path).parent.mkdir(parents=True)
    os.mkfifo(cli.root / CONTEXT / path)
    ran = cli("agent", path.split("/", maxsplit=1)[0], "alice")
    assert "is not a regular file" in ran.err
    (cli.root / CONTEXT / path).unlink()
    (cli.root / CONTEXT / path).symlink_to("/etc/hostname")
    assert "is a link, which is not followed" in cli("agent", path.split("/", maxsplit=1)[0], "alice").err
    (cli.root / CONTEXT / path).unlink()
    (cli.root / CONTEXT / path).mkdir()
    assert f"{CONTEXT}/{path}" in (ran := cli("agent", path.split("/", maxsplit=1)[0], "alice")).err
    assert "is not a regular file" in ran.err


@pytest.mark.promise("CF12")
@pytest.mark.parametrize("said", ["~", "/", "/tmp", ".", "../x", ".agents", ".agents/bob", ".git/x", "''"])
def test_a_context_elsewhere_must_be_the_agents_own(said: str, alice: Path, cli: Cli) -> None:
    alice.write_text(f"{ALICE}context: {{dir: {said}}}\n")
    ran = cli("agent", "todo", "alice", "add", "x")
    assert (ran.code, "context.dir" in ran.err) == (78, True)


def test_a_context_may_lie_elsewhere_in_the_project(alice: Path, cli: Cli) -> None:
    alice.write_text(f"{ALICE}context:\n  dir: team/alice/\n")
    assert cli("agent", "todo", "alice", "add", "x").code == 0
    assert (cli.root / "team/alice/todo/index.md").read_text() == "- [ ] x\n"
    assert (cli.root / "team/alice/.context").read_text().startswith("alice\n")


@pytest.mark.promise("CF08")
@pytest.mark.parametrize(("name", "code"), [("alic", 5), ("../alice", 2), ("system", 2), ("Alice", 2), ("a" * 300, 2)])
def test_an_agent_that_is_not_there_is_told(name: str, code: int, cli: Cli) -> None:
    ran = cli("agent", "memory", name, "set", "k", "v")
    assert ran.code == code
    assert ("did you mean alice?" in ran.err) == (name == "alic")
    assert [path.name for path in (cli.root / ".agents").iterdir()] == ["alice.yaml"]


def test_an_agent_whose_file_is_no_yaml_is_told(alice: Path, cli: Cli) -> None:
    alice.write_text("model: 'x")
    ran = cli("agent", "memory", "alice")
    assert (ran.code, "alice.yaml is no YAML: line" in ran.err) == (78, True)


KILLED = """
import os, sys
from interface.context.safe_dir import SafeDir
os.fsync = lambda descriptor: os.kill(os.getpid(), 9)
with SafeDir.open(sys.argv[1], "x") as folder:
    folder.write("core.yaml", "new: half\\n" * 1000)
"""


@pytest.mark.promise("SF19")
def test_a_file_is_never_half_written(cli: Cli) -> None:
    file = _write(cli, "memory/core.yaml", "old: whole\n")
    done = subprocess.run([sys.executable, "-c", KILLED, str(file.parent)], timeout=20, check=False)
    assert (done.returncode, file.read_text()) == (-9, "old: whole\n")
    assert cli("agent", "memory", "alice", "get", "old").out == "whole\n"
    assert cli("agent", "memory", "alice", "set", "new", "v", "--tier", "core").code == 0
    assert file.read_text() == "old: whole\nnew: v\n"


def test_a_file_keeps_its_mode_and_a_new_one_has_the_users(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with SafeDir.open(str(tmp_path), "x") as folder:
            folder.write("a", "1")
            assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640
            (tmp_path / "a").chmod(0o604)
            folder.write("a", "2")
            assert (tmp_path / "a").stat().st_mode & 0o777 == 0o604
            with pytest.raises(FileExistsError):
                folder.write("a", "3", new=True)
    finally:
        os.umask(before)
    assert (tmp_path / "a").read_text() == "2"


def test_two_writers_lose_nothing(cli: Cli) -> None:
    (cli.root / CONTEXT).mkdir()
    args = [sys.executable, "-m", "interface", "awk", "", "agent", "todo", "alice", "add"]
    running = [subprocess.Popen([*args, f"t{n}"], cwd=cli.root, env=cli.environ, stdout=-3) for n in range(6)]
    assert [process.wait(timeout=30) for process in running] == [0] * 6
    assert len(cli("agent", "todo", "alice", "--json").json()["items"]) == 6


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("memory", ("memory", "alice", "set", "k", "v")),
        ("memory", ("memory", "alice", "rm", "a")),
        ("todo", ("todo", "alice", "add", "t")),
    ],
)
def test_who_keeps_the_lock_for_long_keeps_no_command_waiting_for_good(
    part: str, words: tuple[str, ...], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(cli, "memory/core.yaml", "a: one\n")
    _write(cli, "todo/index.md", "- [ ] a\n")
    monkeypatch.setattr(safe_dir, "PATIENCE_SECONDS", 0.05)
    folder = os.open(cli.root / CONTEXT / part, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        ran = cli("agent", *words)
    finally:
        os.close(folder)
    assert ran.code == 1
    assert f"{CONTEXT}/{part} is as it was: another program has kept it locked for 0.05 s" in ran.err
    assert (cli.root / CONTEXT / "memory/core.yaml").read_text() == "a: one\n"
    assert (cli.root / CONTEXT / "todo/index.md").read_text() == "- [ ] a\n"
    assert cli("agent", *words).code == 0


@pytest.mark.promise("CF12")
def test_a_context_of_another_agent_is_refused(alice: Path, cli: Cli) -> None:
    bob = cli.root / ".agents/bob.yaml"
    for file in (alice, bob):
        file.write_text(f"{ALICE}context: {{dir: team/one}}\n")
    assert cli("agent", "todo", "bob", "add", "x").code == 0
    ran = cli("agent", "todo", "alice", "add", "y")
    assert (ran.code, "'team/one' is bob's" in ran.err) == (78, True)
    bob.unlink()
    assert cli("agent", "todo", "alice", "add", "y").code == 0
