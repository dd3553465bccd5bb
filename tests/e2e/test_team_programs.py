"""The example of a team whose work is done by real programs, each with a scripted model that reads what came back."""

import json
import re
import shutil
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.engines import BY_NAME, Engine, environ
from tests.e2e.test_handbook_example import EXAMPLE, it_was_elected_assigned_suggested_and_held
from tests.e2e.test_team_example import CHECK, four_agents_did_their_part
from tests.project import BWRAP, Project
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
        call = self._program.shell(command)
        return Say(calls=(Call(call.name, call.args, id=f"call_{next(self._numbers)}"),))

    def tool(self, name: str, **args: object) -> Say:
        call = Call(self._program.daemon_tool(name), json.dumps(args), id=f"call_{next(self._numbers)}")
        return Say(calls=(call,))

    def write(self, name: str, text: str) -> Say:
        return self.shell(f"cat >{name} <<'PY'\n{text}PY")


def judged(last: str) -> Say:
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
    project.git("init", "--quiet", "--initial-branch=main")
    project.git("commit", "--quiet", "--allow-empty", "--message", "Begin")
    env = {**environ(folder), "AGENT_WORKER_BWRAP": BWRAP or ""}
    with ExitStack() as stack:
        apis = {name: stack.enter_context(Model(moves)) for name, moves in scripts(engines, second).items()}
        texts: dict[Path, str] = {}
        for engine in (CLAUDE, CODEX):
            link_as_installed(engine, folder / "bin")
            shutil.rmtree(project.root / ".agents")  # init does not mix its files with others
            made = project.awk("init", "--example", "team", "--backend", engine.name, "-m", SCRIPTED)
            assert made.code == 0, made.err
            for name in (name for name, wanted in engines.items() if wanted is engine):
                file = project.root / f".agents/{name}.yaml"
                set_up(file, engine, apis[name], confined=confined)
                texts[file] = file.read_text("utf-8")
        for file, text in texts.items():
            file.write_text(text, "utf-8")
        yield env


BOTH: Final = pytest.mark.skipif(CLAUDE.missing or CODEX.missing, reason="AGENT_WORKER_TEST_CLIS")


@BOTH
@pytest.mark.promise("P32", "P33")
@pytest.mark.long("tests/e2e/test_handbook_example.py, tests/e2e/test_merge.py")
@pytest.mark.parametrize("confined", [False, True], ids=["free", "sandbox"])
@pytest.mark.parametrize(
    "engines", [dict.fromkeys(MIXED, CLAUDE), dict.fromkeys(MIXED, CODEX), MIXED], ids=["claude", "codex", "both"]
)
def test_a_team_of_programs_lands_what_was_red_and_then_green(
    engines: dict[str, Engine], confined: bool, project: Project, tmp_path: Path
) -> None:
    if confined and BWRAP is None:
        pytest.skip("bubblewrap is not installed (AGENT_WORKER_TEST_BWRAP names one)")
    with at_work(project, engines, tmp_path, confined=confined) as env:
        for words in (("run", "team", "--trust"), ("merge", "@team", "--check", CHECK)):
            done = project.awk(*words, env=env, seconds=240)
            assert done.code == 0, done.out + done.err
        four_agents_did_their_part(project)


@BOTH
@pytest.mark.promise("P33")
@pytest.mark.long("tests/e2e/test_handbook_example.py, tests/e2e/test_merge.py")
def test_what_a_program_never_mends_is_not_voted_for_and_does_not_land(project: Project, tmp_path: Path) -> None:
    """The tester's model says what its run gave, red twice: no verdict, exit 6; the merge's check refuses, exit 1."""
    with at_work(project, MIXED, tmp_path, second=WRONG) as env:
        ran = project.awk("run", "team", "--trust", "--json", env=env, seconds=240)
        assert (ran.code, ran.json()["verdict"]) == (6, None), ran.err + ran.out
        said = [one["text"] for one in ran.json()["messages"] if one["from"] == "tester"]
        assert said == ["@coder red: test_centuries failed."] * 2
        before = project.git("rev-parse", "main")
        refused = project.awk("merge", "@team", "--check", CHECK, env=env, seconds=240)
        assert (refused.code, "FAIL: test_centuries" in refused.out) == (1, True), refused.out
        assert project.git("rev-parse", "main") == before


Rules = tuple[tuple[str, Callable[[re.Match[str]], list[Say]]], ...]


class Reader(ScriptedApi):
    """A model that does, once, what each message says that it is shown, by its rules."""

    def __init__(self, rules: Rules) -> None:
        super().__init__()
        self._rules = rules
        self._done: set[str] = set()
        self._left: list[Say] = []

    def take(self, request: Request) -> Move:
        super().take(request)
        if not self._left:
            said = request.body.get("messages") or request.body["input"]
            shown = json.dumps(said[-1]).rpartition("Your instruction:")[2]
            moves: list[Say] = []
            for pattern, follows in self._rules:
                for match in re.finditer(pattern, shown):
                    moves += follows(match) if match[0] not in self._done else ()
                    self._done.add(match[0])
            last = [move for move in moves if not move.calls] or [Say("So it is.")]
            self._left = [*(move for move in moves if move.calls), *last]
        return self._left.pop(0)


