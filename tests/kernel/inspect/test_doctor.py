"""`doctor`: each fault has a row that names it and says what to do; what is in order has one too."""

import os
import resource
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import msgspec
import pytest

from kernel.agents.sections import otel_unit
from kernel.inspect import doctor
from kernel.inspect.collector import collector_rows
from kernel.inspect.doctor import Findings, ProgramOnPath, examine
from kernel.inspect.validate import validate
from kernel.store.checkup import Checkup, check_database
from kernel.store.database import Database
from protocol.api.kernel import BackendRow
from protocol.project import OtelSettings
from protocol.trust import Grant
from tests.kernel.inspect.files import review, write

NOW: Final = 1_800_000_000.0


def found(tmp_path: Path, **changes: Any) -> Findings:
    """A machine and a project in which nothing is wrong, but for ``changes``."""
    home, root, state = (tmp_path / name for name in ("home", "project", "all/projects/state"))
    for folder in (home, root, state.parent.parent, state.parent, state):
        if not folder.exists():
            folder.mkdir(mode=0o700)
    sound = Findings(
        root=root,
        state=state,
        environ={"HOME": str(home), "PATH": os.path.dirname(sys.executable)},
        runs=False,
        now=NOW,
        files=(),
        used=frozenset({"sdk"}),
        confined=(),
        backends=(),
        git=ProgramOnPath("/usr/bin/git", "git version 2.39.5"),
        bubblewrap=ProgramOnPath("/usr/bin/bwrap", "bubblewrap 0.8.0"),
        database=None,
    )
    return msgspec.structs.replace(sound, **changes)


def environ(**changes: str) -> Callable[[Path], Mapping[str, Any]]:
    return lambda tmp: {"environ": {**found(tmp).environ, **changes}}


def files(texts: Mapping[str, str]) -> Callable[[Path], Mapping[str, Any]]:
    def look(tmp: Path) -> Mapping[str, Any]:
        sound = found(tmp)
        write(sound.root, dict(texts))
        return {"files": validate(sound.root, sound.root, (), sound.environ).files}

    return look


def in_state(change: Callable[[Path], object]) -> Callable[[Path], Mapping[str, Any]]:
    def look(tmp: Path) -> Mapping[str, Any]:
        change(found(tmp).state)
        return {}

    return look


def in_git(change: Callable[[Path], object]) -> Callable[[Path], Mapping[str, Any]]:
    def look(tmp: Path) -> Mapping[str, Any]:
        folder = found(tmp).root / ".git"
        folder.mkdir()
        change(folder)
        return {}

    return look


def old_lock(folder: Path) -> None:
    (folder / "index.lock").touch()
    os.utime(folder / "index.lock", (NOW - 3600, NOW - 3600))


def open_trust(state: Path) -> None:
    (state / "trust.json").touch()
    (state / "trust.json").chmod(0o644)


def open_above(up: int) -> Callable[[Path], Mapping[str, Any]]:
    return in_state(lambda state: state.parents[up].chmod(0o777))


def as_a_file(state: Path) -> None:
    state.rmdir()
    state.touch()


def broken_database(tmp: Path) -> Mapping[str, Any]:
    path = found(tmp).state / "agent-worker.db"
    path.write_bytes(b"no database" * 1000)
    return {"database": check_database(str(path))}


MISSING: Final = BackendRow(
    name="codex", title="Codex", available=False, missing="codex is not on PATH", steps="no", resume="no",
    permission_prompt="no", budget="no", system_prompt="no", daemon_check="no",
)  # fmt: skip
MOCKED: Final = "backend: mock\nmock: [{ text: hi }]\n"
TEAM: Final = "agents: { a: { backend: mock, mock: [{ text: x }] } }\n"

