"""Logins that attempts work with: one at a time, given back as they were renewed, and lost by no kill."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from kernel.agents.providers import CauseError
from kernel.fault_injection import AT, arm
from kernel.procs.spec import SpawnTransient
from kernel.services import logins as module
from kernel.services.logins import Logins
from kernel.store.transitions.lease import Leased
from protocol.agent import Backend
from protocol.backends import BACKENDS
from protocol.ipc import Provider, Start
from tests.shorthand import beside, present
from worker.models.model import BLANK

LOGIN = {"claudeAiOauth": {"accessToken": "a-1", "refreshToken": "r-1", "expiresAt": 1}}
RENEWED = {"claudeAiOauth": {"accessToken": "a-2", "refreshToken": "r-2", "expiresAt": 2}}
FILE = ".claude/.credentials.json"
POINTS = ("recorded", "lent", "safe", "beside", "home", "noted", "removed")


class Place:
    """A home with a login, the folder of all projects, and attempts in one project's state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home" / FILE
        self.home.parent.mkdir(parents=True, exist_ok=True)
        if not self.home.exists():
            self.write(self.home, LOGIN)
            self.home.chmod(0o600)
        (folder / "run").mkdir(exist_ok=True)

    def kernel(self, **environ: str) -> Logins:
        return Logins(self.folder / "state/logins", {"HOME": str(self.folder / "home"), **environ})

    def keep(self, backend: str, login: object) -> Path:
        """Have ``login`` be the one of ``backend`` at home; return where it is."""
        spec = present(BACKENDS[backend].login)
        path = self.folder / "home" / spec.folder / spec.file
        path.parent.mkdir(parents=True, exist_ok=True)
        self.write(path, login)
        return path

    def attempt(self, name: str, backend: Backend = "claude", provider: str = "anthropic") -> tuple[Leased, Start]:
        session = self.folder / "sessions" / name
        session.mkdir(parents=True, exist_ok=True)
        leased: Any = msgspec.defstruct("Leased", ["name", "space", "attempt"])(name, "team:main", f"i1-{name}")
        start = msgspec.structs.replace(
            BLANK,
            backend=backend,
            provider=Provider(name=provider, dialect="mock"),
            login=True,
            attempt_dir=str(self.folder / f"run/i1-{name}"),
            session_dir=str(session),
        )
        return leased, start

    def copy(self, name: str) -> Path:
        """Where the program of an attempt has its login."""
        return self.folder / "sessions" / name / ".credentials.json"

    def write(self, path: Path, value: object) -> None:
        path.write_text(json.dumps(value))

    def kept(self) -> Any:
        return json.loads(self.home.read_text())

    def left(self) -> list[str]:
        """What there is of logins beside locks, whatever it holds, and beside the login at home."""
        found = [*self.folder.glob("state/logins/*"), *self.home.parent.iterdir(), *self.folder.glob("sessions/*/*")]
        return sorted(path.name for path in found if path.suffix != ".lock" and path != self.home)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.promise("P18", "P35")
async def test_what_is_renewed_goes_home_and_nothing_else_stays(place: Place) -> None:
    kernel, (leased, start) = place.kernel(), place.attempt("alice")
    before = place.home.read_bytes()
    await kernel.lend(leased, start)
    assert place.copy("alice").read_bytes() == before
    assert stat.S_IMODE(place.copy("alice").stat().st_mode) == 0o600
    place.write(place.copy("alice"), RENEWED)
    kernel.give_back(leased.attempt)
    assert (place.kept(), place.left()) == (RENEWED, [])
    assert stat.S_IMODE(place.home.stat().st_mode) == 0o600


async def test_what_was_not_renewed_is_not_written(place: Place) -> None:
    kernel, (leased, start) = place.kernel(), place.attempt("alice")
    before = place.home.stat()
    await kernel.lend(leased, start)
    kernel.give_back(leased.attempt)
    after = place.home.stat()
    assert (after.st_mtime_ns, after.st_ino, place.left()) == (before.st_mtime_ns, before.st_ino, [])


async def test_what_is_renewed_goes_home_while_the_program_works(
    place: Place, autojump_clock: trio.testing.MockClock
) -> None:
    kernel, (leased, start) = place.kernel(), place.attempt("alice")
    async with beside(kernel.run):
        await kernel.lend(leased, start)
        place.write(place.copy("alice"), RENEWED)
        await trio.sleep(3 * module.RENEWED_SECONDS)
        assert place.kept() == RENEWED
        kernel.give_back(leased.attempt)
        assert (place.kept(), place.left()) == (RENEWED, [])


