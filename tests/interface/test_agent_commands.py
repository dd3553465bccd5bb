"""agent create, list, info, edit, delete: files of the project, judged before they are put in place."""

import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from interface.agent_dir import find_agent, open_context
from protocol.agent import AgentDefinition, Prompt
from protocol.api.agents import AgentChanged, AgentInfo, AgentList, AgentRow, as_written
from protocol.api.instructions import QueueReport, QueueRow
from tests.interface.conftest import Cli
from tests.interface.hostile import HOSTILE, obeyed
from tests.interface.kernel_double import KernelDouble, problem
from tests.interface.samples import AT

ALICE = "# mine\nbackend: mock   # no key\nmock: [ {text: hi} ]\n"


@pytest.fixture
def alice(cli: Cli) -> Path:
    file = cli.root / ".agents/alice.yaml"
    file.write_text(ALICE)
    return file


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that an editor is given, and leaves behind, lie with the test."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))


def _info(name: str, *, ephemeral: bool, **more: Any) -> AgentInfo:
    definition = AgentDefinition(name=name, model="mock/x", prompt=Prompt(system="Be kind."), **more)
    file = None if ephemeral else f".agents/{name}.yaml"
    return AgentInfo(
        name=name, model="mock/x", backend="sdk", file=file, ephemeral=ephemeral, state="idle", reason=None,
        definition=as_written(definition),
    )  # fmt: skip


def _have_todo(cli: Cli) -> None:
    place = find_agent(str(cli.root), "alice")
    with open_context(place, make=True) as context, context.folder("todo", make=True) as todo:
        todo.write("index.md", "- [ ] x\n")


def _files(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if ".schema" not in path.parts)


# -- create -------------------------------------------------------------------------------------------


def test_an_agent_is_created_as_a_person_would_write_it(cli: Cli) -> None:
    """contracts 7: agent create NAME -m MODEL -s TEXT --role R --expertise a,b; its context is there and marked."""
    words = ["-m", "sonnet", "-s", "You review.\nBe kind.", "--role", "reviewer", "--expertise", "types, tests"]
    ran = cli("agent", "create", "alice", *words)
    assert (ran.code, ran.out, ran.err) == (0, ".agents/alice.yaml\n", "")
    header, *lines = (cli.root / ".agents/alice.yaml").read_text().splitlines()
    assert header.startswith("# yaml-language-server: $schema=")
    assert (cli.root / ".agents" / header.partition("=")[2]).is_file()
    assert lines == [
        "model: sonnet", "prompt:", "  system: |-", "    You review.", "    Be kind.", "soul:", "  role: reviewer",
        "  expertise: [types, tests]",
    ]  # fmt: skip
    assert (cli.root / ".agents/alice/.context").read_text().startswith("alice\n")
    made = sorted(path.name for path in (cli.root / ".agents/alice").iterdir())
    assert made == [".context", ".gitignore", "conversations", "memory", "notes", "todo"]
    assert list(cli.home.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (["-b", "mock"], {"backend", "mock"}),
        (["-m", "mock/x"], {"model", "mock"}),
        (["-m", "opus", "--role", "a reviewer"], {"model", "prompt", "soul"}),
        (["-m", "opus", "--system-file", "prompts/a.md"], {"model", "prompt"}),
    ],
)
def test_what_nobody_gave_is_filled_in(words: list[str], keys: set[str], cli: Cli) -> None:
    (cli.root / "prompts").mkdir()
    (cli.root / "prompts/a.md").write_text("Be kind.")
    assert cli("agent", "create", "alice", *words).code == 0
    assert set(yaml.safe_load((cli.root / ".agents/alice.yaml").read_text())) == keys


