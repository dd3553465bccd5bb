"""validate, config, schema, run --dry-run: what files mean and what is wrong with them, told without a kernel."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from interface.cli.output import Screen, error_lines
from interface.offline import mistake, places_of
from kernel.inspect import disk_usage
from protocol.api.document import FileError
from tests.architecture.sources import ROOT
from tests.interface.conftest import Cli
from tests.kernel.inspect.files import MOCK, review, write


def test_validate_says_ok_for_each_file_and_exits_0(cli: Cli) -> None:
    review(cli.root)
    cli.environ |= {"ANTHROPIC_API_KEY": "k", "ACME_KEY": "k"}
    ran = cli("validate")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == ["ok     moniro.yaml", "ok     .agents/alice.yaml", "ok     .workflows/review.yaml"]


def test_validate_of_an_empty_project_says_so(cli: Cli) -> None:
    ran = cli("validate")
    assert (ran.code, ran.out) == (0, "nothing to check: no .agents, no .workflows, no project file\n")


def test_validate_json_is_the_document_and_nothing_else(cli: Cli) -> None:
    write(cli.root, {".agents/bob.yaml": "backend: mok\n"})
    ran = cli("validate", ".agents/bob.yaml", "--json")
    assert (ran.code, ran.err) == (78, "")
    document = ran.json()
    assert document["schema"] == "awk/validate/1"
    (file,) = document["files"]
    assert (file["path"], file["kind"], file["ok"]) == (".agents/bob.yaml", "agent", False)
    (error,) = file["errors"]
    assert {key: error[key] for key in ("path", "line", "column", "where", "message", "hint")} == {
        "path": ".agents/bob.yaml", "line": 1, "column": 10, "where": "backend", "message": "'mok' is not allowed",
        "hint": "did you mean mock?",
    }  # fmt: skip


def test_config_shows_values_as_yaml_with_their_origins(cli: Cli) -> None:
    review(cli.root)
    lines = [line.split("  # ") for line in cli("config", "alice@review").out.splitlines()]
    shown = {part[0].strip(): part[1] for part in lines if len(part) == 2}
    assert shown["tool: 1m"] == ".workflows/review.yaml:5 (override)"
    assert shown["system: You are Alice."] == ".agents/alice.yaml:2"
    assert shown["max_steps: 100"] == "default"
    assert cli("config", "review").out.startswith("# workflow review\nagents:\n  alice:\n    model: anthropic/")


def test_config_json_has_the_definition_and_the_origins(cli: Cli) -> None:
    write(cli.root, {".agents/bob.yaml": MOCK})
    document = cli("config", ".agents/bob.yaml", "--json").json()
    assert (document["schema"], document["kind"], document["name"]) == ("awk/config/1", "agent", "bob")
    assert document["definition"]["mock"] == [{"do": [{"text": "done"}]}]
    for path in document["origins"]:
        value = document["definition"]
        for key in path.split("."):
            value = value[key]


@pytest.mark.promise("P16")
def test_a_text_of_a_file_cannot_reach_the_terminal_as_a_command(cli: Cli) -> None:
    write(cli.root, {".agents/bob.yaml": 'backend: mock\nmock: [{text: "\\e[2J"}]\nprompt: {system: "\\e[31mx"}\n'})
    ran = cli("config", "bob")
    assert ran.code == 0
    assert "\x1b" not in ran.out + ran.err
    assert "\x1b" not in cli("validate").err


@pytest.mark.parametrize(("asked", "code"), [("nobody", 5), ("none.yaml", 5), ("alice@nowhere", 5), ("-x", 2)])
def test_what_is_not_there_has_the_exit_code_of_every_command(asked: str, code: int, cli: Cli) -> None:
    review(cli.root)
    ran = cli("config", asked, "--json")
    assert (ran.code, ran.json()["exit_code"]) == (code, code)


def test_schema_prints_one_and_writes_them_all(cli: Cli) -> None:
    assert json.loads(cli("schema", "workflow").out)["title"].startswith("A workflow")
    assert cli("schema", "--write").out.splitlines() == [
        ".agents/.schema/agent.json",
        ".agents/.schema/workflow.json",
        ".agents/.schema/project.json",
    ]
    assert cli("schema", "--write").out == ""


def test_a_dry_run_says_what_would_start_and_starts_nothing(cli: Cli) -> None:
    """Members, models, setup with params filled in, kickoff, trust; exit 0 though trust and keys are missing."""
    review(cli.root)
    ran = cli("run", "review", "--dry-run", "--", "--branch", "main")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[0] == "review:main would start from .workflows/review.yaml; nothing was run"
    for line in (
        "  bob: sdk acme/large at https://acme.example/v1, key from $ACME_KEY (not set)",
        "  branch: main",
        "  git log main ${{ env.RANGE }}  # becomes ${{ log }}",
        "kickoff, to alice:",
        "  @alice review main:",
        "  ${{ log }}",
        "  it reads $RANGE of your environment",
        "  $RANGE is not set",
    ):
        assert line in ran.out.splitlines()
    assert not list(cli.home.rglob("daemon.*"))


def test_a_dry_run_shows_a_parameter_as_texts_will_have_it(cli: Cli) -> None:
    """contracts 1: a bool is true or false, in the list as in the kickoff."""
    text = "agents: {x: {backend: mock, mock: [{text: x}]}}\nparams: [{name: deep, type: bool}]\n"
    write(cli.root, {".workflows/w.yaml": f"{text}kickoff: '@x ${{{{ params.deep }}}}'\n"})
    said = cli("run", "w", "--dry-run", "--", "--deep").out.splitlines()
    assert {"  deep: true", "  @x true"} <= set(said)


@pytest.mark.parametrize(
    ("files", "words", "code"),
    [
        ({}, ["--dry-run"], 2),
        ({".agents/alice.yaml": "modell: x\n"}, ["--dry-run", "--", "-b", "x"], 78),
        ({".workflows/review.yaml": "agents: {alice: {ref: alice}}\n"}, ["--dry-run"], 2),
    ],
)
def test_a_dry_run_fails_as_the_run_would(files: dict[str, str], words: list[str], code: int, cli: Cli) -> None:
    review(cli.root)
    write(cli.root, files)
    ran = cli("run", "review", "--json", *words)
    assert (ran.code, ran.json()["schema"]) == (code, "awk/error/1")


def test_a_dry_run_looks_at_the_flags_of_the_run(cli: Cli) -> None:
    text = "agents: {x: {backend: mock, mock: [{usage: {input_tokens: 9}}]}}\nkickoff: '@x go'\n"
    write(cli.root, {".workflows/w.yaml": text})
    assert cli("run", "w", "--dry-run", "--exit-code-from", "nobody").code == 5
    ran = cli("run", "w", "--dry-run", "--max-cost", "1")
    assert (ran.code, "a budget in USD needs prices" in ran.err) == (2, True)


def test_a_dry_run_of_a_file_takes_the_path_as_run_does(cli: Cli) -> None:
    review(cli.root)
    document = cli("run", ".workflows/review.yaml", "--dry-run", "--json", "--", "-b", "x").json()
    assert (document["schema"], document["run"]) == ("awk/dry-run/1", "review:main")
    assert cli("run", str(Path(".workflows") / "none.yaml"), "--dry-run").code == 5


def test_a_vote_that_would_decide_is_told_beforehand(cli: Cli) -> None:
    """contracts 1: verdict, in the plan and in what a file comes to; the example of it is sound."""
    shutil.copytree(ROOT / "examples/verdict", cli.root, dirs_exist_ok=True)
    assert cli("validate").code == 0
    ran = cli("run", "release", "--dry-run")
    assert "decided by:\n  the approval release; a no is exit code 8\n" in ran.out
    assert cli("run", "release", "--dry-run", "--json").json()["verdict"] == "release"
    told = next(line for line in cli("config", "release").out.splitlines() if line.startswith("verdict:"))
    assert told.split() == ["verdict:", "release", "#", ".workflows/release.yaml:5"]


MISTAKES: Final = Path(__file__).parent / "mistakes"
NAMES: Final = sorted(path.stem for path in (MISTAKES / "terminal").iterdir())


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The answer of validate for all of them: name of the file -> its entry."""
    cli = Cli(root=MISTAKES, home=tmp_path_factory.mktemp("home"))
    ran = cli("validate", "--json")
    assert (ran.code, ran.err) == (78, "")
    return {Path(file["path"]).stem: file for file in ran.json()["files"]}