FAULTS: Final[dict[str, tuple[str, str, Callable[[Path], Mapping[str, Any]]]]] = {
    "preloaded": ("python", "LD_PRELOAD is set", environ(LD_PRELOAD="/x.so")),
    "other modules": ("python", "PYTHONPATH is set", environ(PYTHONPATH="/x")),
    "not on PATH": ("commands", "agent-worker is not on the PATH", environ(PATH="/nowhere")),
    "half an address": ("environment", "AGENT_WORKER_TOKEN is not", environ(AGENT_WORKER_URL="http://127.0.0.1:1")),
    "no home": ("environment", "HOME is not set", environ(HOME="")),
    "home is gone": ("environment", "HOME is /nowhere", environ(HOME="/nowhere")),
    "no git": ("git", "git is not on the PATH", lambda _: {"git": ProgramOnPath(None)}),
    "old git": ("git", "git version 2.30.2", lambda _: {"git": ProgramOnPath("/usr/bin/git", "git version 2.30.2")}),
    "dead git": ("git", "does not run: exit code 127", lambda _: {"git": ProgramOnPath("/g", "", "exit code 127")}),
    "git's lock": ("git", "index.lock is old", in_git(old_lock)),
    "no bwrap": ("sandbox", "alice needs it", lambda _: {"confined": ("alice",), "bubblewrap": ProgramOnPath(None)}),
    "old bwrap": (
        "sandbox", "bubblewrap 0.4.1",
        lambda _: {"confined": ("alice",), "bubblewrap": ProgramOnPath("/usr/bin/bwrap", "bubblewrap 0.4.1")},
    ),
    "dead bwrap": (
        "sandbox", "signal 9", lambda _: {"confined": ("alice",), "bubblewrap": ProgramOnPath("/bwrap", "", "signal 9")}
    ),
    "home in the project": (
        "sandbox", "is the project folder",
        lambda tmp: {"confined": ("alice",), **environ(HOME=str(found(tmp).root))(tmp)},
    ),
    "a wrong key": ("files", "alice.yaml:1: modell", files({".agents/alice.yaml": "modell: x\n" + MOCKED})),
    "no YAML": ("files", "alice.yaml:2: not YAML", files({".agents/alice.yaml": "a: [\n"})),
    "no key of a provider": (
        "files", "API key for anthropic", files({".agents/alice.yaml": "model: sonnet\nprompt: { system: x }\n"})
    ),
    "an unknown ref": (
        "files", "agent 'bob' not found", files({".workflows/w.yaml": "agents: { bob: { ref: bob } }\n"})
    ),
    "nobody begins": ("files", "mentions no agent", files({".workflows/w.yaml": TEAM + "kickoff: go\n"})),
    "no repository": (
        "files", "not in a git repository",
        files({".workflows/w.yaml": TEAM + "workspace: { git: worktree }\n"}),
    ),
    "a CLI is missing": (
        "backends", "codex is not on PATH", lambda _: {"backends": (MISSING,), "used": frozenset({"codex"})}
    ),
    "open to others": ("state", "is open to others (mode 0755)", in_state(lambda state: state.chmod(0o755))),
    "open above": ("state", "is writable by others (mode 0777)", open_above(0)),
    "open at the top": ("state", "is writable by others (mode 0777)", open_above(1)),
    "no directory": ("state", "is not a directory", in_state(as_a_file)),
    "state in the project": ("state", "is in the project", lambda tmp: {"root": found(tmp).state.parent}),
    "trust for all to write": ("state", "so its grants are ignored", in_state(open_trust)),
    "no database": ("database", "file is not a database", broken_database),
    "newer schema": ("database", "newer than 23", lambda _: {"database": Checkup(schema=99, newest=23)}),
    "saved by a kernel": (
        "database", "is not in use", in_state(lambda state: (state / "agent-worker.db.saved-1").touch())
    ),
    "clock put back": (
        "clock", "3600 s behind", lambda _: {"database": Checkup(schema=1, newest=1, latest_ms=int(NOW + 3600) * 1000)}
    ),
    "a killed kernel's attempts": (
        "leftovers", "1 attempts", in_state(lambda state: (state / "run/i1-1").mkdir(parents=True))
    ),
}  # fmt: skip


def test_thirty_faults_are_tried() -> None:
    assert len(FAULTS) >= 30


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_has_a_row_that_names_it_and_says_what_to_do(name: str, tmp_path: Path) -> None:
    check, words, inject = FAULTS[name]
    rows = examine(found(tmp_path, **inject(tmp_path))).rows
    wrong = [row for row in rows if not row.ok]
    assert {row.check for row in wrong} == {check}
    assert words in " ".join(row.detail for row in wrong)
    assert all(row.fix for row in wrong)


def test_trust_for_all_is_named_and_keeps_no_agent_from_work(tmp_path: Path) -> None:
    rows = examine(found(tmp_path, **environ(AGENT_WORKER_TRUST="1")(tmp_path))).rows
    assert [row.detail for row in rows if not row.ok] == []
    assert any("AGENT_WORKER_TRUST=1" in row.detail for row in rows)


def test_where_nothing_is_wrong_every_check_says_what_it_saw(tmp_path: Path) -> None:
    rows = examine(found(tmp_path)).rows
    assert [row.detail for row in rows if not row.ok] == []
    assert {row.check for row in rows} == {check.__name__ for check in doctor.CHECKS}


@pytest.mark.parametrize(
    ("room", "words"),
    [({"f_bavail": 10, "f_favail": 10**6}, "MiB free"), ({"f_bavail": 10**9, "f_favail": 9}, "9 files can be created")],
)
def test_a_disk_that_is_nearly_full_is_told(
    room: dict[str, int], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = found(tmp_path)

    def statvfs(_place: Path) -> SimpleNamespace:
        return SimpleNamespace(f_frsize=4096, f_files=10**6, **room)

    monkeypatch.setattr(os, "statvfs", statvfs)
    assert [words in row.detail for row in examine(sound).rows if not row.ok] == [True]


def test_a_limit_of_open_files_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def getrlimit(_which: int) -> tuple[int, int]:
        return 256, resource.RLIM_INFINITY

    monkeypatch.setattr(resource, "getrlimit", getrlimit)
    assert [row.fix for row in examine(found(tmp_path)).rows if not row.ok] == ["ulimit -n 1024"]


def test_a_database_is_looked_at_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "agent-worker.db"
    opened = Database(str(path))
    opened.writer()
    opened.close()
    before = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
    checked = check_database(str(path))
    assert (checked.fault, checked.schema) == (None, checked.newest)
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == before


def test_it_looks_at_a_real_machine(tmp_path: Path) -> None:
    review(tmp_path)
    rows = doctor.doctor(tmp_path, tmp_path / "state", {**os.environ, "HOME": str(tmp_path)}, now=NOW, runs=False).rows
    assert {row.check for row in rows} >= {"python", "git", "files", "state", "disk"}
    assert next(row.detail for row in rows if row.check == "git" and row.ok).startswith("git version")


def test_a_collector_of_spans_is_tried_and_each_thing_that_it_lacks_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        settings = OtelSettings(endpoint=url, headers={"x-token": "$TOKEN"})
        kept = Grant(**msgspec.structs.asdict(otel_unit(settings)), at="2026-11-23T00:00:00Z")
        (well,) = collector_rows(settings, {"TOKEN": "x"}, lambda: [kept])
        assert well.ok
        rows = list(collector_rows(settings, {}, list))
        assert [row.ok for row in rows] == [False, False, True]
        assert "not trusted" in rows[0].detail
        assert "$TOKEN" in rows[1].detail
    (away,) = collector_rows(settings, {"TOKEN": "x"}, lambda: [kept])
    assert "no connection to" in away.detail
