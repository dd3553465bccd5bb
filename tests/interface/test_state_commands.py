"""backup, restore, df, standby, prune, clear: what they ask for and what they say; what goes is told before it does."""

from pathlib import Path
from typing import Final

import msgspec
import pytest

from interface.cli.commands.state import GROUPS
from interface.cli.exits import Exit
from protocol.api.agents import Cleared
from protocol.api.kernel import PrunedRow, PruneKept, PruneReport
from protocol.api.messages import Channel
from protocol.inspection import DiskUsage
from protocol.message import Message
from protocol.standby import BackupReport, RestoreReport, StandbyReport
from tests.interface.conftest import Cli
from tests.interface.hostile import HOSTILE, obeyed
from tests.interface.kernel_double import KernelDouble
from tests.interface.samples import AT, report

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

PUT = {"force": False, "trusted": False}
FUNCTIONS: Final[dict[str, tuple[str, type[msgspec.Struct]]]] = {
    "backup b.zip": ("backup.backup", BackupReport), "df": ("disk_usage.disk_usage", DiskUsage),
    "restore b.zip": ("backup.restore", RestoreReport), "restore --promote": ("standby.promote", RestoreReport),
}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "answer", "asked", "says"),
    [
        ("backup b.zip", BACKUP, {"force": False}, ("12,345 bytes", "m4", "not in it: keys", "1 working trees")),
        ("backup b.zip --force", BACKUP, {"force": True}, ("checked",)),
        ("restore b.zip", RESTORE, PUT, ("must not run too", "/here", "is not in this")),
        ("restore b.zip --trust", RESTORE, PUT | {"trusted": True}, ("/here",)),
        ("restore --promote b.zip", RESTORE, PUT, ("must not run too",)),
        ("restore --promote --force b.zip", RESTORE, PUT | {"force": True}, ("/here",)),
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
    name, kind = FUNCTIONS[" ".join(words.split()[:2])]

    def act(root: Path, _state: Path, *given: object, now: float = 0.0, **flags: bool) -> object:
        assert (root, now >= 0) == (cli.root, True)
        calls.append((given, flags))
        return msgspec.convert(answer, kind)

    monkeypatch.setattr(f"kernel.inspect.{name}", act)
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

    def check(folder: str, *, now: float) -> StandbyReport:
        assert now
        calls.append(folder)
        return msgspec.convert(REPORT | changes, StandbyReport)

    monkeypatch.setattr("kernel.inspect.standby.check_standby", check)
    ran = cli("standby", "check", "far")
    assert ran.code == code
    assert all(one in ran.out for one in says), ran.out
    assert obeyed(ran.out) == []
    assert calls == [str(cli.root / "far")]
    assert cli("standby", "check", "far", "--json").json() == REPORT | changes
    assert not list(cli.home.rglob("daemon.*"))


PRUNED = PruneReport(
    dry_run=False,
    removed=(PrunedRow(group="aside", what="state set aside \x1b[2J", why="a restore put another there", bytes=2048),),
    kept=(PruneKept(group="trees", what="awk/r1/bob of r1", bytes=10, kept_because="2 commits are not merged"),),
    total_bytes=2048,
)
NOTHING = PruneReport(dry_run=True, removed=(), kept=PRUNED.kept, total_bytes=0)


def _bodies(kernel: KernelDouble) -> list[object]:
    return [one.body for one in kernel.of("POST", "/prune")]


@pytest.mark.parametrize("words", [["--yes"], ["--yes", "--json"], ["--yes", "logs", "aside"]], ids=str)
def test_what_is_pruned_is_told(words: list[str], cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /prune"] = PRUNED
    ran = cli("prune", *words)
    assert ran.code == 0
    assert _bodies(kernel) == [{"what": [word for word in words if word in GROUPS]}]
    if "--json" in words:
        assert (ran.json()["schema"], ran.json()["total_bytes"]) == ("awk/prune/1", 2048)
    else:
        assert all(one in ran.out for one in ("delete", "2.0 KiB", "keep", "2 commits are not merged", "1 deleted"))
        assert obeyed(ran.out) == []


def test_a_dry_run_asks_nobody_and_removes_nothing(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /prune"] = NOTHING
    ran = cli("prune", "--dry-run", "trees")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "nothing to delete")
    assert _bodies(kernel) == [{"what": ["trees"], "dry_run": True}]


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("\n", 1), ("", 1)])
def test_a_person_sees_it_and_is_asked_first(answer: str, code: int, cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /prune"] = PRUNED
    ran = cli("prune", terminal=True, stdin=answer)
    assert (ran.code, "state set aside" in ran.err) == (code, True)
    assert _bodies(kernel) == [{"what": [], "dry_run": True}, {"what": []}][: 2 - code]


def test_where_there_is_nothing_nobody_is_asked(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /prune"] = NOTHING
    assert cli("prune", terminal=True, stdin="").code == 0
    assert _bodies(kernel) == [{"what": [], "dry_run": True}]


CLEARED = Cleared(space="dm:alice", messages=3, instructions=1)


@pytest.mark.parametrize(
    ("target", "space"), [("alice", "dm:alice"), ("@review", "review:main"), ("@review:pr-1", "review:pr-1")]
)
def test_a_space_is_cleared(target: str, space: str, cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers[f"POST /spaces/{space}/clear"] = CLEARED
    ran = cli("clear", target, "--yes")
    assert (ran.code, ran.out) == (0, "cleared dm:alice: 3 messages, 1 instructions\n")
    assert cli("clear", target, "--yes", "--json").json()["schema"] == "awk/clear/1"
    keys = {asked.headers["idempotency-key"] for asked in kernel.of("POST", f"/spaces/{space}/clear")}
    assert len(keys) == 2


def test_a_run_is_cleared_by_its_id(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /runs/r12"] = report()
    kernel.answers["POST /spaces/review:main/clear"] = CLEARED
    assert cli("clear", "r12", "--yes").code == cli("clear", "@review", "--run", "r12", "--yes").code == 0
    assert [one.query for one in kernel.of("POST", "/spaces/review:main/clear")] == [{"run": "r12"}] * 2


def test_what_was_cleared_is_shown_as_such(cli: Cli, kernel: KernelDouble) -> None:
    said = Message(seq=1, kind="said", space="dm:alice", sender="user", to=("alice",), at=AT, cleared=True)
    kernel.answers["GET /spaces/dm:alice/channel"] = Channel(space="dm:alice", messages=(said,))
    assert cli("peek", "alice").out == "user -> alice: (cleared)\n"


@pytest.mark.parametrize(("words", "answer", "code"), [([], "y\n", 0), ([], "\n", 1), ([], "", 1), (["--yes"], "", 0)])
def test_a_person_is_asked_first(words: list[str], answer: str, code: int, cli: Cli, kernel: KernelDouble) -> None:
    """contracts 7: it cannot be undone; the default is the safe one; --yes answers."""
    kernel.answers["POST /spaces/dm:alice/clear"] = CLEARED
    ran = cli("clear", "alice", *words, terminal=True, stdin=answer)
    assert ran.code == code
    assert len(kernel.of("POST", "/spaces/dm:alice/clear")) == (code == 0)
