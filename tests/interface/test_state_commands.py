"""backup, restore and df: what they ask for, and what they say; what others wrote is escaped."""

from typing import Final

import msgspec
import pytest

from interface.cli.exits import Exit
from interface.discovery import Project
from protocol.backup import BackupReport, RestoreReport
from protocol.inspection import DiskUsage
from tests.interface.conftest import Cli
from tests.interface.hostile import HOSTILE, obeyed

ODD = " ".join(text for text in HOSTILE if text != "\ud800")

HEAD = {
    "version": "1", "at": "2026-11-23T00:00:00.000Z", "project": "/elsewhere", "state": "/s", "database_schema": 25,
    "event": 9, "message": 4, "trees": [{"run": "r1", "agent": "alice", "branch": f"awk/{ODD}", "tip": "abc"}],
}  # fmt: skip
BACKUP = {"schema": "awk/backup/1", "file": "/b.zip", "bytes": 12_345, "backup": HEAD, "files": 2, "left_out": ["keys"]}
RESTORE = {
    "schema": "awk/restore/1", "project": "/here", "backup": HEAD, "aside": [f"/s/aside/{ODD}"],
    "missing": HEAD["trees"], "notes": ["the original must not run too"],
}  # fmt: skip
DF = {
    "schema": "awk/df/1", "state": "/s", "total_bytes": 3 * 1024**2, "more_runs": 2,
    "rows": [{"group": "trees", "what": ODD, "bytes": 2048, "files": 1, "way": None}],
    "runs": [{"id": "r1", "run": ODD, "state": "stopped", "log_bytes": 10, "tree_bytes": 5 * 1024**3}],
}  # fmt: skip

PUT = {"promote": False, "force": False, "trusted": False}
FUNCTIONS: Final[dict[str, tuple[str, type[msgspec.Struct]]]] = {
    "backup": ("backup", BackupReport), "restore": ("restore", RestoreReport), "df": ("disk_usage", DiskUsage),
}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "answer", "asked", "says"),
    [
        ("backup b.zip", BACKUP, {"force": False}, ("12,345 bytes", "m4", "not in it: keys", "1 working trees")),
        ("backup b.zip --force", BACKUP, {"force": True}, ("checked",)),
        ("restore b.zip", RESTORE, PUT, ("must not run too", "/here", "is not in this")),
        ("restore b.zip --trust", RESTORE, PUT | {"trusted": True}, ("/here",)),
        ("restore --promote b.zip", RESTORE, PUT | {"promote": True}, ("must not run too",)),
        ("restore --promote --force b.zip", RESTORE, PUT | {"promote": True, "force": True}, ("/here",)),
        ("df", DF, {}, ("2.0 KiB", "5.0 GiB", "3.0 MiB in all", "2 more runs: -n 0 shows all")),
    ],
)  # fmt: skip
def test_what_a_command_about_state_asks_and_says(
    words: str,
    answer: dict[str, object],
    asked: dict[str, bool],
    says: tuple[str, ...],
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[tuple[tuple[object, ...], dict[str, bool]]] = []
    name, kind = FUNCTIONS[words.partition(" ")[0]]

    def act(project: Project, *given: object, **flags: bool) -> object:
        assert project.root == str(cli.root)
        calls.append((given, flags))
        return msgspec.convert(answer, kind)

    monkeypatch.setattr(f"interface.cli.commands.state.{name}", act)
    ran = cli(*words.split())
    assert ran.code == Exit.OK
    assert all(one in ran.out for one in says), ran.out
    assert obeyed(ran.out) == []
    assert calls[0][1] == asked
    assert calls[0][0][0] == (10 if words == "df" else str(cli.root / "b.zip")), (
        "a name is of the folder it is typed in"
    )
    assert cli(*words.split(), "--json").json() == answer
    assert not list(cli.home.rglob("daemon.*"))
