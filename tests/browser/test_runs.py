"""What a person sees of work that goes on: overview, lanes of a run, diffs, questions; and how they start it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import Open
from tests.browser.pictures import built
from tests.project import Project

pytestmark = [pytest.mark.long("tests/interface/test_page_files.py"), pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def worked() -> Iterator[Project]:
    project = built()
    yield project
    project.stop()


def test_the_first_screen_tells_what_runs_what_it_costs_what_failed_and_what_to_do(
    worked: Project, opened: Open
) -> None:
    tab = opened(worked, viewport={"width": 1360, "height": 860})
    tab.page.wait_for_selector("[data-tile]")
    tiles = dict(
        zip(("running", "spent", "needs", "failed"), tab.page.locator(".tile b").all_inner_texts(), strict=True)
    )
    assert tiles == {"running": "0", "spent": "$0.16", "needs": str(tab.title_number()), "failed": "1"}
    for part in ("#overview", "#needs", "#agents", "#runs", "#send", "#start-run", "#create-agent"):
        box = tab.page.locator(part).bounding_box()
        assert box is not None and box["y"] < 860, part
    assert tab.errors == []


def test_a_run_has_a_lane_for_each_agent_also_for_one_that_said_nothing(worked: Project, opened: Open) -> None:
    tab = opened(worked)
    tab.go("run/r1")
    found = "performance.getEntriesByType('resource').map((one) => new URL(one.name).pathname)"
    asked = [path for path in tab.page.evaluate(f"() => {found}") if path.startswith(("/runs/r1", "/instructions"))]
    assert set(asked) == {"/runs/r1/timeline"}, "one request shows all"
    names = tab.page.locator(".names li").all_inner_texts()
    assert {"lead", "coder", "tester", "observer"} <= set(names)
    kinds = {kind: tab.page.locator(f".timeline a rect.{kind}").count() for kind in ("attempt", "model", "tool")}
    assert kinds["attempt"] >= 5 and kinds["model"] > 4 and kinds["tool"] > 4, kinds
    assert tab.page.locator(".timeline a rect.failed").count() >= 1
    assert tab.page.locator(".timeline a .arrow").count() >= 3
    hrefs = set(
        tab.page.evaluate("() => [...document.querySelectorAll('.timeline a')].map((one) => one.getAttribute('href'))")
    )
    assert all(one.startswith(("#/instruction/", "#/message/", "#/approval/", "#/search/")) for one in hrefs)
    assert "incomplete" in tab.page.inner_text("#drawer") and tab.errors == []


def test_a_timeline_zooms_by_keyboard_and_by_dragging_and_its_bars_lead_to_steps(worked: Project, opened: Open) -> None:
    tab = opened(worked)
    tab.go("run/r1")
    shown = tab.page.locator("#drawer .none", has_text="From")
    whole = shown.inner_text()
    tab.page.focus(".lanes")
    tab.page.keyboard.press("+")
    half = shown.inner_text()
    tab.page.keyboard.press("ArrowRight")
    moved = shown.inner_text()
    tab.page.keyboard.press("0")
    assert len({whole, half, moved}) == 3 and shown.inner_text() == whole
    tab.page.keyboard.press("ArrowDown")
    assert tab.page.evaluate("() => document.activeElement.matches('.timeline a')")
    box = tab.page.locator("svg.timeline").bounding_box()
    assert box is not None
    tab.page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 5)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 5)
    tab.page.mouse.up()
    assert shown.inner_text() != whole
    tab.page.get_by_role("button", name="Show all").click()
    assert shown.inner_text() == whole
    tab.page.evaluate('() => { location.hash = document.querySelector("a:has(rect.failed)").getAttribute("href"); }')
    tab.page.wait_for_selector("#drawer .steps li.failed.chosen")
    assert "no_such_test" in tab.page.inner_text("#drawer .steps li.failed.chosen")


def test_changes_are_shown_by_file_and_line_and_merged_by_a_button(worked: Project, opened: Open) -> None:
    tab = opened(worked)
    tab.go("run/r1/changes")
    lines = "[...document.querySelectorAll('.diff .added')].map((one) => [one.dataset.new, one.textContent])"
    added = tab.page.evaluate(f"() => {lines}")
    assert ["1", "def slug(text):"] in added and "slug.py" in tab.page.inner_text(".file summary")
    for _ in range(2):
        tab.page.click("#drawer [data-action=merge]")
    tab.page.wait_for_selector('#drawer .state[data-state="merged"]')
    assert (worked.root / "slug.py").exists()
    brought = tab.page.locator("#drawer h3", has_text="Changes of merge g1")
    brought.wait_for()
    assert "def slug(text):" in tab.page.locator("#drawer h3:has-text('Changes of merge g1') ~ div .diff").inner_text()


def test_an_edit_is_approved_by_its_diff_and_a_question_stands_above_its_answer(worked: Project, opened: Open) -> None:
    tab = opened(worked)
    tab.go("approval/a1")
    assert tab.page.locator(".diff .added").all_inner_texts() == ["", "Makes slugs."]
    assert '"new": "# Slug\\n\\nMakes slugs."' in tab.page.inner_text("#drawer .given"), "the raw call"
    asked = next(one["id"] for one in worked.awk("needs", "--json").json()["items"] if one["kind"] == "answer")
    tab.go(f"instruction/{asked}")
    assert tab.page.inner_text(".question strong") == "release"
    tab.page.fill("#answer textarea", "yes, on Friday")
    tab.page.keyboard.press("Control+Enter")
    tab.page.wait_for_selector("#drawer .facts .state[data-state=done]")
    assert tab.page.locator("#answer").count() == 0 and tab.errors == []


def test_forms_start_a_run_open_a_space_and_write_the_command_for_an_agent(worked: Project, opened: Open) -> None:
    tab = opened(worked)
    tab.page.click("#start-run summary")
    tab.page.fill("#start-run [name=workflow]", "no such workflow")
    tab.page.click("#start-run [type=submit]")
    tab.page.wait_for_selector("#said .bad")
    tab.page.fill("#start-run [name=workflow]", "release")
    tab.page.fill("#start-run [name=tag]", "again")
    tab.page.click("#start-run [type=submit]")
    tab.page.click("#start-run small a")
    tab.page.wait_for_selector(".names li")
    assert "release:again" in tab.page.inner_text("#drawer-title")
    tab.page.keyboard.press("Escape")
    tab.page.click("#open-space summary")
    tab.page.fill("#open-space [name=name]", "plans")
    tab.page.fill("#open-space [name=members]", "writer, carol")
    tab.page.click("#open-space [type=submit]")
    tab.page.wait_for_selector("#open-space small a")
    assert [one["name"] for one in worked.ask("GET", "/spaces")["spaces"]] == ["plans"]
    tab.page.click("#create-agent summary")
    for name, text in {"name": "dora", "model": "mock/x", "system": "it's $HOME"}.items():
        tab.page.fill(f"#create-agent [name={name}]", text)
    tab.page.click("#create-agent [type=submit]")
    command = tab.page.inner_text("#create-agent small code")
    assert command == "awk agent create dora --model mock/x --system 'it'\\''s $HOME'"


def test_a_page_with_the_administrators_token_creates_an_agent(worked: Project, opened: Open) -> None:
    tab = opened(worked)
    admin = {"token": worked.record()["token"], "scopes": ["read", "operate", "approve", "admin"]}
    change = """(admin) => {
      const kept = JSON.parse(sessionStorage.getItem("awk-page"));
      sessionStorage.setItem("awk-page", JSON.stringify({ ...kept, ...admin }));
    }"""
    tab.page.evaluate(change, admin)
    tab.page.reload()
    tab.page.click("#create-agent summary")
    for name, text in {"name": "dora", "model": "anthropic/opus", "system": "hi"}.items():
        tab.page.fill(f"#create-agent [name={name}]", text)
    tab.page.click("#create-agent [type=submit]")
    tab.page.wait_for_selector('#create-agent small a[href="#/agent/dora"]')
    assert worked.ask("GET", "/agents/dora")["ephemeral"] is True


def test_all_projects_of_the_user_are_listed_on_one_page(worked: Project, opened: Open) -> None:
    tab = opened(worked)
    tab.page.get_by_role("link", name="Projects").click()
    here = tab.page.locator(f'#drawer [data-project="{worked.root}"]')
    here.wait_for()
    assert "running" in here.inner_text() and "this page" in here.inner_text() and tab.errors == []


def test_the_text_of_a_reply_is_shown_while_its_model_writes_it(worked: Project, opened: Open) -> None:
    worked.agent("slow", "sleep: 60s", "text: done")
    tab = opened(worked)
    asked = worked.send("slow")
    told = {"type": "delta", "at": "", "instruction": asked, "data": {"text": "<b>half of it"}}
    stream = f"event: delta\ndata: {json.dumps(told)}\n\n"

    def answer(route: Any) -> None:
        route.fulfill(content_type="text/event-stream", body=stream)

    tab.page.route("**/events", answer)
    tab.page.reload()
    tab.go(f"instruction/{asked}")
    tab.page.wait_for_selector("#drawer .live")
    assert tab.page.inner_text("#drawer .live").startswith("<b>half of it")
    worked.ask("POST", f"/instructions/{asked}/cancel")