@pytest.mark.promise("CF08")
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["../../x", "-m", "opus"], 2, "is not a name: lower-case letters"),
        (["Bob", "-m", "opus"], 2, "is not a name"),
        (["system", "-m", "opus"], 2, "is reserved"),
        (["b" * 300, "-m", "opus"], 2, "at most 32"),
        (["\u0430lice", "-m", "opus"], 2, "is not a name"),
        (["bob"], 2, "-m/--model is missing"),
        (["bob", "-m", "nobody/x"], 78, "unknown provider 'nobody'"),
        (["bob", "-m", "opus", "-b", "clod"], 78, "clod"),
        (["bob", "-m", "opus", "--system-file", "none.md"], 78, "none.md not found"),
        (["bob", "-m", "opus", "--system-file", "../x.md"], 2, "outside the project"),
        (["bob", "-m", "opus", "-s", "a", "--system-file", "b"], 2, "--system-file and -s/--system cannot be combined"),
        (["bob", "-m", "opus", "--from", "agent-1"], 69, "no kernel is running"),
        (["bob", "--from", "none.md"], 5, "no such file"),
    ],
)
def test_what_is_no_agent_is_refused_and_nothing_is_written(words: list[str], code: int, said: str, cli: Cli) -> None:
    """Exit 2 and the rule; a definition the loader refuses is never put in place."""
    ran = cli("agent", "create", *words)
    assert (ran.code, ran.out, said in ran.err) == (code, "", True), ran.err
    assert _files(cli.root) == [".agents"]


def test_an_agent_that_is_there_is_left_alone(cli: Cli, alice: Path) -> None:
    """Exit 2; what is in its context is a new agent's only if the file is gone."""
    told = "error: agent 'alice' already exists (.agents/alice.yaml)\n  hint: use: awk agent edit alice\n"
    for words in ((), ("-m", "opus"), ("-m", "nobody/x"), ("--from", "agent-1")):
        ran = cli("agent", "create", "alice", *words)
        assert (ran.code, alice.read_text(), ran.err) == (2, ALICE, told)
    _have_todo(cli)
    alice.unlink()
    ran = cli("agent", "create", "alice", "-m", "opus")
    assert (ran.code, "alice uses the existing context in .agents/alice" in ran.err) == (0, True)
    assert (cli.root / ".agents/alice/todo/index.md").read_text() == "- [ ] x\n"


CLAUDE = """\
---
name: code-reviewer
description: Expert reviewer. Examples: <example>user: "look"</example>
tools: Read, Grep
model: sonnet
color: blue
---

You review code.

- Be kind.
"""


def test_an_agent_of_claude_is_translated_and_what_is_lost_is_said(cli: Cli) -> None:
    (cli.root / "x.md").write_text(CLAUDE)
    ran = cli("agent", "create", "reviewer", "--from", "x.md", "--role", "reviewer", "--json")
    assert ran.code == 0, ran.err
    made = yaml.safe_load((cli.root / ".agents/reviewer.yaml").read_text())
    assert made == {
        "model": "sonnet",
        "tools": ["files"],
        "prompt": {"system": "You review code.\n\n- Be kind.\n"},
        "soul": {"description": 'Expert reviewer. Examples: <example>user: "look"</example>', "role": "reviewer"},
    }
    assert ran.json()["schema"] == "awk/agent-file/1"
    assert ran.json()["remarks"] == [
        "not converted: color: blue has no counterpart yet",
        "not converted: tools: files also allows edit and write; approval: deny refuses them",
        "not converted: name: code-reviewer is called reviewer here",
    ]


def test_an_agent_from_the_folder_of_claude_goes_on_with_claude(cli: Cli) -> None:
    (cli.root / ".claude/agents").mkdir(parents=True)
    tools = "Read, Bash, Edit, Glob, WebFetch, Bash(git log:*, git diff:*)"
    (cli.root / ".claude/agents/x.md").write_text(f"---\nname: x\nmodel: sonnet\ntools: {tools}\n---\nBe kind.\n")
    ran = cli("agent", "create", "x", "--from", ".claude/agents/x.md", "--json")
    made = yaml.safe_load((cli.root / ".agents/x.yaml").read_text())
    assert (made["backend"], made["tools"]) == ("claude", ["files", "bash"]), ran.err
    assert ran.json()["remarks"] == [
        "not converted: tools: WebFetch has no counterpart",
        "not converted: tools: Bash(git log:*, git diff:*) has no counterpart",
    ]
    ran = cli("agent", "create", "y", "--from", ".claude/agents/x.md", "-b", "sdk")
    assert yaml.safe_load((cli.root / ".agents/y.yaml").read_text()).get("backend") in {"sdk", None}, ran.err


