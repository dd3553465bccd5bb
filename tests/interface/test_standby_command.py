"""awk standby check and awk restore --promote: what they ask for, and what they say."""

import msgspec
import pytest

from interface.cli.exits import Exit
from protocol.standby import StandbyReport
from tests.interface.conftest import Cli
from tests.interface.hostile import HOSTILE, obeyed

ODD = " ".join(text for text in HOSTILE if text != "\ud800")
REPORT = {
    "schema": "awk/standby-check/1", "folder": "/far", "ok": True, "project": f"/p/{ODD}", "event": 26, "message": 9,
    "at": "2026-11-23T05:54:41.458Z", "term": 2, "pieces": 6, "base_at": "2026-11-23T05:54:40.945Z",
    "total_bytes": 1_172_235, "files": 1, "files_at": "2026-11-23T05:54:41.006Z",
    "beat_at": "2026-11-23T05:54:40.945Z", "alive": True, "ended": False, "promoted": None, "faults": [],
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "code", "says"),
    [
        ({}, Exit.OK, ("complete to m9 (event 26", "6 pieces", "term 2", "it may run")),
        ({"ended": True}, Exit.OK, ("nothing that it answered is missing",)),
        ({"ok": False, "faults": [f"log-7: {ODD}"]}, Exit.FAILED, ("wrong: log-7",)),
        ({"ok": False, "promoted": f"/q {ODD}"}, Exit.FAILED, ("took the original's place already: /q",)),
        ({"at": None, "event": 0, "files_at": None, "beat_at": None}, Exit.OK, ("nothing yet",)),
    ],
)
def test_a_check_says_up_to_when_a_copy_goes_and_what_is_wrong(
    changes: dict[str, object], code: Exit, says: tuple[str, ...], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def check(folder: str, _now: float) -> StandbyReport:
        calls.append(folder)
        return msgspec.convert(REPORT | changes, StandbyReport)

    monkeypatch.setattr("interface.cli.commands.standby.check_standby", check)
    ran = cli("standby", "check", "far")
    assert ran.code == code
    assert all(one in ran.out for one in says), ran.out
    assert obeyed(ran.out) == []
    assert calls == [str(cli.root / "far")]
    assert cli("standby", "check", "far", "--json").json() == REPORT | changes
    assert not list(cli.home.rglob("daemon.*"))