def test_there_are_ten_and_none_is_forgotten(checked: dict[str, Any]) -> None:
    assert len(NAMES) >= 10
    assert {name for name, file in checked.items() if not file["ok"]} == set(NAMES)
    assert set(checked) - set(NAMES) == {"helper"}


@pytest.mark.parametrize("name", NAMES)
def test_the_terminal_shows_what_where_and_what_to_do(name: str, checked: dict[str, Any]) -> None:
    """contracts 7: error, place, line and caret, hint; no traceback."""
    places = places_of(msgspec.convert(checked[name]["errors"], list[FileError]))
    lines = [line for place in places for line in error_lines(mistake(place), Screen())]
    assert "\n".join([*lines, ""]) == (MISTAKES / "terminal" / f"{name}.txt").read_text("utf-8")


def test_for_people_the_mistakes_go_to_stderr_and_a_line_a_file_to_stdout(cli: Cli) -> None:
    for name in ("leading-zero", "unknown-key"):
        (cli.root / ".agents" / f"{name}.yaml").write_bytes((MISTAKES / ".agents" / f"{name}.yaml").read_bytes())
    ran = cli("validate")
    texts = [(MISTAKES / "terminal" / f"{name}.txt").read_text("utf-8") for name in ("leading-zero", "unknown-key")]
    assert ran.err == "".join(texts)
    assert ran.out == "wrong  .agents/leading-zero.yaml: 3 errors\nwrong  .agents/unknown-key.yaml: 1 error\n"