@pytest.mark.parametrize(
    ("text", "words", "code"),
    [
        ("no front matter", [], 2),
        ("---\nname: x\n---\n", [], 2),
        ("---\nname: x\nmodel: inherit\n---\nBe kind.", [], 2),
        ("---\nname: x\nmodel: inherit\n---\nBe kind.", ["-m", "opus"], 0),
        ("---\nname: x\nmodel: claude-opus-5-5\ntools:\n- Read\n---\nBe kind.", [], 0),
    ],
)
def test_a_file_of_claude_may_say_too_little(text: str, words: list[str], code: int, cli: Cli) -> None:
    (cli.root / "x.md").write_text(text)
    assert cli("agent", "create", "x", "--from", "x.md", *words).code == code


def test_an_ephemeral_agent_becomes_a_file(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /agents/agent-1"] = _info("agent-1", ephemeral=True, soul={"role": "x"}, max_steps=7)
    kernel.answers["GET /agents"] = AgentList(agents=())
    kernel.answers["POST /agents/agent-1/rename"] = {"renamed": "agent-1", "to": "alice"}
    ran = cli("agent", "create", "alice", "--from", "agent-1", "-s", "Be brief.", "-b", "clod")
    assert ran.code == 78, "what it comes to is judged"
    assert kernel.of("POST", "/agents/agent-1/rename") == []
    ran = cli("agent", "create", "alice", "--from", "agent-1", "-s", "Be brief.", "-m", "opus")
    assert (ran.code, "agent-1 was renamed to alice with its conversation" in ran.err) == (0, True), ran.err
    made = yaml.safe_load((cli.root / ".agents/alice.yaml").read_text())
    assert made == {"model": "opus", "prompt": {"system": "Be brief."}, "soul": {"role": "x"}, "max_steps": 7}
    assert [asked.body for asked in kernel.of("POST", "/agents/agent-1/rename")] == [{"to": "alice"}]


def test_an_ephemeral_agent_with_work_is_kept(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /agents/agent-1"] = _info("agent-1", ephemeral=True)
    kernel.answers["GET /agents"] = AgentList(agents=())
    kernel.answers["POST /agents/agent-1/rename"] = problem(409, "conflict", "agent-1 has work that has not ended")
    ran = cli("agent", "create", "alice", "--from", "agent-1", "-m", "opus")
    assert (ran.code, "agent-1 still exists beside alice: agent-1 has work" in ran.err) == (0, True), ran.err


def test_names_are_free_of_agents_of_run_time_too(cli: Cli, kernel: KernelDouble) -> None:
    row = AgentRow(name="bob", model="x", backend="sdk", file=None, ephemeral=True, state="idle")
    kernel.answers["GET /agents"] = AgentList(agents=(row,))
    ran = cli("agent", "create", "bob", "-m", "opus")
    assert (ran.code, "create bob --from bob" in ran.err) == (2, True)
    kernel.answers["GET /agents/carl"] = _info("carl", ephemeral=False)
    assert cli("agent", "create", "dora", "--from", "carl").code == 2


# -- list, info ---------------------------------------------------------------------------------------


def test_agents_are_listed_without_a_kernel(cli: Cli, alice: Path) -> None:
    """contracts 7: it works on files, and starts nothing; a broken file is shown as such."""
    (cli.root / ".agents/bad.yaml").write_text("model: 1\n")
    ran = cli("agent", "list", "--json")
    assert ran.json()["schema"] == "awk/agent-list/1"
    assert [(row["name"], row["state"]) for row in ran.json()["agents"]] == [("alice", "stopped"), ("bad", "error")]
    assert "no kernel is running" in ran.err
    assert list(cli.home.iterdir()) == []


def test_the_list_says_where_each_agent_is_defined(cli: Cli, kernel: KernelDouble) -> None:
    """In a file, inside a workflow that runs, or only until the kernel stops."""
    alice = AgentRow(name="alice", model="x", backend="sdk", file="a.yaml", ephemeral=False, state="idle")
    bob = msgspec.structs.replace(alice, name="bob@review", file=None, source="workflow")
    eve = msgspec.structs.replace(alice, name="eve", file=None, ephemeral=True, source="ephemeral")
    kernel.answers["GET /agents"] = AgentList(agents=(alice, bob, eve))
    _, *rows = (line.split() for line in cli("ls").out.splitlines())
    assert [(row[0], *row[4:]) for row in rows] == [
        ("alice", "file", "a.yaml"),
        ("bob@review", "workflow", "-"),
        ("eve", "ephemeral", "-"),
    ]
    assert [row["source"] for row in cli("ls", "--json").json()["agents"]] == ["file", "workflow", "ephemeral"]


def test_an_agent_whose_file_broke_is_listed_with_what_it_does(cli: Cli, kernel: KernelDouble) -> None:
    broken = AgentRow(
        name="alice", model="x", backend="sdk", file="a.yaml", ephemeral=False, state="idle", error="a.yaml:1: no"
    )
    never = msgspec.structs.replace(broken, name="bad", state="error")
    kernel.answers["GET /agents"] = AgentList(agents=(broken, never))
    _, alice, bad = cli("ls").out.splitlines()
    assert alice.split()[:2] == ["alice", "idle"]
    assert alice.endswith("a.yaml:1: no (the previous version stays in effect)")
    assert bad.endswith("a.yaml:1: no")


def test_an_agent_that_waits_is_shown_with_when_and_why(cli: Cli, kernel: KernelDouble) -> None:
    """contracts 9: the words of ps; when that ends by itself is told too."""
    kernel.answers["GET /agents/bob"] = msgspec.structs.replace(
        _info("bob", ephemeral=True), state="waiting", reason="quota", until="2026-01-01T00:00:00.000Z"
    )
    assert "waiting until 2026-01-01T00:00:00.000Z (quota)" in cli("agent", "info", "bob").out
    kernel.answers["POST /agents/bob/resume"] = AgentChanged(
        name="bob", space=None, state="waiting", reason="quota", until="2026-01-01T00:00:00.000Z"
    )
    assert cli("resume", "bob").out == "bob is waiting until 2026-01-01T00:00:00.000Z (quota)\n"


def test_an_agent_is_shown_with_what_it_knows(cli: Cli, alice: Path) -> None:
    """contracts 9: agent info: definition, context counts, workspaces, sandbox."""
    for file, text in (("memory/core.yaml", "k: v\n"), ("notes/x.md", "x\n"), ("todo/index.md", "- [ ] x\n")):
        path = cli.root / ".agents/alice" / file
        path.parent.mkdir(parents=True)
        path.write_text(text)
    info = cli("agent", "info", "alice", "--json").json()
    assert (info["schema"], info["state"], info["definition"]["backend"]) == ("awk/agent-info/1", "stopped", "mock")
    assert (info["workspaces"], info["sandbox"]) == ([], "off")
    assert info["context"] == {
        "dir": ".agents/alice",
        "memory": {"core": 1, "working": 0, "archive": 0},
        "notes": 1,
        "todo": {"open": 1, "done": 0},
    }
    text = cli("agent", "info", "alice").out
    assert "  todo:        1 open, 0 done\n" in text
    assert "backend: mock\n" in text


def test_a_kernel_that_runs_says_what_agents_do(cli: Cli, kernel: KernelDouble, alice: Path) -> None:
    row = AgentRow(name="alice", model="x", backend="sdk", file=".agents/alice.yaml", ephemeral=False, state="running")
    kernel.answers["GET /agents"] = AgentList(agents=(row,))
    kernel.answers["GET /agents/alice"] = _info("alice", ephemeral=False)
    kernel.answers["GET /agents/agent-1"] = _info("agent-1", ephemeral=True)
    assert "running" in cli("agent", "list").out
    assert cli("agent", "info", "alice", "--json").json()["context"]["notes"] == 0
    assert cli("agent", "info", "agent-1", "--json").json()["context"] is None
    assert cli("agent", "info", "bob").code == 5


@pytest.mark.promise("P16")
def test_hostile_definitions_are_shown_and_not_obeyed(cli: Cli, kernel: KernelDouble) -> None:
    text = " ".join(HOSTILE).encode("utf-8", "replace").decode()
    shown = msgspec.structs.replace(_info("alice", ephemeral=True, soul={text: text}), reason=text, workspaces=(text,))
    kernel.answers["GET /agents/alice"] = shown
    for words in (["agent", "info", "alice"], ["agent", "info", "alice", "--json"]):
        assert obeyed(cli(*words, terminal=True).out.replace("\x1b[1m", "").replace("\x1b[0m", "")) == []


# -- edit ---------------------------------------------------------------------------------------------


def test_values_are_changed_and_all_else_stays(cli: Cli, alice: Path) -> None:
    words = ["max_steps=5", "timeouts.idle=5m", "soul.expertise=[a, b]", "soul.style=a: b", "name=alice"]
    ran = cli("agent", "edit", "alice", *words)
    assert (ran.code, ran.out) == (0, ".agents/alice.yaml\n"), ran.err
    assert alice.read_text() == (
        f'{ALICE}max_steps: 5\ntimeouts:\n  idle: 5m\nsoul:\n  expertise: [a, b]\n  style: "a: b"\nname: alice\n'
    )
    words = ["max_steps=", "timeouts.idle=", "soul.expertise=", "soul.style=", "name="]
    assert cli("agent", "edit", "alice", *words, "--json").json()["changed"] is True
    assert alice.read_text() == ALICE


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["max_step=5"], 78, "did you mean max_steps?"),
        (["max_steps=many"], 78, "needs a whole number"),
        (["name=bob"], 78, "must be alice"),
        (["max_steps"], 2, "is not KEY=VALUE"),
        (["soul=[a"], 2, "is not a valid value"),
        (["timeouts.idle="], 2, "does not set timeouts.idle"),
        (["mock.x=1"], 1, "mock is not a mapping"),
        ([], 2, "no terminal"),
    ],
)
def test_what_would_be_wrong_is_not_written(words: list[str], code: int, said: str, cli: Cli, alice: Path) -> None:
    ran = cli("agent", "edit", "alice", *words)
    assert (ran.code, said in ran.err, alice.read_text()) == (code, True, ALICE), ran.err
    if code == 78:
        assert "  at .agents/alice.yaml:" in ran.err


