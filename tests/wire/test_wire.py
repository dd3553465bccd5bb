"""What the outside sees is what was recorded. ``python -m tests.wire`` records a change that is meant."""

import argparse
import difflib
import json
import re
from pathlib import Path
from typing import Final

import pytest

from kernel.api.mcp.tools import MANAGEMENT, TOOLS
from kernel.api.routes import ROUTES
from tests.wire.recording import FOLDER, RECORDINGS, make
from tests.wire.surface import parsers

UNTOLD_ROUTES: Final = ("POST /agents/<name>/thread/trial",)
"""Those that need what a story has not: a model of vectors."""
UNTOLD_TOOLS: Final = {"team": ("tree_status", "tree_take", "tree_commit"), "user": ()}
"""Those that need working trees."""
UNTOLD_COMMANDS: Final = (
    "service install", "service run", "service uninstall", "skills import", "skills install-self", "skills rm",
    "skills update", "standby check", "worker check",
)  # fmt: skip
"""Those that need a repository of skills, a standby, a program, or more of the machine."""
UNTOLD_EVENTS: Final = (
    "gap", "kernel.service_failed", "kernel.upgrade_failed", "kernel.upgraded", "lagged", "model.fallback",
    "schedule.untrusted", "wakeup.coalesced", "worker.log",
)  # fmt: skip
"""Those that need failures, slow readers, schedules, or an upgrade."""

pytestmark = pytest.mark.promise("P58")


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_outside_is_as_it_was_recorded(name: str, tmp_path: Path) -> None:
    """Issue 28: a change of it is a reviewed diff."""
    recorded, now = (FOLDER / name).read_text("utf-8"), make(name, tmp_path)
    if recorded != now:
        lines = difflib.unified_diff(recorded.splitlines(), now.splitlines(), f"recorded/{name}", "now", lineterm="")
        pytest.fail("\n".join([*lines, "", f"If this is meant: python -m tests.wire {name}"]), pytrace=False)


def test_every_recording_is_made() -> None:
    assert {path.name for path in FOLDER.iterdir()} == RECORDINGS.keys()


def takes_json(parser: argparse.ArgumentParser) -> bool:
    """Return whether a command has --json, and no commands under it."""
    flags = {flag for action in parser._actions for flag in action.option_strings}
    return "--json" in flags and parser._subparsers is None


def told(head: str) -> set[tuple[str, ...]]:
    """Return the exchanges in all recordings whose answer is a success, by what ``head`` finds in their heads."""
    found = set()
    for name in RECORDINGS:
        for part in re.split(r"^## ", (FOLDER / name).read_text("utf-8"), flags=re.MULTILINE):
            refused = re.search(r'^-> [45]\d\d$|"isError": true|"schema": "awk/error/1"|^-> 2\n$', part, re.MULTILINE)
            if (match := re.match(head, part)) and not refused:
                found.add(match.groups())
    return found


def test_every_route_is_recorded() -> None:
    routes = {
        f"{method} {route or path}"
        for method, path, route in told(r"\w+: ([A-Z]+) ([^\s?]+).*\n(?:route: [A-Z]+ (.*)\n)?")
    }
    assert {f"{route.method} {route.path}" for route in ROUTES} - routes == set(UNTOLD_ROUTES)


def test_every_tool_is_recorded() -> None:
    calls = told(r"(\w+): (\w+)\n")
    for whose, tools in (("team", TOOLS), ("user", MANAGEMENT)):
        named = {call[1] for call in calls if (call[0] == "user") == (whose == "user")}
        assert tools.keys() - named == set(UNTOLD_TOOLS[whose])
    listed = re.findall(r'^    "name": "(\w+)"', (FOLDER / "tools.txt").read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted((*TOOLS, *MANAGEMENT))


def test_every_document_of_a_command_is_recorded() -> None:
    lines = [words for (words,) in told(r"\$ (.* --json)\b")]
    lines = [re.sub(r"^(agent (?:memory|notes|soul|todo)) \S+", r"\1", line) for line in lines]
    named = {words for words, parser in parsers() if takes_json(parser)}
    untold = {words for words in named if not any(line.startswith(f"{words} ") for line in lines)}
    assert untold == set(UNTOLD_COMMANDS)


def test_every_type_of_event_is_recorded() -> None:
    recorded = "".join((FOLDER / name).read_text("utf-8") for name in RECORDINGS)
    schema = json.loads((FOLDER.parents[2] / "schema/events.json").read_text("utf-8"))
    types = {one["properties"]["type"]["const"] for one in schema["oneOf"]}
    told = set(re.findall(r'^(?:## event |{"id": "\d+", "event": ")([\w.]+)', recorded, re.MULTILINE))
    assert types - told == set(UNTOLD_EVENTS)
