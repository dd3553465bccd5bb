"""agent-worker call: what an attempt runs asks as that attempt, without MCP and without a token."""

import json
import os

import pytest

from tests.project import BWRAP, TRUST, Project

pytestmark = [pytest.mark.promise("P56"), pytest.mark.skipif(not os.path.exists("/proc/net/tcp"), reason="needs /proc")]


@pytest.mark.parametrize(
    "sandbox",
    ["off", pytest.param("on", marks=pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed"))],
)
def test_a_shell_a_script_and_a_process_that_left_its_session_call_tools(confining: Project, sandbox: str) -> None:
    name = f"caller-{sandbox}"
    confining.write(
        f"{name}.sh",
        """
        cd /; out=$OLDPWD/$1
        echo '{"state": "at the shell"}' | agent-worker call my_status_set - > $out.json; echo $? > $out.codes
        agent-worker call no_such_tool 2>> $out.err; echo $? >> $out.codes
        agent-worker ps 2>> $out.err; echo $? >> $out.codes
        mkfifo $out.pipe
        (setsid sh -c "agent-worker call feedback_submit '{\\"text\\": \\"far off\\"}' > $out.pipe 2>&1" &)
        cat $out.pipe > $out.far
        """,
    )
    confining.agent(name, f'shell: "sh {name}.sh {name}"', "text: done", more=f"sandbox: {sandbox}")
    ended = confining.awk("send", name, "go", "--wait", env=TRUST)
    errors = (confining.root / f"{name}.err").read_text()
    assert (ended.code, ended.out) == (0, "done\n"), errors
    assert (confining.root / f"{name}.codes").read_text().split() == ["0", "5", "2"]
    assert "error: tool 'no_such_tool' not found\n  hint: your tools are ask_agent, " in errors
    assert "error: inside an attempt agent-worker only has the command" in errors
    status = json.loads((confining.root / f"{name}.json").read_text())["status"]
    assert (status["state"], status["instruction"]) == ("at the shell", "i1" if sandbox == "off" else "i2")
    assert json.loads((confining.root / f"{name}.far").read_text())["id"][0] == "f"
    said = confining.awk("feedback", "list", "--json").json()["feedback"]
    assert [one["text"] for one in said if one["author"] == name] == ["far off"]


def test_what_is_no_process_of_an_attempt_is_refused(confining: Project) -> None:
    outside = confining.awk("call", "team_members")
    assert (outside.code, "error: this process does not belong to an attempt" in outside.err) == (2, True)
    stolen = confining.awk("call", "team_members", env={"AGENT_WORKER_CALL": confining.record()["url"]})
    assert (stolen.code, "no process of a running attempt" in stolen.err) == (4, True)


def test_one_process_that_serves_two_attempts_calls_for_the_one_that_it_serves(confining: Project) -> None:
    confining.write("twice.sh", 'agent-worker call my_status_set \'{"state": "s"}\' >> twice.log\n')
    confining.agent("twice", 'shell: "sh twice.sh"', "text: done", more="reuse: 2")
    for _ in range(2):
        assert confining.awk("send", "twice", "go", "--wait", "--json", env=TRUST).code == 0
    lines = [json.loads(line) for line in (confining.root / "twice.log").read_text().splitlines()]
    sent = [line["status"]["instruction"] for line in lines]
    assert len(set(sent)) == 2
