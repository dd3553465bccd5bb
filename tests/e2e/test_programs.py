"""Agents whose work other programs do, alone and as a team of three engines, under a kernel that is killed."""

import json
import os
import sys
import threading
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from kernel.fault_injection import AT
from tests.e2e.engines import BY_NAME, SPEAKS, environ
from tests.e2e.processes import marked, survivors, wait_for_mark, wait_until
from tests.project import TRUST, Project
from tests.worker.backends.fake_cli_install import Place
from tests.worker.backends.subjects_programs import CLAUDE
from tests.worker.scripted_api import Call, Move, Say, ScriptedApi, Silence

KEY = "sk-canary-4712"
SEND = ("channel_send", {"message": "one"})
CALL = Call("mcp__daemon__channel_send", json.dumps(SEND[1]), id="call_one")
LINUX = pytest.mark.skipif("sys.platform != 'linux'", reason="whole trees need a subreaper")


@dataclass(frozen=True)
class Team:
    """A project with an agent, alice, whose program stands in ``place``."""

    project: Project
    place: Place
    real: bool

    def start(self, **env: str) -> None:
        """Start the kernel as somebody whose PATH has the program."""
        path = f"{self.place.bin}:{self.project.environ['PATH']}"
        assert self.project.awk("start", env={"PATH": path, "SCRIPTED_KEY": KEY, **env}).code == 0

    def show(self, instruction: str) -> Any:
        """What ``awk show`` says of it."""
        return self.project.awk("show", instruction, "--json").json()

    def said(self) -> list[str]:
        return [one["text"] for one in self.project.awk("peek", "alice", "--json").json()["messages"]]


@pytest.fixture(params=["recorded", "real"])
def team(request: pytest.FixtureRequest, project: Project, tmp_path: Path) -> Team:
    """Claude Code, recorded and real. A recording says "one" in its first process, and once more in its second."""
    real = CLAUDE.installed() if request.param == "real" else None
    if request.param == "real" and real is None:
        pytest.skip("claude is not installed: AGENT_WORKER_TEST_CLIS")
    (tmp_path / "programs").mkdir()
    place = Place(tmp_path / "programs")
    place.put(CLAUDE.binary, recorded=CLAUDE.recordings / "resume", real=real, calls=(SEND, SEND))
    return Team(project, place, real is not None)


def alice(team: Team, url: str) -> None:
    team.project.write(
        ".agents/alice.yaml",
        f"""
        backend: claude
        model: scripted/claude-sonnet-4-5
        provider: {{ name: scripted, base_url: "{url}", dialect: anthropic, api_key: $SCRIPTED_KEY }}
        prompt: {{ system: "You are Alice." }}
        approval: auto
        {SPEAKS}
        """,
    )


@pytest.mark.promise("P1", "P5", "P7")
@LINUX
@pytest.mark.long("tests/worker/backends")
def test_a_session_outlives_its_kernel(team: Team) -> None:
    """Kill -9 in the middle. Its tree dies, its session is resumed, nothing is lost."""
    quiet = threading.Event()
    with ScriptedApi([Say(calls=(CALL,)), Silence(quiet)], otherwise=Say("Done at last.")) as api:
        alice(team, api.anthropic_url)
        team.start()
        sent = team.project.awk("send", "alice", "do it", "--json", env=TRUST)
        assert sent.code == 0, sent.err
        team.project.until("instruction.step", holds=lambda event: event["data"]["kind"] == "tool")
        wait_until(lambda: not team.real or len(api.requests) > 1)
        program = psutil.Process(team.place.words()[0].pid)
        team.project.kill()
        assert survivors([program], seconds=2) == []
        quiet.set()
        team.start()
        team.project.until("instruction.ended")
        shown = team.show(sent.json()["instruction_ids"][0])
    assert (shown["status"], shown["text"]) == ("done", "Done at last.")
    first, second = team.place.words()
    assert [sum(word.startswith("--resume=") for word in one.argv) for one in (first, second)] == [0, 1]
    assert "You were interrupted" in second.stdin
    assert team.said() == ["do it", "one", "Done at last."]
    home = team.project.state / "sessions" / "alice" / "dm+alice"
    assert home.is_dir()
    assert team.project.awk("clear", "alice", "--yes").code == 0
    assert not home.parent.exists()


