"""The example of a team whose work is done by real programs, each with a scripted model that reads what came back."""

import json
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.engines import BY_NAME, Engine, environ
from tests.e2e.test_team_example import BWRAP, CHECK, four_agents_did_their_part, git
from tests.project import Project
from tests.worker.scripted_api import Call, Move, Request, Say, ScriptedApi

SCRIPTED: Final = "scripted/claude-sonnet-4-5"
WRONG: Final = "def leap(year):\n    return year % 4 == 0\n"
RIGHT: Final = "def leap(year):\n    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)\n"
TESTS: Final = """\
import unittest

from leap import leap


class LeapTest(unittest.TestCase):
    def test_every_fourth_year(self):
        self.assertEqual([leap(year) for year in (2023, 2024)], [False, True])

    def test_centuries(self):
        self.assertEqual([leap(year) for year in (1900, 2000)], [False, True])
"""


class Model(ScriptedApi):
    """A model some of whose moves follow from what its last call gave."""

    def __init__(self, moves: Iterable[Move | Callable[[str], Move]]) -> None:
        super().__init__()
        self._script = iter(moves)

    def take(self, request: Request) -> Move:
        """The next of its moves."""
        super().take(request)
        move = next(self._script, Say("I have nothing more to say."))
        said = request.body.get("messages") or request.body["input"]
        return move(json.dumps(said[-1])) if callable(move) else move


class Role:
    """How the model of one program makes its calls."""

    def __init__(self, engine: Engine) -> None:
        assert engine.program is not None
        self._program = engine.program
        self._numbers = count(1)

    def shell(self, command: str) -> Say:
        """Run a command with the program's own tool."""
        call = self._program.shell(command)
        return Say(calls=(Call(call.name, call.args, id=f"call_{next(self._numbers)}"),))

    def tool(self, name: str, **args: object) -> Say:
        """Call a tool of the kernel's."""
        call = Call(self._program.daemon_tool(name), json.dumps(args), id=f"call_{next(self._numbers)}")
        return Say(calls=(call,))

    def write(self, name: str, text: str) -> Say:
        """Write a file with the shell."""
        return self.shell(f"cat >{name} <<'PY'\n{text}PY")


def judged(last: str) -> Say:
    """What a tester says of its last run."""
    red = "FAILED" in last
    return Say("@coder red: test_centuries failed." if red else "@reviewer green: all tests are right now.")


def scripts(engines: dict[str, Engine], second: str) -> dict[str, list[Move | Callable[[str], Move]]]:
    """What each of the four does, whichever program does it; ``second`` is what the coder writes after a red test."""
    coder, tester, reviewer = (Role(engines[name]) for name in ("coder", "tester", "reviewer"))
    run = "python3 -B -m unittest -q 2>&1"
    terms = {"id": "release", "type": "approval", "binding": True, "title": "Merge this?"}
    return {
        "planner": [Say("@coder please write leap.py. Remember the years that end a century.")],
        "coder": [
            coder.write("leap.py", WRONG),
            Say("@tester leap.py is there."),
            coder.write("leap.py", second),
            Say("@tester mended: a century counts every 400 years only."),
        ],
        "tester": [
            tester.tool("tree_take", **{"from": "coder"}),
            tester.write("test_leap.py", TESTS),
            tester.shell(run),
            judged,
            tester.tool("tree_take", **{"from": "coder"}),
            tester.shell(run),
            judged,
            tester.tool("team_vote", proposal="release", choice="yes", reason="The tests are green."),
            Say("I am for it."),
        ],
        "reviewer": [
            reviewer.shell("cat leap.py test_leap.py"),
            reviewer.tool("team_proposal_create", **terms),
            reviewer.tool("team_vote", proposal="release", choice="yes", reason="It is short."),
            Say("I read it, and put it to the vote."),
            Say("The vote is over, and so is my part of it."),
        ],
    }


def set_up(file: Path, engine: Engine, api: ScriptedApi, *, confined: bool) -> None:
    """Let the agent in ``file`` do all it wants, in a sandbox or not, with ``api`` for its model."""
    url, dialect = (api.openai_url, "openai") if engine is CODEX else (api.anthropic_url, "anthropic")
    provider = {"name": "scripted", "base_url": url, "dialect": dialect, "api_key": "$SCRIPTED_KEY"}
    ways = {"approval: auto": True, "sandbox: on": confined}
    lines = [line for line in file.read_text("utf-8").splitlines() if line not in ways]
    lines += [way for way, wanted in ways.items() if wanted]
    file.write_text("\n".join([*lines, f"provider: {json.dumps(provider)}", ""]), "utf-8")


