"""Texts of others in every field of the page: none runs, none becomes markup, and the browser has nothing to refuse."""

import json
import shlex
from typing import Any, Final

import pytest

from tests.browser.conftest import Open, Opened
from tests.browser.payloads import payloads
from tests.project import Project

pytestmark = [pytest.mark.promise("P81"), pytest.mark.long("tests/kernel/api/test_page.py"), pytest.mark.timeout(600)]

PAYLOADS: Final = tuple(payloads())
PLAIN: Final = tuple(one.replace("\0", "") for one in PAYLOADS)
"""As far as a file of YAML, a name of a file or a command may have them."""
OWN_TAGS: Final = (
    "html", "head", "meta", "title", "link", "script", "style", "body", "a", "header", "p", "div", "main",
    "aside", "dialog", "h1", "h2", "h3", "form", "input", "button", "section", "ul", "ol", "li", "span",
    "small", "time", "dl", "dt", "dd", "pre", "code", "table", "thead", "tbody", "tr", "th", "td", "nav",
    "label", "select", "option", "datalist", "textarea", "details", "summary", "kbd", "svg", "g", "path",
    "rect", "line", "circle", "text", "polyline", "polygon", "marker", "defs", "noscript", "strong", "em", "b",
    "i", "progress", "meter", "output", "article", "footer", "figure", "figcaption", "fieldset", "legend",
    "tspan", "desc", "canvas", "hr", "br", "del", "blockquote",
)  # fmt: skip
"""Of what the page makes itself; payloads bring others."""


def script_of(actions: list[dict[str, Any]]) -> str:
    return "".join(f"  - {json.dumps(action, ensure_ascii=True)}\n" for action in actions)


def printed(text: str) -> str:
    return "".join(one for one in text if one.isprintable() and one not in "/\\")[:60]


@pytest.fixture(scope="module")
def attacked(shared_kernel: Project) -> Project:
    """A kernel in which all of PAYLOADS stand in each field that the page shows."""
    project = shared_kernel
    ask = project.ask
    half = [one for one in PLAIN if "\n" not in one]
    calls: list[dict[str, Any]] = [
        {
            "tool": "my_status_set",
            "args": {"task": half[8][:100], "state": half[0][:60], "metadata": {half[1]: half[2]}},
        },
        {"tool": "channel_send", "args": {"message": "@user " + "\n".join(PLAIN[:40])}},
        {"tool": "team_doc_create", "args": {"file": "said.md", "content": "\n".join(PLAIN), "reason": half[3][:200]}},
        {"tool": "resource_create", "args": {"content": "\n".join(PLAIN)}},
        *({"tool": "no<x-made>tool", "args": {one: one}} for one in half[:6]),
        *({"tool": "bash", "args": {"command": f"printf %s {shlex.quote(one)}"}} for one in half[:12]),
        *({"tool": "write", "args": {"path": f"{printed(one)}.md", "content": one}} for one in half[:12]),
        {"tool": "bash", "args": {"command": "printf '%s\\n' " + " ".join(shlex.quote(one) for one in half)}},
        {"text": "\n".join(PLAIN)},
    ]
    member = (
        f"model: mock/x\nprompt: {{ system: {json.dumps(half[0])} }}\ntools: [bash, files]\napproval: never\nmock:\n"
    )
    project.write(".agents/loud.yaml", "PLACE\n").write_text(member + script_of(calls), "utf-8")
    asking = "model: mock/x\nprompt: { system: hi }\ntools: [bash]\nmock:\n"
    wanted = [{"tool": "bash", "args": {"command": "\n".join(PLAIN)}}]
    project.write(".agents/asking.yaml", "PLACE\n").write_text(asking + script_of(wanted), "utf-8")
    failing = [{"error": {"http_status": 400, "text": half[8]}}]
    project.write(".agents/failing.yaml", "PLACE\n").write_text("backend: mock\nmock:\n" + script_of(failing), "utf-8")
    project.write(
        ".workflows/team.yaml",
        """
        params: [{ name: what }]
        agents:
          loud: { ref: loud }
          quiet: { model: mock/x, mock: [{ text: hi }] }
        """,
    )
    ask("POST", "/workflows", {"workflow": "team", "trust": True, "params": ["--what", half[0]]})
    for to in ("loud@team", "asking", "failing"):
        ask("POST", "/messages", {"to": to, "text": half[8], "trust": True})
    ask("POST", "/agents/quiet@team/pause")
    for start in range(0, len(PAYLOADS), 100):
        messages = [{"to": "@team", "text": one} for one in PAYLOADS[start : start + 100]]
        ask("POST", "/messages", {"messages": messages})
    for start in range(0, len(half), 100):
        tasks = [{"title": one[:200], "text": one, "files": [printed(one)]} for one in half[start : start + 100]]
        ask("POST", "/spaces/team:main/tasks", {"tasks": tasks})
    ask("POST", "/spaces/team:main/tasks/t1/claim")
    ask("POST", "/spaces/team:main/tasks/t1/fail", {"reason": half[8]})
    for number, one in enumerate(half[:14]):
        options = [{"id": f"o{place}", "label": half[30 + place]} for place in range(2)]
        ballot = {"type": "decision", "title": one[:200], "description": "\n".join(PLAIN[:20]), "options": options}
        ask("POST", "/spaces/team:main/proposals", {**ballot, "id": f"p{number}"})
        ask("POST", f"/spaces/team:main/proposals/p{number}/vote", {"choice": "o1", "reason": half[number + 1]})
    for version in range(4):
        content = {"content": "\n".join(PLAIN[: 300 - version]), "reason": half[version + 8][:300]}
        ask("PUT", "/spaces/team:main/documents/notes.md", content)
    project.until("approval.requested")
    project.until("instruction.ended", holds=lambda event: event["agent"] == "failing")
    project.until("instruction.ended", holds=lambda event: event["agent"] == "loud" and event["space"] == "team:main")
    return project