def _editor(cli: Cli, tmp_path: Path, *texts: str) -> None:
    script = tmp_path / "editor.py"
    script.write_text(
        "import pathlib, sys\n"
        f"texts, place = {texts!r}, pathlib.Path({str(tmp_path / 'edited')!r})\n"
        "n = int(place.read_text()) if place.exists() else 0\n"
        "place.write_text(str(n + 1))\n"
        "pathlib.Path(sys.argv[1]).write_text(texts[n])\n"
    )
    cli.environ["EDITOR"] = shlex.join([sys.executable, str(script)])


def test_an_editor_is_opened_until_the_file_is_right(cli: Cli, alice: Path, tmp_path: Path) -> None:
    _editor(cli, tmp_path, "backend: mock\nmoc: 1\n", f"# better\n{ALICE}")
    ran = cli("agent", "edit", "alice", terminal=True, stdin="y\n")
    assert (ran.code, alice.read_text()) == (0, f"# better\n{ALICE}"), ran.err
    assert "did you mean mock?" in ran.err


def test_an_edit_that_is_given_up_is_kept_elsewhere(cli: Cli, alice: Path, tmp_path: Path) -> None:
    _editor(cli, tmp_path, "moc: 1\n")
    ran = cli("agent", "edit", "alice", terminal=True, stdin="n\n")
    assert (ran.code, alice.read_text()) == (78, ALICE)
    kept = Path(ran.err.rpartition("your text is in ")[2].strip())
    assert kept.read_text() == "moc: 1\n"
    cli.environ["EDITOR"] = "false"
    ran = cli("agent", "edit", "alice", terminal=True)
    assert (ran.code, "the editor exited with code 1" in ran.err, alice.read_text()) == (1, True, ALICE)


