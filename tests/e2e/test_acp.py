"""A program of the project's that speaks ACP, under a real kernel: it asks, a person decides, and it is shown."""

import json
import os
import signal
import sys

import psutil
import pytest

from tests.e2e.processes import survivors, wait_until
from tests.e2e.test_approvals import pending, ran
from tests.project import Project
from tests.worker.backends import fake_acp
from tests.worker.scripted_api import Call, Say, ScriptedApi

COMMAND = "echo ran >> acp.log"
SHELL = Call("shell", json.dumps({"command": COMMAND}), id="call_shell")


@pytest.mark.promise("P63", "P5")
def test_what_it_asks_leave_for_waits_for_a_person_also_over_a_killed_kernel(project: Project) -> None:
    """kill -9 while it waits: granted meanwhile, taken up in its session, run once; tokens and steps are booked."""
    project.write(
        ".agents/alice.yaml",
        "backend: acp\ncommand: [./agent, --load]\nenv: [FAKE_ACP_KEY]\nprompt: {system: You are alice.}\n",
    )
    program = project.write("agent", f'#!/bin/sh\nexec {sys.executable} -IS {fake_acp.__file__} "$@"\n')
    program.chmod(0o755)
    told = Call("daemon-channel_send", json.dumps({"message": "hello"}), id="call_told")
    says = [Say("I run it.", (told, SHELL)), Say("Once more.", (SHELL,)), Say("That was it.")]
    with ScriptedApi(says) as api:
        env = {"FAKE_ACP_KEY": f"sk-canary@{api.url}", "AGENT_WORKER_TRUST": "1"}
        assert project.awk("start", "--trust", env=env).code == 0
        waiting = project.awk("send", "alice", "go", "--wait", "--json", seconds=60)
        assert (waiting.code, waiting.json()["results"][0]["waits_for"]) == (7, "approval"), waiting.err
        (row,) = pending(project, "alice")
        assert (row["tool"], row["input"]["input"]) == ("shell", {"command": COMMAND})
        kernel = psutil.Process(int(project.record()["pid"]))
        os.kill(kernel.pid, signal.SIGKILL)
        assert survivors([kernel], seconds=10) == []
        wait_until(lambda: not project.alive())
        assert project.awk("start", "--trust", env=env).code == 0
        assert project.awk("approve", row["id"]).code == 0
        end = project.until("instruction.ended", seconds=60)
    assert (end["data"]["status"], end["data"]["text"]) == ("done", "That was it.")
    assert (ran(project, "acp"), pending(project, "alice")) == (1, [])
    shown = project.awk("show", "i1", "--json").json()
    assert [one["state"] for one in shown["approvals"]] == ["granted"]
    steps = project.awk("show", "i1", "--steps", "--json").out
    assert "channel_send" in steps and "sk-canary" not in steps
