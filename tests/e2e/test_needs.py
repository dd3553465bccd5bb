"""What needs a person, with a real kernel: one number everywhere, and every command settles what it is for."""

import shlex
from typing import Any

import pytest

from tests.e2e.processes import wait_until
from tests.project import Project

BROKEN = "restart: { attempts: 1 }\nretry: { attempts: 9 }"


def team(project: Project) -> None:
    """One agent, or workflow, for each reason why work may stand still."""
    project.write(
        ".agents/coder.yaml",
        """
        model: mock/x
        prompt: { system: hi }
        tools: [bash]
        mock: [{ tool: bash, args: { command: echo coder >> coder.log } }, { text: finished }]
        """,
    )
    project.agent("failing", "error: { http_status: 400 }")
    project.agent("crashing", "exit: 3", more=BROKEN)
    project.write(".agents/keyless.yaml", "model: anthropic/claude-sonnet-4-5\nprompt: { system: hi }\n")
    project.agent("sleeper", "text: hi", more="schedule: { wakeup: 24h, prompt: look }")
    project.agent("ping", "text: '@pong go on'")
    project.agent("pong", "text: done")
    project.write(
        ".workflows/endless.yaml",
        """
        limits: { instructions: 1 }
        agents: { ping: { ref: ping }, pong: { ref: pong } }
        kickoff: "@ping begin"
        """,
    )
    ballot = "{ id: release, type: approval, binding: true, title: Release this? }"
    project.agent("caller", f"tool: team_proposal_create, args: {ballot}", "text: it is put to the vote")
    project.agent("mute", "text: I say nothing")
    project.write(
        ".workflows/release.yaml",
        """
        verdict: release
        agents: { caller: { ref: caller }, mute: { ref: mute } }
        kickoff: "@caller put it to the vote"
        """,
    )


KINDS = {"approval", "vote", "agent_error", "credentials", "limit", "dead", "trust"}


def needs(project: Project) -> list[dict[str, Any]]:
    found: dict[str, Any] = project.ask("GET", "/needs")
    assert found["total"] == len(found["items"])
    assert found["next"] is None
    items: list[dict[str, Any]] = found["items"]
    return items


@pytest.mark.promise("P34")
@pytest.mark.long("tests/kernel/policy/test_needs.py")
def test_each_need_is_counted_alike_everywhere_and_settled_by_its_commands(kernel_process: Project) -> None:
    """contracts 7: needs, ps and status; commands run as they stand, in the order of the list."""
    project = kernel_process
    empty = project.awk("needs")
    assert (empty.code, empty.out) == (0, "nothing needs you\n")
    team(project)
    for name in ("coder", "failing", "crashing", "keyless"):
        project.send(name)
    for name in ("endless", "release"):
        assert project.awk("start", name, "--trust").code == 0
    wait_until(lambda: {item["kind"] for item in needs(project)} == KINDS)
    project.until("instruction.ended", holds=lambda event: event["agent"] == "mute")
    items = needs(project)
    assert project.ask("GET", "/ps")["needs"] == project.ask("GET", "/status")["needs"] == len(items)
    assert f"{len(items)} need you" in project.awk("ps").out
    assert f"{len(items)} need you" in project.awk("status").out
    listed = project.awk("needs", "--json")
    assert (listed.code, listed.json()["items"]) == (7, items)
    for item in items:
        first = item["actions"][0]["command"]
        assert any(line.startswith(f"  {first}  #") for line in project.awk("needs").out.splitlines()), item
        ran = project.awk(*shlex.split(first)[1:])
        assert ran.code == 0, (first, ran)
        # Where the cause is still there: as a need of later.
        comes_back = item["kind"] in ("credentials", "agent_error", "dead")
        same = [one for one in needs(project) if (one["kind"], one["id"]) == (item["kind"], item["id"])]
        assert [one for one in same if not comes_back or one == item] == [], (first, ran)
