"""open: the page in a browser by a private file, or its address where there is no screen."""

import stat
import sys
import webbrowser
from pathlib import Path

import pytest

from protocol.api.tokens import PageKey
from tests.interface.conftest import Cli
from tests.interface.kernel_double import KernelDouble
from tests.interface.samples import AT

URL = "http://127.0.0.1:4711/page#key=5ec1e7"
MADE = PageKey(key="5ec1e7", url=URL, expires_at=AT)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that a browser was started with."""
    found: list[str] = []

    def show(url: str) -> bool:
        found.append(url)
        return "refused" not in found

    monkeypatch.setattr(webbrowser, "open", show)
    return found


def test_without_a_screen_the_address_is_printed_alone(
    cli: Cli, kernel: KernelDouble, shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel.answers["POST /page/keys"] = MADE
    monkeypatch.setattr(sys, "platform", "linux")
    assert cli("open").out == f"{URL}\n"
    cli.environ["SSH_CONNECTION"] = "10.0.0.2 50000 10.0.0.1 22"
    assert "ssh -L 4711:127.0.0.1:4711 " in cli("open", "--read-only").err
    cli.environ["DISPLAY"] = ":0"
    assert cli("open", "--print").out == f"{URL}\n"
    assert cli("open", "--json").json()["url"] == URL
    assert shown == []
    assert [asked.body["read_only"] for asked in kernel.of("POST", "/page/keys")] == [False, True, False, False]


@pytest.mark.promise("P80")
def test_the_key_is_in_no_argument_of_the_browser(cli: Cli, kernel: KernelDouble, shown: list[str]) -> None:
    """It is in a file that only its owner reads, and there is one such file however often the page is opened."""
    kernel.answers["POST /page/keys"] = MADE
    cli.environ["WAYLAND_DISPLAY"] = "wayland-0"
    for _ in range(2):
        ran = cli("open")
        assert (ran.code, ran.out, "open --print" in ran.err) == (0, "", True)
    first, again = shown
    assert first == again
    path = Path(first.removeprefix("file://"))
    assert "5ec1e7" not in first
    assert f'url={URL}"' in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in path.parent.glob("open*")] == ["open.html"]


def test_where_no_browser_starts_the_address_is_printed(cli: Cli, kernel: KernelDouble, shown: list[str]) -> None:
    kernel.answers["POST /page/keys"] = MADE
    cli.environ["BROWSER"] = "no-such-browser"
    shown.append("refused")
    assert cli("open").out == f"{URL}\n"