@pytest.mark.parametrize("text", ["moc: 1\n", "model: 'x", "backend: mock\nmock: [{text: hi}]\ncontext: {dir: /}\n"])
def test_a_file_that_is_wrong_can_be_mended_and_deleted(text: str, cli: Cli, alice: Path, tmp_path: Path) -> None:
    alice.write_text(text)
    _editor(cli, tmp_path, ALICE)
    assert (cli("agent", "edit", "alice", terminal=True).code, alice.read_text()) == (0, ALICE)
    alice.write_text(text)
    assert (cli("agent", "delete", "alice", "--yes").code, alice.exists()) == (0, False)


# -- delete -------------------------------------------------------------------------------------------


def test_an_agent_is_moved_to_the_trash_and_comes_back(cli: Cli, alice: Path) -> None:
    _have_todo(cli)
    before = _files(cli.root)
    ran = cli("agent", "delete", "alice", "--yes", "--json")
    deleted = ran.json()
    assert (ran.code, deleted["schema"]) == (0, "awk/agent-delete/1")
    assert [path.name for path in (cli.root / ".agents").iterdir()] == [".trash"]
    assert (cli.root / ".agents/.trash/.gitignore").read_text() == "*\n"
    assert cli("agent", "info", "alice").code == 5
    for move in deleted["restore"].split(" && "):
        _, source, target = shlex.split(move)
        (cli.root / source).rename(cli.root / target)
    assert set(before) <= set(_files(cli.root))
    assert (cli.root / ".agents/alice/todo/index.md").read_text() == "- [ ] x\n"