def readers(engines: dict[str, Engine], choice: str) -> dict[str, Rules]:
    """The scripts of the example, for whichever programs; all three vote ``choice`` in the end."""
    roles = {name: Role(engine) for name, engine in engines.items()}

    def calls(name: str, tool: str, /, **args: object) -> Callable[[re.Match[str]], list[Say]]:
        """One call, whose texts may have a group of the match in them."""
        return lambda match: [
            roles[name].tool(
                tool, **{key: match.expand(one) if isinstance(one, str) else one for key, one in args.items()}
            )
        ]

    def vote(name: str, proposal: str, choice: str) -> tuple[str, Callable[[re.Match[str]], list[Say]]]:
        return rf"\[PROPOSAL:{proposal}\]", calls(name, "team_vote", proposal=proposal, choice=choice)

    coder, reviewer = roles["coder"], roles["reviewer"]
    shares = {"id": "shares", "type": "assignment", "binding": True, "title": "Who does which?", "timeout_seconds": 600}
    options = [{"id": "code"}, {"id": "measure"}]
    quorum = {"resolution": {"type": "plurality", "quorum": 2}}
    accept = {"id": "accept", "type": "approval", "binding": True, "title": "Is it good enough?"}
    return {
        "coordinator": (
            vote("coordinator", "document-owner", "scribe"),
            ("@coordinator please", calls("coordinator", "team_proposal_create", **shares, **quorum, options=options)),
            ("@coordinator nothing was measured", calls("coordinator", "team_proposal_create", **accept)),
        ),
        "coder": (
            vote("coder", "document-owner", "scribe"),
            vote("coder", "shares", "code"),
            (
                r"\[TASK:(t\d+)\] Write",
                lambda match: [
                    coder.write("slug.py", SLUG),
                    coder.tool("team_doc_suggest", suggestion=HANDBOOK, reason="what it does"),
                    coder.tool("team_task_done", task=match[1], result="slug.py has slug(title)."),
                ],
            ),
            vote("coder", "accept", choice),
        ),
        "reviewer": (
            vote("reviewer", "document-owner", "scribe"),
            vote("reviewer", "shares", "measure"),
            (
                r"\[TASK:(t\d+)\] Review",
                lambda match: [
                    reviewer.shell("cat slug.py"),
                    reviewer.tool("team_doc_suggest", suggestion="Fast.\n", reason="a guess", deletes_most=True),
                    reviewer.tool("team_task_done", task=match[1], result="It is right."),
                ],
            ),
            (
                r"\[TASK:(t\d+)\] Measure",
                lambda match: [
                    reviewer.tool("team_task_fail", task=match[1], reason="there is no old one"),
                    Say("@coordinator nothing was measured, and the rest is done."),
                ],
            ),
            vote("reviewer", "accept", choice),
        ),
        "scribe": (
            vote("scribe", "document-owner", "scribe"),
            (r"\[DOC_SUGGEST\] (s\d+) for [^:]*: what it", calls("scribe", "team_doc_accept", suggestion=r"\1")),
            (r"\[DOC_SUGGEST\] (s\d+) for [^:]*: a guess", calls("scribe", "team_doc_reject", suggestion=r"\1")),
            vote("scribe", "accept", choice),
        ),
    }


SLUG: Final = 'def slug(title):\n    return "-".join(title.lower().split())\n'
HANDBOOK: Final = "# Handbook\n\n## slug(title)\n\nSmall letters, with a dash between words.\n"
OPENCODE: Final = BY_NAME["opencode"]
TURNS: Final = {
    "claude codes, codex reviews, opencode writes": (CLAUDE, CODEX, OPENCODE, CLAUDE, "yes"),
    "codex codes, opencode reviews, claude writes": (CODEX, OPENCODE, CLAUDE, CODEX, "no"),
    "opencode codes, claude reviews, codex writes": (OPENCODE, CLAUDE, CODEX, OPENCODE, "yes"),
}


@pytest.mark.skipif(any(one.missing for one in (CLAUDE, CODEX, OPENCODE)), reason="AGENT_WORKER_TEST_CLIS")
@pytest.mark.promise("P38", "P39")
@pytest.mark.long("tests/e2e/test_handbook_example.py")
@pytest.mark.parametrize("turn", TURNS)
def test_programs_elect_assign_suggest_and_vote_as_the_scripts_do(turn: str, project: Project, tmp_path: Path) -> None:
    *programs, choice = TURNS[turn]
    engines: dict[str, Engine] = dict(zip(("coder", "reviewer", "scribe", "coordinator"), programs, strict=True))
    shutil.copytree(EXAMPLE / ".workflows", project.root / ".workflows")
    with ExitStack() as stack:
        for name, rules in readers(engines, choice).items():
            api = stack.enter_context(Reader(rules))
            engines[name].agent(project, name, api, "approval: auto")
        ran = project.awk("run", "handbook", "--trust", "--json", env=environ(tmp_path), seconds=280)
    report = ran.json()
    assert (ran.code, report["verdict"]) == ({"yes": 0, "no": 8}[choice], choice), ran.err + ran.out
    it_was_elected_assigned_suggested_and_held(project, report)