def link_to_another_file(copy: Path) -> None:
    copy.unlink()
    copy.symlink_to("/etc/passwd")


def put_a_pipe_there(copy: Path) -> None:
    copy.unlink()
    os.mkfifo(copy)


@pytest.mark.promise("P18", "P35")
@pytest.mark.parametrize(
    "spoil",
    [
        b'{"claudeAiOauth": {"acc',
        b"{}",
        b'{"claudeAiOauth": "gone"}',
        b'{"claudeAiOauth": {}}',
        b'{"claudeAiOauth": {"accessToken": "", "refreshToken": "r-2", "expiresAt": 2}}',
        b'{"claudeAiOauth": {"accessToken": "a-2", "refreshToken": "r-2", "expiresAt": "2"}}',
        b'{"claudeAiOauth": {"accessToken": ["a-2"], "refreshToken": "r-2", "expiresAt": 2}}',
        json.dumps({"claudeAiOauth": {**RENEWED["claudeAiOauth"], "accessToken": "a" * 8193}}).encode(),
        json.dumps({"claudeAiOauth": {**RENEWED["claudeAiOauth"], "accessToken": "a\r\nHost: x"}}).encode(),
        json.dumps(RENEWED).encode() + b" " * (64 * 1024),
        Path.unlink,
        link_to_another_file,
        put_a_pipe_there,
    ],
    ids=[
        "torn", "logged out", "another shape", "emptied", "no token", "a text for a time", "a list for a token",
        "a long token", "two lines for a token", "too large", "gone", "a link", "a pipe",
    ],
)  # fmt: skip
async def test_what_is_no_login_does_not_go_home(place: Place, spoil: bytes | Callable[[Path], None]) -> None:
    kernel, (leased, start) = place.kernel(), place.attempt("alice")
    await kernel.lend(leased, start)
    if isinstance(spoil, bytes):
        place.copy("alice").write_bytes(spoil)
    else:
        spoil(place.copy("alice"))
    kernel.give_back(leased.attempt)
    assert place.kept() == LOGIN
    assert [name for name in place.left() if not name.endswith(".kept")] == []


@pytest.mark.promise("P35")
async def test_a_login_that_changed_at_home_is_left_alone(place: Place) -> None:
    kernel, (leased, start) = place.kernel(), place.attempt("alice")
    await kernel.lend(leased, start)
    anew = {"claudeAiOauth": {"accessToken": "b-1"}}
    place.write(place.home, anew)
    place.write(place.copy("alice"), RENEWED)
    kernel.give_back(leased.attempt)
    assert place.kept() == anew
    (kept,) = place.folder.glob("state/logins/*.kept")
    assert json.loads(kept.read_text()) == RENEWED


async def test_a_login_that_was_removed_at_home_stays_removed(place: Place) -> None:
    kernel, (leased, start) = place.kernel(), place.attempt("alice")
    await kernel.lend(leased, start)
    place.home.unlink()
    place.write(place.copy("alice"), RENEWED)
    kernel.give_back(leased.attempt)
    assert (place.home.exists(), place.left()) == (False, [])


@pytest.mark.promise("P35")
async def test_a_login_is_with_one_attempt_at_a_time(place: Place, autojump_clock: trio.testing.MockClock) -> None:
    kernel, other = place.kernel(), place.kernel()
    (alice, start), (bob, bobs) = place.attempt("alice"), place.attempt("bob")
    await kernel.lend(alice, start)
    for one in (kernel, other):
        with pytest.raises(SpawnTransient, match="login of Claude Code is in use by alice in team:main"):
            await one.lend(bob, bobs)
        assert not place.copy("bob").exists()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(other.lend, bob, bobs)
        await trio.testing.wait_all_tasks_blocked()
        place.write(place.copy("alice"), RENEWED)
        kernel.give_back(alice.attempt)
    assert json.loads(place.copy("bob").read_text()) == RENEWED, "the next one has what the last one renewed"
    other.give_back(bob.attempt)