def test_workflows_that_need_the_agent_are_named(cli: Cli, alice: Path) -> None:
    (cli.root / ".workflows").mkdir()
    (cli.root / ".workflows/review.yaml").write_text("agents: {critic: {ref: alice}}\n")
    needed = ".workflows/review.yaml refers to alice and does not start without it"
    asked = cli("agent", "delete", "alice", terminal=True, stdin="n\n")
    assert (asked.code, needed in asked.err.partition("[y/N]")[0], alice.exists()) == (1, True, True)
    assert needed in cli("agent", "delete", "alice", "--yes", "--json").json()["remarks"]


@pytest.mark.parametrize(
    ("entry", "edit", "delete"),
    [
        (
            "  alice: {backend: mock, mock: [{text: hi}]}\n",
            (2, "edit that file"),
            (2, "alice is defined in moniro.yaml"),
        ),
        ("  alice: {backend: mock, moc: 1}\n", (78, "did you mean mock?"), (78, "did you mean mock?")),
        ("  alice: lib/alice.yaml\n", (0, ""), (2, "alice is defined in lib/alice.yaml")),
        ("  alice: lib/robert.yaml\n", (2, "edit that file"), (2, "alice is defined in lib/robert.yaml")),
    ],
)
def test_an_agent_of_the_project_file_is_edited_and_removed_there(
    entry: str, edit: tuple[int, str], delete: tuple[int, str], cli: Cli
) -> None:
    (cli.root / "lib").mkdir()
    for name in ("alice", "robert"):
        (cli.root / f"lib/{name}.yaml").write_text(ALICE)
    (cli.root / "moniro.yaml").write_text(f"agents:\n{entry}")
    for words, (code, said) in ((["edit", "alice", "max_steps=7"], edit), (["delete", "alice", "--yes"], delete)):
        ran = cli("agent", *words)
        assert (ran.code, said in ran.err) == (code, True), ran.err
    assert (cli.root / "moniro.yaml").read_text() == f"agents:\n{entry}"
    assert ("max_steps: 7" in (cli.root / "lib/alice.yaml").read_text()) is (edit[0] == 0)


@pytest.mark.promise("CF12")
def test_a_directory_that_is_not_ours_stays(cli: Cli, alice: Path) -> None:
    """Delete never touches unmarked directories, nor those marked for another."""
    alice.write_text(f"{ALICE}context: {{dir: src}}\n")
    (cli.root / "src").mkdir()
    (cli.root / "src/main.py").write_text("pass")
    _have_todo(cli)
    (cli.root / "src/.context").write_text("bob\n")
    ran = cli("agent", "delete", "alice", "--yes")
    assert (ran.code, "src was not created for alice and remains in place" in ran.err) == (0, True)
    assert (cli.root / "src/main.py").read_text() == "pass"
    assert "src" not in ran.out


@pytest.mark.parametrize(("answer", "gone"), [("y\n", True), ("\n", False), ("", False)])
def test_a_person_is_asked_first(answer: str, gone: bool, cli: Cli, alice: Path) -> None:
    """contracts 7: questions on a terminal only; the default is the safe one."""
    ran = cli("agent", "delete", "alice", terminal=True, stdin=answer)
    assert (ran.code, alice.exists()) == (0 if gone else 1, not gone)


