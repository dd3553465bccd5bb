"""Eight agents that speak at once through the Daemon MCP of a real kernel: nothing is lost or doubled, in one order."""

import json
import os
from collections import defaultdict
from typing import Any, Final

import pytest

from tests.project import Project

AGENTS: Final = 8
SENDS: Final = int(os.environ.get("AWK_TEST_SENDS", "10"))
"""Of each; ``scripts/soak sends`` has them say 1,000."""


def pages(project: Project, path: str, rows: str, more: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    following: str | None = "0"
    while following is not None:
        page = project.ask("GET", f"{path}?limit=1000&{more}={following}")
        found += page[rows]
        following = page["next"]
    return found


@pytest.mark.promise("P1", "P4")
def test_what_eight_agents_say_at_once_is_there_once_and_in_one_order(project: Project) -> None:
    names = [f"a{number}" for number in range(AGENTS)]
    for name in names:
        sends = [f"tool: channel_send, args: {{ message: {name} says {n} }}" for n in range(SENDS)]
        limits = f"limits: {{ messages: {SENDS} }}\nmax_steps: {SENDS + 10}"
        project.agent(name, *sends, "text: done", more=limits)
    members = "".join(f"  {name}: {{ ref: {name} }}\n" for name in names)
    called = " ".join(f"@{name}" for name in names)
    project.write(".workflows/choir.yaml", f"agents:\n{members}kickoff: '{called} speak'\n")
    assert project.awk("start", "--trust").code == 0
    ran = project.awk("run", "choir", "--trust", "--jsonl", seconds=60 + SENDS)
    assert ran.code == 0, ran.err

    channel = pages(project, "/spaces/choir:main/channel", "messages", "since")
    seqs = [one["seq"] for one in channel]
    assert seqs == sorted(set(seqs)), "ids are unique, and the order is theirs"
    back: list[dict[str, Any]] = []
    while not back or back[0]["seq"] != seqs[0]:
        before = f"&before={back[0]['seq']}" if back else ""
        back = project.ask("GET", f"/spaces/choir:main/channel?limit=1000{before}")["messages"] + back
    assert back == channel

    said = [one for one in channel if one["kind"] == "said" and one["from"] in names]
    of: dict[str, list[str]] = defaultdict(list)
    for one in said:
        of[one["from"]].append(one["text"])
    assert of == {name: [f"{name} says {n}" for n in range(SENDS)] for name in names}

    told: dict[str, str] = {}
    for instruction in {one["instruction"] for one in said}:
        for entry in pages(project, f"/instructions/{instruction}/entries", "entries", "after"):
            if entry["tool"] == "channel_send" and entry["output"]:
                told[json.loads(entry["output"])["message_id"]] = entry["input"]["message"]
    assert told == {f"m{one['seq']}": one["text"] for one in said}, "each answer names the message that it became"
    streamed = [json.loads(line) for line in ran.out.splitlines()]
    spoken = [one["data"]["text"] for one in streamed if one.get("type") == "message" and one["agent"] in names]
    assert [text for text in spoken if " says " in text] == [one["text"] for one in said]
