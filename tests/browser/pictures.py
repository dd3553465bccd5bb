"""Makes docs/images/page-*.png, after ``scripts/test browser``: ``python -m tests.browser.pictures [FOLDER]``."""

import importlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.browser.conftest import PACKAGES, WATCHED, Opened, browser_path
from tests.e2e.processes import wait_until
from tests.project import Project, empty_project

WIDE: Final = {"width": 1360, "height": 860}
PHONE: Final = {"width": 390, "height": 780}
PICTURES: Final = (
    ("page-needs", "approval/a1", WIDE, "en-US", "light"),
    ("page-overview", "", WIDE, "en-US", "light"),
    ("page-run", "run/r1", WIDE, "en-US", "light"),
    ("page-talk", "run/r1/graph", WIDE, "en-US", "light"),
    ("page-cost", "run/r1/spending", WIDE, "en-US", "dark"),
    ("page-changes", "run/r1/changes", WIDE, "en-US", "light"),
    ("page-tasks", "space/release:main/tasks", WIDE, "en-US", "dark"),
    ("page-phone", "", PHONE, "zh-CN", "light"),
)
"""Name, place, size, language and colours."""


def step(cost: float, **action: Any) -> list[dict[str, Any]]:
    return [{"sleep": "700ms"}, {"usage": {"input_tokens": 2400, "output_tokens": 310, "cost_usd": cost}}, action]


def said(message: str) -> dict[str, Any]:
    return {"tool": "channel_send", "args": {"message": message}}


TEAM: Final[dict[str, list[dict[str, Any]]]] = {
    "lead": [
        *step(0.021, **said("@coder please write `slug(text)`.\n\n- lower case\n- **no** accents")),
        *step(0.013, **said("@tester please prepare the tests.")),
        {"text": "The work is planned."},
    ],
    "coder": [
        *step(0.034, tool="write", args={"path": "slug.py", "content": "def slug(text):\n    return text.lower()\n"}),
        *step(0.012, shell="git add -A && git -c user.name=a -c user.email=a@b commit -qm 'Add slug'"),
        *step(0.041, tool="bash", args={"command": "python3 -m unittest no_such_test"}),
        *step(0.018, **said("@tester `slug.py` is ready. One test module is missing.")),
        {"text": "# Done\n\n`slug` is written."},
    ],
    "tester": [*step(0.009, tool="bash", args={"command": "sleep 1; ls"}), {"text": "Two cases pass, one fails."}],
    "observer": [{"text": ""}],
}  # fmt: skip


def built() -> Project:
    """A project in which a team has worked, a call waits for approval, and a person is asked."""
    project = empty_project(Path(tempfile.mkdtemp()))
    agents = {
        name: {"backend": "mock", "tools": ["bash", "files"], "approval": "never", "mock": script}
        for name, script in TEAM.items()
    }
    tasks = [
        {"key": "plan", "title": "Plan the release"},
        {"key": "code", "title": "Write slug.py", "needs": ["plan"]},
        {"key": "test", "title": "Test it", "needs": ["code"]},
        {"key": "docs", "title": "Describe it", "needs": ["code"]},
    ]
    flow = {
        "workspace": {"git": "worktree"},
        "agents": agents,
        "kickoff": "@lead @observer please build a slug function.",
    }
    project.write(".workflows/release.yaml", json.dumps(flow))
    project.write(".gitignore", ".agents/\n.workspace/\n")
    project.write("README.md", "# Slug\n")
    project.commit()
    edit = {"path": "README.md", "old": "# Slug", "new": "# Slug\n\nMakes slugs."}
    script = [{"tool": "edit", "args": edit}, {"text": "done"}]
    asking = {"backend": "mock", "tools": ["files"], "approval": "ask", "mock": script}
    project.write(".agents/writer.yaml", json.dumps(asking))
    project.write(".agents/carol.yaml", "backend: human\n")
    project.agent("broken", "error: { http_status: 400 }")
    assert project.awk("start").code == project.awk("trust", "--yes").code == 0
    assert project.awk("run", "release", "--detach").code == 0
    project.ask("POST", "/spaces/release:main/tasks", {"tasks": tasks})
    project.ask("POST", "/spaces/release:main/tasks/t1/claim")
    for to in ("writer", "carol", "broken"):
        project.send(to, "may we **release** on Friday?")
    project.until("approval.requested")
    wait_until(lambda: project.ask("GET", "/runs/r1")["status"] != "running")
    return project


def main(folder: Path) -> None:
    """Build the project once, and show each place in a tab of its own."""
    sys.path.append(str(PACKAGES))
    sync_playwright = importlib.import_module("playwright.sync_api").sync_playwright
    project = built()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=["--no-sandbox", "--disable-gpu"])
        for name, place, size, locale, scheme in PICTURES:
            context = browser.new_context(viewport=size, locale=locale, color_scheme=scheme, reduced_motion="reduce")
            context.add_init_script(WATCHED)
            tab = Opened(context.new_page())
            tab.page.goto(project.awk("open", "--print").out.strip())
            tab.state("state", "ready")
            if place:
                tab.go(place)
            tab.settled()
            tab.page.screenshot(path=folder / f"{name}.png")
            assert tab.page.evaluate("() => window.reports") == [], name
        browser.close()
    project.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