@pytest.mark.promise("P4")
@LINUX
@pytest.mark.long("tests/worker/backends")
def test_what_was_said_when_the_kernel_died_is_not_said_again(team: Team) -> None:
    """The call was carried out, its answer never came, and the model calls once more."""
    with ScriptedApi([Say(calls=(CALL,)), Say(calls=(CALL,))], otherwise=Say("Done at last.")) as api:
        alice(team, api.anthropic_url)
        team.start(**{AT: "mcp.answer:1"})
        kernel = psutil.Process(team.project.record()["pid"])
        assert team.project.awk("send", "alice", "do it", "--json", env=TRUST).code == 0
        assert survivors([kernel], seconds=20) == []
        team.start()
        team.project.until("instruction.ended")
        assert not team.real or len(api.requests) == 3
    assert team.said() == ["do it", "one", "Done at last."]


@pytest.mark.promise("P7")
@LINUX
def test_what_a_killed_program_left_running_dies_with_its_attempt(team: Team) -> None:
    if not team.real:
        pytest.skip("a recording runs nothing")
    mark = f"awk-test-{uuid.uuid4().hex}"
    command = f"{sys.executable} -c 'import time; time.sleep(600)' {mark}"
    call = Call("Bash", json.dumps({"command": command, "description": "a test"}), id="call_shell")
    with ScriptedApi([Say(calls=(call,))], otherwise=Say("Given up.")) as api:
        alice(team, api.anthropic_url)
        team.start()
        sent = team.project.spawn("send", "alice", "do it", "--wait", "--json", env=TRUST)
        left = wait_for_mark(mark, 2)
        program = psutil.Process(team.place.words()[0].pid)
        assert program.pid not in {os.getsid(one.pid) for one in left}
        program.kill()
        assert survivors(left, seconds=2) == []
        out, err = sent.communicate(timeout=20)
    assert json.loads(out)["results"][0]["text"] == "Given up.", err


ENGINES = {"anna": BY_NAME["claude"], "cody": BY_NAME["codex"], "sam": BY_NAME["sdk"]}


@pytest.mark.promise("P1", "P5")
@pytest.mark.skipif(any(engine.missing for engine in ENGINES.values()), reason="AGENT_WORKER_TEST_CLIS")
def test_three_engines_hand_work_on_and_a_killed_kernel_loses_and_doubles_nothing(
    project: Project, tmp_path: Path
) -> None:
    """claude, codex and the built-in loop; kill -9 while two of them wait for a model."""
    anna, cody, sam = ENGINES.values()
    killed = threading.Event()
    scripts: dict[str, tuple[Move, ...]] = {
        "anna": (anna.tells("@cody please take over"), Say(text="anna has begun"), Say(text="anna has seen it")),
        "cody": (cody.tells("@sam your turn", "I hand it on."), Silence(killed), Say(text="cody is through")),
        "sam": (Silence(killed), sam.tells("@anna all is done"), Say(text="sam is through")),
    }
    with ExitStack() as stack:
        apis = {name: stack.enter_context(ScriptedApi(moves)) for name, moves in scripts.items()}
        for name, engine in ENGINES.items():
            engine.agent(project, name, apis[name])
        members = "".join(f"  {name}: {{ ref: {name} }}\n" for name in ENGINES)
        project.write(".workflows/relay.yaml", f"agents:\n{members}kickoff: '@anna begin'\n")
        kernel_env = environ(tmp_path)
        assert project.awk("start", "--trust", env=kernel_env).code == 0
        with project.spawn("run", "relay", "--trust", "--json", env=kernel_env) as running:
            wait_until(lambda: len(apis["cody"].requests) == 2 and len(apis["sam"].requests) == 1, seconds=60)
            project.kill()
            killed.set()
            assert project.awk("start", "--trust", env=kernel_env).code == 0
            _, err = running.communicate(timeout=90)
    shown = project.awk("show", "relay:main", "--json").json()
    counts = {status: count for status, count in shown["instructions"].items() if count}
    assert (shown["status"], counts) == ("done", {"done": 4}), err
    said = sorted((one["from"], one["text"]) for one in shown["messages"] if one["kind"] in {"said", "reply"})
    assert said == [
        ("anna", "@cody please take over"),
        ("anna", "anna has begun"),
        ("anna", "anna has seen it"),
        ("cody", "@sam your turn"),
        ("cody", "cody is through"),
        ("sam", "@anna all is done"),
        ("sam", "sam is through"),
    ]
    assert project.awk("stop", "--yes").code == 0
    assert marked(str(tmp_path)) == []
