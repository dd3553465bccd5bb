"""What a worker says of itself is held to ranges: another program in a worker's place, and the budgets beside it."""

import json
from typing import Any

import pytest

from tests.project import Project

TRUSTED = {"AGENT_WORKER_TRUST": "1"}

WORKER = """
    import sys
    def say(line): print(line, flush=True)
    say('{"t":"ready","pid":1,"version":"1"}')
    for line in sys.stdin:
        if '"t":"start"' in line: break
    for n, said in enumerate(sys.argv[1:]):
        say('{"t":"entry","k":%d,"kind":"reply","text":"x","stop_reason":"end_turn",%s}' % (n, said))
        answer = sys.stdin.readline()
        if '"allowance":0' in answer:
            say('{"t":"result","status":"incomplete","cause":"budget","text":"out"}'); sys.exit()
    say('{"t":"result","status":"done","text":"all done"}')
"""
"""Reports the counts that are its arguments, one reply each."""


def agent(*said: str, **more: Any) -> str:
    """A file of an agent that is this program; JSON is YAML."""
    definition = {"backend": "exec", "command": ["python3", "w.py", *said], "retry": {"attempts": 1}, **more}
    return json.dumps(definition)


WRONG = {
    "negative": ('"usage":{"input_tokens":-1000000}', "input_tokens"),
    "large": ('"usage":{"input_tokens":4611686018427387904}', "input_tokens"),
    "costly": ('"usage":{"cost_usd":1e308}', "cost_usd"),
    "nan": ('"usage":{"cost_usd":NaN}', "malformed"),
    "twice": ('"usage":{"input_tokens":1},"usage":{"input_tokens":0}', "twice"),
}
"""By the agent that says it: its count, and what is told to be wrong with it."""


@pytest.fixture(scope="module")
def program(shared_kernel: Project) -> Project:
    """A kernel, and the program in its project: each test has agents of its own that are it."""
    shared_kernel.write("w.py", WORKER)
    return shared_kernel


@pytest.fixture(scope="module")
def sent(program: Project) -> dict[str, str]:
    """The instruction of each agent that says what cannot be: all of them are at work at once."""
    for name, (said, _) in WRONG.items():
        program.write(f".agents/{name}.yaml", agent(said, '"usage":{"input_tokens":900000}', budget={"tokens": 1000}))
    return {name: program.send(name) for name in WRONG}


@pytest.mark.promise("P10", "IF17")
@pytest.mark.parametrize("name", WRONG)
@pytest.mark.long("tests/protocol/test_numbers.py")
def test_a_count_that_cannot_be_ends_the_attempt_and_is_not_booked(
    program: Project, sent: dict[str, str], name: str
) -> None:
    ended = program.ended(sent[name])
    assert (ended["status"], ended["cause"], ended["usage"]["input_tokens"]) == ("dead", "protocol", 0)
    assert "entry" in ended["text"]
    assert WRONG[name][1] in ended["text"]


@pytest.mark.long("tests/protocol/test_numbers.py")
def test_a_member_that_claims_the_most_there_is_ends_nobody_elses_work(program: Project) -> None:
    most = '"usage":{"input_tokens":9007199254740992,"output_tokens":9007199254740992,"cost_usd":9007199254740992}'
    cheat = agent(most, most)
    program.write(
        ".workflows/two.yaml",
        f"""
        agents:
          cheat: {cheat}
          ann: {{backend: mock, mock: [{{usage: {{input_tokens: 5, output_tokens: 5}}}}, {{text: "fine"}}]}}
        kickoff: "@cheat @ann go"
        """,
    )
    ran = program.awk("run", "two", "--json", env=TRUSTED)
    report = ran.json()
    assert (ran.code, report["instructions"]["done"]) == (0, 2), ran.err
    assert report["usage"]["input_tokens"] == 2**53
    assert program.awk("stats").code == 0
