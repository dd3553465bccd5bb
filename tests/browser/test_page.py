"""What an operator does with the page: see what needs a person, and decide; by keyboard, on a phone, read only."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import PACKAGES, Open, Opened
from tests.e2e.processes import wait_until
from tests.project import Project

pytestmark = [pytest.mark.long("tests/kernel/api/test_page.py"), pytest.mark.timeout(300)]

VIEWS = (
    "agent/asking", "instruction/i3", "instruction/i3/prompt", "instruction/i3/attempts",
    "space/team:main/channel", "space/team:main/documents", "space/team:main/tasks", "space/team:main/votes",
    "doc/team:main/notes.md", "run/r1", "approval/a1", "message/m1", "search/hello",
    "run/r1/graph", "run/r1/spending", "run/r1/changes", "instruction/i3/steps/1", "spending/all", "projects",
)  # fmt: skip
"""A place of each kind."""


@pytest.fixture(scope="module")
def team(shared_kernel: Project) -> Project:
    """A kernel with something of each kind, and three things that need a person."""
    project = shared_kernel
    project.write(
        ".agents/asking.yaml",
        """
        model: mock/x
        prompt: { system: hi }
        tools: [bash]
        mock: [{ tool: bash, args: { command: echo hello > asked.txt } }, { text: finished }]
        """,
    )
    project.agent("failing", "error: { http_status: 400 }")
    project.agent("plain", "text: hello")
    project.write(
        ".workflows/team.yaml",
        """
        workspace: { documents: [plan.md] }
        agents:
          plain: { ref: plain }
          other: { model: mock/x, mock: [{ text: hello }] }
        """,
    )
    project.ask("POST", "/workflows", {"workflow": "team", "trust": True})
    for to in ("asking", "failing", "plain", "@team"):
        project.ask("POST", "/messages", {"to": to, "text": f"hello {to}", "trust": True})
    project.until("approval.requested")
    tasks = [{"title": "first", "key": "a"}, {"title": "second", "needs": ["a"]}]
    project.ask("POST", "/spaces/team:main/tasks", {"tasks": tasks})
    project.ask("POST", "/spaces/team:main/proposals", {"type": "approval", "title": "Release?"})
    project.ask("PUT", "/spaces/team:main/documents/notes.md", {"content": "# Notes\n", "reason": "begun"})
    return project


def numbers(project: Project) -> set[int]:
    """The number of what needs a person, wherever it is told."""
    return {
        project.awk("needs", "--json").json()["total"],
        project.awk("ps", "--json").json()["needs"],
        project.awk("status", "--json").json()["needs"],
    }


def test_what_needs_a_person_is_one_number_and_decided_by_keyboard(team: Project, opened: Open) -> None:
    tab = opened(team)
    tab.page.wait_for_selector("[data-need]")
    assert {tab.title_number(), tab.page.locator("[data-need]").count()} | numbers(team) == {tab.title_number()}
    before = tab.title_number()
    tab.page.keyboard.press("n")
    press_until(tab, "Tab", "document.activeElement.closest('[data-need^=\"approval:\"]') !== null")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector('#drawer button[data-action="approve"]')
    assert "echo hello > asked.txt" in tab.page.inner_text("#drawer"), "the whole call is shown before the button"
    press_until(tab, "Tab", "document.activeElement.dataset.action === 'approve'")
    tab.page.keyboard.press("Enter")
    team.until("approval.decided")
    tab.page.wait_for_selector('[data-need^="approval:"]', state="detached")
    tab.page.keyboard.press("Escape")
    tab.page.wait_for_selector("#drawer", state="hidden")
    assert tab.title_number() == before - 1
    assert numbers(team) == {before - 1}
    assert tab.errors == []


def press_until(tab: Opened, key: str, holds: str) -> None:
    """Press ``key`` until the focus is where it is wanted, as a person does who sees it."""
    for _ in range(60):
        if tab.page.evaluate(f"() => {holds}"):
            return
        tab.page.keyboard.press(key)
    raise AssertionError(f"{key} never leads there: {holds}")


def test_no_place_scrolls_sideways_on_a_phone(team: Project, opened: Open) -> None:
    """360 x 640, every kind of place; what is wide scrolls in itself."""
    tab = opened(team, viewport={"width": 360, "height": 640}, has_touch=True)
    for place in VIEWS:
        tab.go(place)
        wide = tab.page.evaluate("() => [document.documentElement.scrollWidth, document.body.scrollWidth]")
        assert max(wide) <= 360, place
    assert tab.errors == []


def test_each_view_is_one_request(team: Project, opened: Open) -> None:
    """Besides the stream, and the parts beside the drawer."""
    tab = opened(team)
    asked: list[str] = []

    def hear(request: Any) -> None:
        asked.append(str(request.url).split("/", 3)[3])

    tab.page.on("request", hear)
    beside = re.compile(r"page|events|health|overview|needs\?|runs\?|ps\?idle=")
    for place in sorted({*VIEWS} - {"run/r1/changes"}):
        asked.clear()
        tab.go(place)
        found = {one for one in asked if not beside.match(one)}
        assert len(found) == 1, (place, found)
    tab.go("doc/team:main/notes.md")
    tab.page.click("#drawer summary")
    tab.page.get_by_role("button", name="version 1").wait_for()
    tab.go("agent/plain")
    tab.page.click("#drawer summary")
    tab.page.wait_for_selector("#drawer article.turn")
    assert tab.errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_place_has_a_fault_that_axe_knows(team: Project, opened: Open, scheme: str) -> None:
    """WCAG 2.2 A and AA, in both colour schemes."""
    axe = PACKAGES / "node_modules/axe-core/axe.min.js"
    if not axe.exists():
        pytest.skip("axe-core is not installed: scripts/test browser does")
    tab = opened(team, color_scheme=scheme)
    found: dict[str, Any] = {}
    tab.page.evaluate(axe.read_text("utf-8"))
    for place in ("", *VIEWS):
        if place:
            tab.go(place)
        for one in tab.page.evaluate("async () => (await axe.run(document)).violations"):
            found[f"{place}: {one['id']}"] = [node["html"][:200] for node in one["nodes"]]
    assert not found, "\n".join(f"{rule}: {nodes}" for rule, nodes in found.items())


def test_a_page_that_only_reads_offers_nothing_to_change(team: Project, opened: Open) -> None:
    tab = opened(team, "--read-only")
    for place in VIEWS:
        tab.go(place)
        assert tab.page.locator("[data-action]").count() == 0, place
        assert tab.page.locator("form#send, #drawer form").count() == 0, place
    refused = tab.page.evaluate(
        """async () => {
          const { token } = JSON.parse(sessionStorage.getItem(Object.keys(sessionStorage)[0]));
          const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
          const ask = (path) => fetch(path, { method: "POST", headers, body: "{}" });
          return [(await ask("/messages")).status, (await ask("/approvals/a1/approve")).status];
        }"""
    )
    assert refused == [403, 403]
    assert tab.page.evaluate("() => location.hash.includes('key') || document.cookie !== ''") is False


@pytest.mark.promise("P80")
def test_awk_open_leads_one_browser_in(team: Project, chromium: Any, tmp_path: Path) -> None:
    handed = tmp_path / "handed"
    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\nprintf %s "$*" >{handed}.half && mv {handed}.half {handed}\n')
    program.chmod(0o755)
    assert team.awk("open", env={"BROWSER": str(program)}).out == ""
    wait_until(handed.exists)
    key = re.findall(r"key=([0-9a-f]{64})", Path(handed.read_text().removeprefix("file://")).read_text())
    assert len(key) == 2 and key[0] not in handed.read_text()
    states = []
    for _ in range(2):
        context = chromium.new_context()
        page = context.new_page()
        page.goto(handed.read_text())
        page.wait_for_selector('body[data-state="ready"], body[data-state="signed-out"]', state="attached")
        states.append(page.evaluate("() => document.body.dataset.state"))
        assert page.url.endswith("/page")
        assert key[0] not in page.evaluate("() => document.documentElement.outerHTML + JSON.stringify(sessionStorage)")
        context.close()
    assert states == ["ready", "signed-out"]