def link_as_installed(engine: Engine, folder: Path) -> None:
    """Put a link to the program there, as npm does: a sandbox shows the package that it leads to."""
    assert engine.program is not None
    command = engine.program.installed()
    assert command is not None
    (folder / engine.program.binary).unlink()
    (folder / engine.program.binary).symlink_to(command[0])


CLAUDE, CODEX = BY_NAME["claude"], BY_NAME["codex"]
MIXED: Final = {"planner": CLAUDE, "coder": CODEX, "tester": CLAUDE, "reviewer": CODEX}


@contextmanager
def at_work(
    project: Project, engines: dict[str, Engine], folder: Path, *, confined: bool = False, second: str = RIGHT
) -> Generator[dict[str, str]]:
    """The example in a repository, as init writes it for these programs, and their models. Yields the environment."""
    git(project, "init", "--quiet", "--initial-branch=main")
    git(project, "commit", "--quiet", "--allow-empty", "--message", "Begin")
    env = {**environ(folder), "AGENT_WORKER_BWRAP": BWRAP or ""}
    with ExitStack() as stack:
        apis = {name: stack.enter_context(Model(moves)) for name, moves in scripts(engines, second).items()}
        for engine in (CLAUDE, CODEX):
            link_as_installed(engine, folder / "bin")
            made = project.awk("init", "--example", "team", "--backend", engine.name, "-m", SCRIPTED)
            assert made.code == 0, made.err
            for name, wanted in engines.items():
                file = project.root / f".agents/{name}.yaml"
                if f"backend: {engine.name}" in file.read_text("utf-8"):
                    if wanted is not engine:
                        file.unlink()  # the next one writes it
                        continue
                    set_up(file, engine, apis[name], confined=confined)
        yield env


BOTH: Final = pytest.mark.skipif(CLAUDE.missing or CODEX.missing, reason="AGENT_WORKER_TEST_CLIS")


@BOTH
@pytest.mark.promise("P32", "P33")
@pytest.mark.long("tests/e2e/test_readme_tour.py, tests/e2e/test_team_example.py")
@pytest.mark.parametrize("confined", [False, True], ids=["free", "sandbox"])
@pytest.mark.parametrize(
    "engines",
    [dict.fromkeys(MIXED, CLAUDE), dict.fromkeys(MIXED, CODEX), MIXED],
    ids=["claude", "codex", "both"],
)
def test_a_team_of_programs_lands_what_was_red_and_then_green(
    engines: dict[str, Engine], confined: bool, project: Project, tmp_path: Path
) -> None:
    """Tests see the coder's commit, red sends it back, green is voted for, and a merge lands it, through its check."""
    if confined and BWRAP is None:
        pytest.skip("bubblewrap is not installed (AGENT_WORKER_TEST_BWRAP names one)")
    with at_work(project, engines, tmp_path, confined=confined) as env:
        for words in (("run", "team", "--trust"), ("merge", "@team", "--check", CHECK)):
            done = project.awk(*words, env=env, seconds=240)
            assert done.code == 0, done.out + done.err
        four_agents_did_their_part(project)


@BOTH
@pytest.mark.promise("P33")
@pytest.mark.long("tests/e2e/test_team_example.py")
def test_what_a_program_never_mends_is_not_voted_for_and_does_not_land(project: Project, tmp_path: Path) -> None:
    """The tester's model says what its run gave, red twice: no verdict, exit 6; the merge's check refuses, exit 1."""
    with at_work(project, MIXED, tmp_path, second=WRONG) as env:
        ran = project.awk("run", "team", "--trust", "--json", env=env, seconds=240)
        assert (ran.code, ran.json()["verdict"]) == (6, None), ran.err + ran.out
        said = [one["text"] for one in ran.json()["messages"] if one["from"] == "tester"]
        assert said == ["@coder red: test_centuries failed."] * 2
        before = git(project, "rev-parse", "main")
        refused = project.awk("merge", "@team", "--check", CHECK, env=env, seconds=240)
        assert (refused.code, "FAIL: test_centuries" in refused.out) == (1, True), refused.out
        assert git(project, "rev-parse", "main") == before