def places() -> list[str]:
    """Everything that can be opened in the page, what names itself by a payload too."""
    space = "team:main"
    found = [f"space/{space}/{part}" for part in ("channel", "documents", "tasks", "votes")]
    found += [
        "doc/team:main/notes.md",
        "doc/team:main/said.md",
        "run/r1",
        "run/r1/graph",
        "run/r1/spending",
        "run/r1/changes",
        "approval/a1",
    ]
    found += [f"agent/{name}" for name in ("loud@team", "asking", "failing", "quiet@team")]
    for number in range(1, 4):
        found += [f"instruction/i{number}{part}" for part in ("", "/prompt", "/attempts", "/changes")]
    return [*found, "search/x-made", "search/onerror", "message/m4", "message/m44", "message/m104"]


def made(tab: Opened) -> dict[str, Any]:
    found: dict[str, Any] = tab.page.evaluate(
        """(tags) => {
          const all = [...document.querySelectorAll("*")];
          return {
            ran: window.ran,
            reports: window.reports,
            made: all.filter((one) => one.matches("x-made, .x-made") || !tags.includes(one.localName))
              .map((one) => one.outerHTML.slice(0, 200)),
            handlers: all.flatMap((one) => one.getAttributeNames().filter((name) => name.startsWith("on"))),
            links: all
              .map((one) => one.getAttribute("href") ?? one.getAttribute("src") ?? one.getAttribute("action") ?? "#")
              .filter((where) => !where.startsWith("#") && !where.startsWith("/page/")),
            polluted: Object.keys(Object.prototype),
          };
        }""",
        OWN_TAGS,
    )
    return found


NOTHING: Final[dict[str, list[str]]] = {
    "ran": [], "reports": [], "made": [], "handlers": [], "links": [], "polluted": [],
}  # fmt: skip


def test_no_text_of_others_runs_or_becomes_markup(attacked: Project, opened: Open) -> None:
    """300 payloads in messages, tasks, votes, documents, calls, outputs, prompts, statuses, errors, names of files."""
    tab = opened(attacked)
    seen = ""
    for place in ("", *places()):
        if place:
            tab.go(place)
        tab.page.evaluate("() => document.querySelectorAll('#drawer details').forEach((one) => { one.open = true; })")
        tab.settled()
        for _ in range(3):
            earlier = tab.page.locator("#drawer .body > button:visible").first
            seen += tab.page.inner_text("body")
            assert made(tab) == NOTHING, place
            if "channel" not in place or earlier.count() == 0:
                break
            earlier.click()
            tab.settled()
    for text in ("<script class=x-made>", "<img class=x-made src=x onerror=", "<x-made>", "<svg class=x-made onload="):
        assert seen.count(text) > 30, f"{text} is shown as the text that it is"
    refusals = "Failed to load resource: the server responded with a status of 404"
    assert [one for one in tab.errors if not one.startswith(refusals)] == []
    assert_policy_holds(tab)


def assert_policy_holds(tab: Opened) -> None:
    """What was never needed would have helped: markup and scripts that a script of the page itself made are refused."""
    thrown = tab.page.evaluate(
        """() => {
          const names = [];
          const attempt = (act) => { try { act(); names.push("made"); } catch (error) { names.push(error.name); } };
          attempt(() => { document.getElementById("said").innerHTML = "<img src=x onerror=ran.push(1)>"; });
          attempt(() => document.write("<script>ran.push(2)</script>"));
          attempt(() => document.body.insertAdjacentHTML("beforeend", "<x-made></x-made>"));
          attempt(() => { document.createElement("script").textContent = "ran.push(3)"; });
          attempt(() => window.trustedTypes.createPolicy("mine", { createHTML: (text) => text }));
          return names;
        }"""
    )
    assert thrown == ["TypeError"] * 5
    tab.page.evaluate(
        """() => {
          const image = document.createElement("img");
          image.setAttribute("src", "http://127.0.0.1:9/x.png");
          document.body.append(image);
          image.remove();
          return fetch("http://127.0.0.1:9/").catch(() => null);
        }"""
    )
    tab.page.wait_for_timeout(100)
    found = made(tab)
    assert found["ran"] == found["made"] == []
    directives = sorted({report.partition("|")[0] for report in found["reports"]})
    assert directives == ["connect-src", "img-src", "require-trusted-types-for", "trusted-types"]
    assert len(found["reports"]) == 7, found["reports"]