def _idle(kernel: KernelDouble, **answers: Any) -> None:
    kernel.answers["GET /agents/alice"] = _info("alice", ephemeral=False)
    kernel.answers["GET /agents/alice/queue"] = QueueReport(agent="alice", instructions=())
    kernel.answers["DELETE /agents/alice"] = {"deleted": "alice"}
    kernel.answers |= answers


@pytest.mark.promise("HF26")
def test_an_agent_with_work_stays(cli: Cli, kernel: KernelDouble, alice: Path) -> None:
    """409, whether the work was there before or came in between."""
    queued = QueueRow(id="i8", lane="normal", status="queued", attempt=0, step=0, preempted=0, enqueued_at=AT)
    _idle(kernel, **{"GET /agents/alice/queue": QueueReport(agent="alice", instructions=(queued,))})
    ran = cli("agent", "delete", "alice", "--yes")
    assert (ran.code, "alice has unfinished work: i8 (queued)" in ran.err) == (1, True)
    _idle(kernel, **{"DELETE /agents/alice": problem(409, "conflict", "alice has work that has not ended")})
    _have_todo(cli)
    before = _files(cli.root)
    assert cli("agent", "delete", "alice", "--yes", "--json").json()["code"] == "conflict"
    assert [path for path in _files(cli.root) if "trash" not in path] == before
    assert alice.read_text() == ALICE


def test_a_kernel_that_runs_forgets_what_was_said(cli: Cli, kernel: KernelDouble, alice: Path) -> None:
    """contracts 9: the bytes go, mirrors too; what the agent knew is in the trash."""
    with (
        open_context(find_agent(str(cli.root), "alice"), make=True) as context,
        context.folder("notes", make=True) as notes,
    ):
        notes.write("x.md", "x")
    (cli.root / ".agents/alice/conversations").mkdir()
    (cli.root / ".agents/alice/conversations/2026-11-21.jsonl").write_text("{}\n")
    _idle(kernel)
    assert cli("agent", "delete", "alice", "--yes").code == 0
    assert len(kernel.of("DELETE", "/agents/alice")) == 1
    left = [path for path in _files(cli.root) if "trash" in path]
    assert any("/notes/" in path for path in left)
    assert not any("conversations" in path for path in left)


def test_an_agent_without_a_file_is_ended(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /agents/agent-1"] = _info("agent-1", ephemeral=True)
    kernel.answers["DELETE /agents/agent-1"] = {"deleted": "agent-1"}
    assert cli("agent", "delete", "agent-1", "--yes", "--json").json()["trash"] is None
    assert cli("agent", "delete", "bob", "--yes").code == 5


def test_a_kernel_of_another_project_is_not_asked(cli: Cli, kernel: KernelDouble, alice: Path) -> None:
    kernel.answers["GET /status"] = {"kernel": {"project": "/elsewhere"}}
    cli.environ |= {"AGENT_WORKER_URL": kernel.url, "AGENT_WORKER_TOKEN": kernel.token}
    ran = cli("agent", "delete", "alice", "--yes")
    assert (ran.code, "another project: /elsewhere" in ran.err, alice.exists()) == (2, True, True)


@pytest.mark.promise("XF12")
def test_a_planted_trash_is_not_used(cli: Cli, alice: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (cli.root / ".agents/.trash").symlink_to(tmp_path / "outside")
    ran = cli("agent", "delete", "alice", "--yes")
    assert (ran.code, alice.exists(), list((tmp_path / "outside").iterdir())) == (1, True, [])


@pytest.mark.parametrize("words", [["--help"], ["memory", "--help"], ["create", "--help"]])
def test_the_commands_explain_themselves(words: list[str], cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli("agent", *words).code == 0
    assert capsys.readouterr().out.startswith("usage: awk agent")


def test_flags_of_all_commands_go_anywhere(cli: Cli, alice: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / ".agents").mkdir(parents=True)
    (other / ".agents/bob.yaml").write_text(ALICE)
    there = ["--project", str(other)]
    assert cli("agent", "info", "bob").code == 5
    assert cli("agent", *there, "info", "bob").code == 0
    assert cli("agent", "info", "bob", *there, "--json").json()["name"] == "bob"
    assert cli("agent", "--json", "info", *there, "bob").json()["name"] == "bob"
