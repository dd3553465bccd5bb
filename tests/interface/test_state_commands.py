"""backup, restore and df: what they ask for, and what they say; what others wrote is escaped."""

import json

import pytest

from interface.cli.exits import Exit
from tests.interface.conftest import Cli
from tests.interface.hostile import HOSTILE, obeyed

ODD = " ".join(HOSTILE)

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


@pytest.mark.parametrize(
    ("words", "answer", "asked", "says"),
    [
        (("backup", "b.zip"), BACKUP, ("backup", False), ("12,345 bytes", "m4", "not in it: keys", "1 working trees")),
        (("backup", "b.zip", "--force"), BACKUP, ("backup", True), ("checked",)),
        (("restore", "b.zip"), RESTORE, ("restore", False), ("must not run too", "/here", "is not in this")),
        (("restore", "--promote", "b.zip"), RESTORE, ("promote", False), ("must not run too",)),
        (("restore", "--promote", "--force", "b.zip"), RESTORE, ("promote", True), ("/here",)),
        (("df",), DF, ("df", False), ("2.0 KiB", "5.0 GiB", "3.0 MiB in all", "2 more runs: -n 0 shows all")),
    ],
)  # fmt: skip
def test_what_a_command_about_state_asks_and_says(
    words: tuple[str, ...],
    answer: dict[str, object],
    asked: tuple[str, bool],
    says: tuple[str, ...],
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[tuple[str, ...]] = []

    def inspect(_environ: object, *given: str, seconds: float) -> bytes:
        assert seconds >= 600
        calls.append(given)
        return json.dumps(answer).encode()

    monkeypatch.setattr("interface.cli.commands.state.run_inspect", inspect)
    ran = cli(*words)
    assert ran.code == Exit.OK
    assert all(one in ran.out for one in says), ran.out
    assert obeyed(ran.out) == []
    verb, force = asked
    assert calls[0][0] == verb
    assert ("--force" in calls[0]) == force
    assert {"--project", "--state"} <= set(calls[0])
    if verb != "df":
        assert calls[0][-1] == str(cli.root / "b.zip"), "a name is of the folder in which it was typed"
    assert cli(*words, "--json").json() == answer
    assert not list(cli.home.rglob("daemon.*"))
