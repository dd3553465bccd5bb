"""Chromium with the page of a real kernel, and all that a page lets a test see of it."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from tests.project import Project

PACKAGES: Final = Path(".peers/browser").absolute()
"""Where ``scripts/test browser`` installs playwright and axe-core."""

WATCHED: Final = """
window.ran = [];
window.reports = [];
window.begun = Math.random();
document.addEventListener("securitypolicyviolation", (event) => {
  window.reports.push(`${event.effectiveDirective}|${event.blockedURI}|${event.sample}`.slice(0, 200));
});
"""
"""Put into each document before anything of its own: what a payload would call, and where its refusal is heard."""


def browser_path() -> str | None:
    """The Chromium of this machine, or the one that AGENT_WORKER_TEST_BROWSER names."""
    named = os.environ.get("AGENT_WORKER_TEST_BROWSER")
    return named or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    path = browser_path()
    if path is None:
        pytest.skip("there is no chromium on PATH, and AGENT_WORKER_TEST_BROWSER names no browser")
    if PACKAGES.joinpath("playwright").exists() and str(PACKAGES) not in sys.path:
        sys.path.append(str(PACKAGES))
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: scripts/test browser does")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu", "--enable-precise-memory-info"]
        )
        yield browser
        browser.close()


@dataclass
class Opened:
    """One tab with the page, and what it complained of."""

    page: Any
    errors: list[str] = field(default_factory=list)
    """Of its console, and what was thrown and not caught."""
    pending: set[str] = field(default_factory=set)
    """Requests under way, without the stream."""

    def __post_init__(self) -> None:
        self.page.on("pageerror", self._throws)
        self.page.on("console", self._says)
        self.page.on("request", self._begins)
        self.page.on("requestfinished", self._ends)
        self.page.on("requestfailed", self._ends)

    def _throws(self, error: Any) -> None:
        self.errors.append(str(error))

    def _says(self, said: Any) -> None:
        if said.type in ("error", "warning"):
            self.errors.append(said.text)

    def _begins(self, request: Any) -> None:
        if "/events" not in request.url:
            self.pending.add(request.url)

    def _ends(self, request: Any) -> None:
        self.pending.discard(request.url)

    def state(self, name: str, value: str, seconds: float = 20) -> None:
        self.page.wait_for_selector(f'body[data-{name}="{value}"]', state="attached", timeout=seconds * 1000)

    def go(self, place: str) -> None:
        """Go to a part of the page, and wait until the drawer shows it whole: nothing is asked for any more."""
        self.page.evaluate("place => { location.hash = place; }", f"#/{place}")
        self.page.wait_for_selector("#drawer:not([hidden]) .body > *", state="attached", timeout=20_000)
        self.settled()

    def settled(self) -> None:
        """Wait until all that is shown was asked for and drawn: no request but the stream's is under way any more."""
        quiet = 0
        for _ in range(400):
            self.page.wait_for_timeout(30)  # a view asks again 50 ms after it heard of something
            quiet = 0 if self.pending else quiet + 1
            if quiet == 4:
                return
        raise AssertionError(f"the page never comes to rest: {self.pending}")

    def title_number(self) -> int:
        return int(self.page.title().partition(")")[0].removeprefix("("))


Open = Callable[..., Opened]


@pytest.fixture
def opened(chromium: Any) -> Iterator[Open]:
    """Opens the page of a project as a person does: by the address that ``awk open`` prints, in a browser of its own.

    ``beside``: in another tab of the browser of that one.
    """
    contexts: list[Any] = []

    def open_page(project: Project, *flags: str, beside: Opened | None = None, **how: Any) -> Opened:
        printed = project.awk("open", "--print", *flags)
        assert printed.code == 0, printed.err
        if beside is None:
            contexts.append(chromium.new_context(**{"locale": "en-US", "reduced_motion": "reduce", **how}))
            contexts[-1].add_init_script(WATCHED)
        context = contexts[-1] if beside is None else beside.page.context
        tab = Opened(context.new_page())
        tab.page.goto(printed.out.strip())
        tab.state("state", "ready")
        return tab

    yield open_page
    for context in contexts:
        context.close()