def ran_alone(program: str, cwd: Path) -> tuple[int, str, str]:
    command = [sys.executable, "-I", "-c", program]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stdout, done.stderr


def test_questions_about_files_start_no_event_loop_and_open_no_database(tmp_path: Path) -> None:
    review(tmp_path)
    heavy = "{'trio', 'apsw', 'quart', 'hypercorn', 'mcp', 'anthropic', 'openai', 'genai_prices', 'asyncio'}"
    program = (
        "import sys; from interface import offline; from interface.discovery import Project; "
        f"project = Project({str(tmp_path)!r}, {str(tmp_path)!r}); root, state = offline.paths(project); "
        "offline.validate.validate(root, root, ()); offline.resolve.resolution(root, root, 'review'); "
        "offline.plan(project, 'review', 'main', ('-b', 'x'), {}); offline.schema.schema_text('agent'); "
        f"print(sorted({heavy} & set(sys.modules)))"
    )
    assert ran_alone(program, tmp_path) == (0, "[]\n", "")


def test_what_the_kernel_would_log_is_not_for_the_terminal(tmp_path: Path) -> None:
    review(tmp_path)
    (tmp_path / "trust.json").write_text("{", "utf-8")
    program = (
        "from interface import offline; from interface.discovery import Project; "
        f"root, state = offline.paths(Project({str(tmp_path)!r}, {str(tmp_path)!r})); "
        "offline.validate.validate(root, root, (), {}, offline.validate.project_grants(root, state, {}))"
    )
    assert ran_alone(program, tmp_path) == (0, "", "")


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (
            errno.EACCES,
            "error: /state/agent-worker.db: Permission denied\n  hint: check the path and its permissions\n",
        ),
        (
            errno.EMFILE,
            "error: the system has no resources left for the command: Too many open files\n  hint: raise ulimit",
        ),
    ],
)
def test_what_cannot_be_read_is_no_bug(number: int, said: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_asked: object) -> None:
        raise OSError(number, os.strerror(number), "/state/agent-worker.db")

    monkeypatch.setattr(disk_usage, "disk_usage", refused)
    ran = cli("df")
    assert (ran.code, ran.err[: len(said)]) == (1, said)