@pytest.mark.promise("P35")
def test_a_login_stays_with_a_tree_that_outlives_its_kernel(place: Place) -> None:
    (_, start), (bob, bobs) = place.attempt("alice"), place.attempt("bob")
    lend = [sys.executable, "-c", f"from {__name__} import killed; killed({str(place.folder)!r})"]
    subprocess.run(lend, env={**os.environ, AT: "login.lent:1"}, check=False)
    Path(start.attempt_dir).mkdir()
    words = [sys.executable, "-c", KEEPER, f"{start.attempt_dir}/alive"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as keeper:
        assert keeper.stdin is not None and keeper.stdout is not None
        keeper.stdout.readline()
        after = place.kernel()
        after.settle()
        assert place.copy("alice").exists()
        with pytest.raises(SpawnTransient, match="is in use by alice"):
            trio.run(after.lend, bob, bobs, clock=trio.testing.MockClock(autojump_threshold=0))
        place.write(place.copy("alice"), RENEWED)
        keeper.stdin.close()
    trio.run(after.lend, bob, bobs)
    assert json.loads(place.copy("bob").read_text()) == place.kept() == RENEWED
    after.give_back(bob.attempt)
    assert place.left() == []


KEEPER = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def killed(folder: str) -> None:
    """Lend, renew and give back, with a point armed at which this process dies."""
    arm(os.environ)
    place = Place(Path(folder))
    kernel, (leased, start) = place.kernel(), place.attempt("alice")
    trio.run(kernel.lend, leased, start)
    place.write(place.copy("alice"), RENEWED)
    kernel.give_back(leased.attempt)


@pytest.mark.promise("P35")
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.long("tests/kernel/services/test_login_document.py")
def test_no_kill_loses_what_was_renewed(place: Place, point: str) -> None:
    words = [sys.executable, "-c", f"from {__name__} import killed; killed({str(place.folder)!r})"]
    ended = subprocess.run(words, env={**os.environ, AT: f"login.{point}:1"}, check=False)
    assert ended.returncode == -9
    renewed = POINTS.index(point) >= POINTS.index("safe")
    if renewed and point == "safe":  # the home of its program may be cleared away before
        place.copy("alice").unlink()
    place.kernel().settle()
    assert (place.kept(), place.left()) == (RENEWED if renewed else LOGIN, [])


@pytest.mark.promise("P35")
@pytest.mark.parametrize("point", ["lent", "safe", "beside", "home", "noted"])
@pytest.mark.long("tests/kernel/services/test_login_document.py")
def test_no_kill_loses_what_is_renewed_after_it(place: Place, point: str) -> None:
    words = [sys.executable, "-c", f"from {__name__} import killed; killed({str(place.folder)!r})"]
    subprocess.run(words, env={**os.environ, AT: f"login.{point}:1"}, check=False)
    again = {"claudeAiOauth": {"accessToken": "a-3", "refreshToken": "r-3", "expiresAt": 3}}
    place.write(place.copy("alice"), again)
    settle = [sys.executable, "-c", f"from {__name__} import settled; settled({str(place.folder)!r})"]
    ended = subprocess.run(settle, env={**os.environ, AT: "login.home:1"}, check=False)
    assert ended.returncode == -9
    place.kernel().settle()
    assert (place.kept(), place.left()) == (again, [])


def settled(folder: str) -> None:
    """Begin as the next kernel does, with a point armed at which this process dies."""
    arm(os.environ)
    Place(Path(folder)).kernel().settle()


async def test_a_token_is_lent_to_any_number_at_once(place: Place) -> None:
    kernel = place.kernel(CLAUDE_CODE_OAUTH_TOKEN="sk-token")
    names = ("alice", "bob")
    for name in names:
        await kernel.lend(*place.attempt(name))
    for name in names:
        oauth = json.loads(place.copy(name).read_text())["claudeAiOauth"]
        assert (oauth["accessToken"], oauth["refreshToken"]) == ("sk-token", None)
        place.write(place.copy(name), RENEWED)
        kernel.give_back(f"i1-{name}")
    assert (place.kept(), place.left()) == (LOGIN, [])
    assert [path.name for path in place.folder.glob("state/logins/*")] == []


@pytest.mark.parametrize("held", ["[]", "no json", ""])
async def test_a_file_that_holds_no_login_is_missing_credentials(place: Place, held: str) -> None:
    place.home.write_text(held)
    kernel, (leased, start) = place.kernel(), place.attempt("alice")
    with pytest.raises(CauseError, match=r"has no login") as caught:
        await kernel.lend(leased, start)
    assert (caught.value.cause, place.left()) == ("auth", [])
    place.write(place.home, LOGIN)
    await kernel.lend(leased, start)
    kernel.give_back(leased.attempt)
