"""How the kernel before had ended, as its service saw it: read once, believed only as far as it is in its own words."""

from pathlib import Path

import pytest

from kernel.boot.service_end import in_words, kept_by

pytestmark = pytest.mark.promise("P72")

SERVICE = {"AGENT_WORKER_SERVICE": "agent-worker-p-0.service"}


@pytest.mark.parametrize(
    ("words", "how"),
    [
        (("signal", "killed", "KILL"), "killed by SIGKILL"),
        (("core-dump", "dumped", "SEGV"), "killed by SIGSEGV"),
        (("exit-code", "exited", "70"), "exit code 70"),
        (("watchdog", "dumped", "ABRT"), "the service's watchdog killed it: its event loop was blocked"),
        (("oom-kill", "killed", "KILL"), "the system killed it: out of memory"),
        (("resources", "", ""), "resources"),
    ],
)
def test_an_end_is_told_in_words(words: tuple[str, str, str], how: str) -> None:
    """systemd.exec(5)."""
    assert in_words(*words) == how


def test_it_is_read_once(tmp_path: Path) -> None:
    """A kernel that no service keeps takes it away too, so that it is never about an older end."""
    note = tmp_path / "ended"
    for environ in (SERVICE, {}):
        note.write_text("signal killed KILL\n")
        found = kept_by(environ, str(tmp_path))
        assert (found is not None and found.how) == ("killed by SIGKILL" if environ else False)
        assert not note.exists()
    found = kept_by(SERVICE, str(tmp_path))
    assert found is not None and (found.how, found.at) == (None, None)
    assert "unknown" in found.notice


@pytest.mark.parametrize(
    "text",
    ["", "x" * 5000, "\x1b[2J killed KILL\n", "signal killed KILL\nmore\n", "signal killed\n", "exit-code exited 75\n"],
)
def test_what_is_not_in_its_words_says_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / "ended").write_text(text)
    found = kept_by(SERVICE, str(tmp_path))
    assert found is not None and found.how is None
    other = tmp_path / "other"
    other.write_text("signal killed KILL\n")
    (tmp_path / "ended").symlink_to(other)
    found = kept_by(SERVICE, str(tmp_path))
    assert found is not None and (found.how, other.exists()) == (None, True)
    assert kept_by({"AGENT_WORKER_SERVICE": "a\nb"}, str(tmp_path)) is None
