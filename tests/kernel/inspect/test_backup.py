"""Backup and restore: complete to a commit, of no credential, and either the old or the new whole."""

import fcntl
import hashlib
import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import apsw
import msgspec
import pytest

from kernel import fault_injection
from kernel.inspect.backup import backup, restore
from kernel.source import restore_journal
from kernel.source.backup_file import name_fault
from kernel.source.restore_journal import Journal, Move, StagedFile
from kernel.store.schema import migrations
from kernel.store.snapshot import SnapshotRefused, take_snapshot
from kernel.store.transaction import rfc3339
from kernel.store.transitions.recovery import recover
from protocol.discovery import CONTEXTS, DATABASE, JOURNAL, LOCK
from protocol.standby import BackupManifest
from tests.kernel.inspect.copied_store import AT
from tests.kernel.inspect.copied_store import Place as NewPlace
from tests.kernel.inspect.files import write
from tests.kernel.refusals import refused
from tests.kernel.store.running_store import open_store

LATER = AT + 3600
TREE = """
INSERT INTO worktrees (run, agent, name, space, state, repository, base, branch, path, folder, git_dir)
VALUES (1, 'alice', 'alice', 'review:main', 'made', '/elsewhere/.git', 'b', 'awk/review/r1/alice', ?, '', '/x')
"""
TOKEN = "INSERT INTO tokens (name, scope, digest, created_ms) VALUES ('ci', 'operate', ?, 0)"


class Place(NewPlace):
    """A project in which alice keeps something."""

    def knows(self, **known: str) -> None:
        """What alice keeps in files of the project."""
        write(self.root / ".agents/alice/memory", {f"{name}.yaml": text for name, text in known.items()})

    def whole(self) -> tuple[list[str], dict[str, str]]:
        """What was said, and what alice knows."""
        memory = self.root / ".agents/alice/memory"
        return self.said(), {file.name: file.read_text() for file in sorted(memory.glob("*.yaml"))}


async def filled(place: Place, *texts: str) -> None:
    """A store in which this was said, and of which the first is being worked on."""
    async with open_store(str(place.state / DATABASE)) as store:
        await store.agents("alice")
        said = [await store.said("dm:alice", text) for text in texts]
        await store.take(said[0].instruction_ids[0])


@pytest.fixture
async def place(tmp_path: Path) -> Place:
    """A project in which something was said and kept."""
    made = Place(tmp_path)
    await filled(made, "one", "two")
    made.knows(core="auth: JWT\n")
    return made


@pytest.mark.promise("P76")
async def test_what_was_backed_up_is_restored_elsewhere(place: Place, tmp_path: Path) -> None:
    digest = os.urandom(32)
    connection = apsw.Connection(str(place.state / DATABASE))
    connection.execute(TOKEN, (digest,))
    connection.execute(TREE, (f"{place.state.resolve()}/worktrees/review/r1/alice",))
    token = connection.execute("SELECT token_hash FROM attempts").get
    connection.close()
    file = tmp_path / "b.zip"
    report = backup(place.root, place.state, str(file), now=AT)
    assert (report.backup.message, file.stat().st_mode & 0o777, os.listdir(tmp_path)) == (
        2, 0o600, [*(name for name in os.listdir(tmp_path) if name in {"project", "state", "b.zip"})],
    )  # fmt: skip
    with zipfile.ZipFile(file) as archive:
        assert digest not in archive.read(DATABASE)
        assert archive.read("project/.agents/alice/memory/core.yaml") == b"auth: JWT\n"

    other = Place(tmp_path / "other")
    (other.state / CONTEXTS).mkdir(parents=True)  # an empty folder is no state
    told = restore(other.root, other.state, str(file), now=LATER)
    assert other.whole() == (["one", "two"], {"core.yaml": "auth: JWT\n"})
    assert (told.aside, told.backup.project) == ((), str(place.root))
    assert [one.branch for one in told.missing] == ["awk/review/r1/alice"]
    assert any("must not run too" in note for note in told.notes)
    connection = apsw.Connection(str(other.state / DATABASE))
    assert connection.execute("SELECT count(*), sum(token_hash = ?) FROM attempts", (token,)).fetchall() == [(1, 0)]
    ((path, repository),) = connection.execute("SELECT path, repository FROM worktrees").fetchall()
    assert path == f"{other.state.resolve()}/worktrees/review/r1/alice"
    assert repository == str(other.root / ".git")
    connection.close()
    async with open_store(str(other.state / DATABASE)) as store:
        said = await store.said("dm:alice", "three")
        assert int(said.message_id[1:]) > 10_000, "ids of the original are not given again"


@pytest.mark.promise("P76")
async def test_a_restore_is_refused_over_a_kernel_or_state_and_sets_aside_what_it_is_forced_over(
    place: Place, tmp_path: Path
) -> None:
    file = str(tmp_path / "b.zip")
    backup(place.root, place.state, file, now=AT)
    assert refused(backup, place.root, place.state, file, now=AT).code == "already_exists"
    place.knows(core="auth: changed\n", archive="old: 1\n")
    before = place.whole()
    assert refused(restore, place.root, place.state, file, now=LATER).code == "already_exists"
    lock = os.open(place.state / LOCK, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert "is running" in refused(restore, place.root, place.state, file, now=LATER, force=True).text
    os.close(lock)
    folder = refused(restore, place.root, place.state, str(tmp_path), now=LATER, force=True)
    assert "is a folder" in folder.text and "restore --promote" in (folder.hint or "")
    assert place.whole() == before

    told = restore(place.root, place.state, file, now=LATER, force=True)
    assert place.whole() == (["one", "two"], {"core.yaml": "auth: JWT\n"})
    aside = Path(told.aside[0])
    assert (aside / DATABASE).exists()
    assert (aside / "project/.agents/alice/memory/core.yaml").read_text() == "auth: changed\n"
    assert (aside / "project/.agents/alice/memory/archive.yaml").read_text() == "old: 1\n"


@pytest.mark.promise("P91")
async def test_a_restored_project_has_a_term_that_neither_the_original_nor_an_earlier_restore_comes_to(
    place: Place, tmp_path: Path
) -> None:
    async def started(where: Place, times: int = 1) -> int:
        async with open_store(str(where.state / DATABASE)) as store:
            return [(await store.writer.commit(recover)).term for _ in range(times)][-1]

    file = str(tmp_path / "b.zip")
    assert await started(place) == 1
    backup(place.root, place.state, file, now=AT)
    original = await started(place, 50)
    terms: list[int] = []
    for now in (AT, LATER, 5.0):
        restore(place.root, place.state, file, now=now, force=True)
        terms.append(await started(place, 2))
    assert original + 900_000 < terms[0] < terms[1] < terms[2]
    elsewhere = Place(tmp_path / "elsewhere")
    restore(elsewhere.root, elsewhere.state, file, now=LATER + 1)
    assert terms[1] < await started(elsewhere)


class Killed(BaseException):
    """In place of the end of the process."""


def killed_at(number: int, monkeypatch: pytest.MonkeyPatch, call: Callable[[], object]) -> bool:
    """Whether the call got as far as its n-th point."""
    left = number

    def reached(_name: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(fault_injection, "_reached", reached)
        try:
            call()
        except Killed:
            return True
    return False


@pytest.mark.promise("P76")
async def test_a_restore_that_is_killed_at_any_point_leaves_the_old_or_the_new_whole(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(tmp_path / "b.zip")
    backup(place.root, place.state, file, now=AT)
    saved, olds, news, done = place.whole(), 0, 0, False
    for number in range(1, 100):
        (place.state / DATABASE).unlink()
        await filled(place, f"other {number}")
        (place.state / f"{DATABASE}-wal").write_bytes(b"")
        place.knows(core=f"auth: {number}\n", working="b: 2\n")
        old = place.whole()
        done = not killed_at(
            number,
            monkeypatch,
            lambda number=number: restore(place.root, place.state, file, now=LATER + number, force=True),  # type: ignore[misc]
        )
        begun = (place.state / JOURNAL).exists()
        if begun:
            assert refused(backup, place.root, place.state, f"{file}.new", now=AT).code == "conflict"
        restore_journal.finish(str(place.state))
        found = place.whole()
        assert found in (old, saved), number
        assert (found == saved) or not (begun or done), number
        olds, news = olds + (found == old), news + (found == saved)
        assert not (place.state / JOURNAL).exists()
        assert not (place.state / "restore-staged").exists()
        if done:
            break
    assert olds >= 3
    assert news >= 5
    assert done


def test_a_repeated_restore_keeps_the_first_copies_that_were_set_aside(tmp_path: Path) -> None:
    place = Place(tmp_path)
    aside = {"log": place.state / "aside/log", "a.yaml": place.state / "aside/a.yaml"}
    aside["log"].parent.mkdir()
    for name, file in aside.items():
        file.write_text("first")
        (place.state if name == "log" else place.root / ".agents").joinpath(name).write_text("later")
    files = (StagedFile(folder=".agents", name="a.yaml", aside="aside/a.yaml"),)
    journal = Journal(root=str(place.root), moves=(Move(target="log", aside="aside/log"),), files=files)
    restore_journal.begin(str(place.state), journal)
    assert restore_journal.finish(str(place.state))
    assert [file.read_text() for file in aside.values()] == ["first", "first"]


async def test_a_backup_that_is_killed_at_any_point_leaves_a_whole_one_or_none(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "b.zip"
    backup(place.root, place.state, str(file), now=AT)
    first = file.read_bytes()
    for number in range(1, 50):
        done = not killed_at(
            number, monkeypatch, lambda: backup(place.root, place.state, str(file), now=LATER, force=True)
        )
        with zipfile.ZipFile(file) as archive:
            at = json.loads(archive.read("manifest.json"))["head"]["at"]
        assert (
            (at == rfc3339(int(LATER * 1000)))
            if done
            else (file.read_bytes() == first or at != rfc3339(int(AT * 1000)))
        )
        if done:
            return
    pytest.fail("it never ended")


async def test_a_backup_that_is_killed_leaves_nothing_beside_its_file(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each of its points the folder has what was there before; a copy of the log is only in the state."""
    folder = tmp_path / "backups"
    folder.mkdir()
    seen: list[tuple[str, list[str]]] = []

    def reached(name: str) -> None:
        seen.append((name, os.listdir(folder)))

    monkeypatch.setattr(fault_injection, "_reached", reached)
    backup(place.root, place.state, str(folder / "b.zip"), now=AT)
    backup(place.root, place.state, str(folder / "b.zip"), now=LATER, force=True)
    points = [name for name, _ in seen]
    assert {"backup.snapshot", "backup.packing", "backup.written", "backup.named"} <= set(points)
    first = points.index("backup.named")
    assert all(names == [] for _, names in seen[:first])
    assert all(names == ["b.zip"] for _, names in seen[first:])
    assert not [name for name in os.listdir(place.state) if name.startswith(".awk-backup")]


async def test_a_file_that_is_no_backup_is_told_as_that_also_while_a_kernel_runs(place: Place) -> None:
    lock = os.open(place.state / LOCK, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    told = refused(restore, place.root, place.state, "/etc/passwd", now=LATER)
    os.close(lock)
    assert "it is not a backup" in told.text
    assert "kernel" not in told.text


async def test_a_restore_over_a_killed_kernel_sets_its_write_ahead_log_aside(place: Place, tmp_path: Path) -> None:
    file = str(tmp_path / "b.zip")
    backup(place.root, place.state, file, now=AT)
    for log in ("-wal", "-shm"):
        (place.state / f"{DATABASE}{log}").touch()
    told = restore(place.root, place.state, file, now=LATER, force=True)
    for log in ("-wal", "-shm"):
        assert not (place.state / f"{DATABASE}{log}").exists()
        assert (Path(told.aside[0]) / f"{DATABASE}{log}").exists()


Change = Callable[[dict[str, bytes], BackupManifest], BackupManifest]


def rewritten(file: Path, to: Path, change: Change) -> Path:
    """The backup with its files changed, and a manifest that fits them but for what ``change`` says."""
    with zipfile.ZipFile(file) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    manifest = change(files, msgspec.json.decode(files.pop("manifest.json"), type=BackupManifest))
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        archive.writestr("manifest.json", msgspec.json.encode(manifest))
    return to


def with_file(path: str, content: bytes = b"x: 1\n") -> Change:
    def change(files: dict[str, bytes], manifest: BackupManifest) -> BackupManifest:
        files[path] = content
        one = msgspec.structs.replace(
            manifest.files[0], path=path, bytes=len(content), sha256=hashlib.sha256(content).hexdigest()
        )
        kept = tuple(kept for kept in manifest.files if kept.path != path)
        return msgspec.structs.replace(manifest, files=(*kept, one))

    return change


def hostile_database(sql: str) -> Change:
    def change(files: dict[str, bytes], manifest: BackupManifest) -> BackupManifest:
        connection = apsw.Connection(":memory:")
        connection.deserialize("main", files[DATABASE])
        connection.execute(sql)
        return with_file(DATABASE, connection.serialize("main"))(files, manifest)

    return change


def hostile_tree(change: str) -> Change:
    """A tree in its place, with something else of it changed."""

    def change_all(files: dict[str, bytes], manifest: BackupManifest) -> BackupManifest:
        place = f"'{manifest.head.state}/worktrees/review/r1/alice'"
        return hostile_database(f"{TREE.replace('?', place)}; UPDATE worktrees SET {change}")(files, manifest)

    return change_all


RUN = """
INSERT INTO workflows (name, tag, space, mode, file, definition, params, vouched, state, started_ms, hops_limit,
  instructions_limit, mirror)
VALUES ('w', 'main', 'w:main', 'start', '', x'7b7d', x'7b7d', x'5b5d', 'running', 0, 8, 8, ?)
"""
BALLOT = """
INSERT INTO ballots (space, run, name, type, title, description, options, rule, quorum, binding, creator, hops,
  created_ms, expires_ms, state, binds)
VALUES ('w:main', 1, 'p', 'approval', '', '', x'5b5d', 'majority', 1, 0, 'user', 0, 0, 0, 'open', x'7b')
"""
HOSTILE: dict[str, Change] = {
    "leads out": with_file("../../evil"),
    "absolute": with_file("/etc/evil"),
    "a definition of an agent": with_file("project/.agents/evil.yaml"),
    "a workflow": with_file("project/.workflows/memory/evil.yaml"),
    "git's own": with_file("project/.git/memory/hook.md"),
    "a program": with_file("project/.agents/alice/memory/run.sh"),
    "a soul that is an agent": with_file("project/.agents/soul.yaml"),
    "trust": with_file("trust.json"),
    "too large": with_file("project/.agents/alice/notes/big.md", b"\0" * (17 * 1024 * 1024)),
    "a bomb": with_file(DATABASE, b"\0" * (100 * 1024 * 1024)),
    "no database": with_file(DATABASE, b"not one"),
    "a trigger": hostile_database("CREATE TRIGGER t AFTER INSERT ON messages BEGIN DELETE FROM messages; END"),
    "a view": hostile_database("CREATE VIEW v AS SELECT 1"),
    "a newer schema": hostile_database(f"PRAGMA user_version = {max(migrations()) + 1}"),
    "a tree elsewhere": hostile_database(TREE.replace("?", "'/home/user'")),
    "a tree on a branch of the user's": hostile_tree("branch = 'release'"),
    "a branch that leads out": hostile_tree("branch = 'awk/../../../precious'"),
    "a tree's folder that leads out": hostile_tree("folder = 'docs/../../..'"),
    "an option as a commit": hostile_tree("base = '--output=/home/user/.bashrc'"),
    "an option as the last commit": hostile_tree("tip = '--exec=id'"),
    "files in .git": hostile_database(RUN.replace("?", "'.git/refs'")),
    "files among agents": hostile_database(RUN.replace("?", "'.agents'")),
    "files elsewhere": hostile_database(RUN.replace("?", "'../outside'")),
    "a time before all years": hostile_database("UPDATE messages SET at_ms = -1e17"),
    "a ballot's orders": hostile_database(BALLOT),
    "another form": lambda _files, manifest: msgspec.structs.replace(manifest, schema="awk/backup-file/9"),
    "a message that is not there": lambda _files, manifest: msgspec.structs.replace(
        manifest, head=msgspec.structs.replace(manifest.head, message=manifest.head.message + 1)
    ),
    "a digest": lambda _files, manifest: msgspec.structs.replace(
        manifest, files=tuple(msgspec.structs.replace(one, sha256="0" * 64) for one in manifest.files)
    ),
    "a file that is not told of": lambda _files, manifest: msgspec.structs.replace(manifest, files=manifest.files[:1]),
}


@pytest.mark.promise("P76")
async def test_a_backup_that_somebody_else_wrote_changes_nothing(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "b.zip"
    backup(place.root, place.state, str(file), now=AT)
    before, listing = place.whole(), sorted(os.listdir(place.state))
    for name, change in HOSTILE.items():
        bad = rewritten(file, tmp_path / "bad.zip", change)
        told = refused(restore, place.root, place.state, str(bad), now=LATER, force=True)
        assert told.code == "conflict", name
        assert ("upgrade agent-worker" in told.text) == (name in {"a newer schema", "another form"}), told.text
    for cut in (0, 10, file.stat().st_size // 2, file.stat().st_size - 1):
        (tmp_path / "bad.zip").write_bytes(file.read_bytes()[:cut])
        told = refused(restore, place.root, place.state, str(tmp_path / "bad.zip"), now=LATER, force=True)
        assert told.code == "conflict", cut
    link = io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(link, "w") as new:
        for info in old.infolist():
            info.external_attr = 0o120777 << 16
            new.writestr(info, old.read(info.filename))
    (tmp_path / "bad.zip").write_bytes(link.getvalue())
    assert "not a regular file" in refused(restore, place.root, place.state, str(tmp_path / "bad.zip"), now=LATER).text
    left = sorted(name for name in os.listdir(place.state) if name != LOCK)
    assert (place.whole(), left) == (before, [name for name in listing if name != LOCK])


async def test_a_folder_that_is_a_link_is_not_written_through(place: Place, tmp_path: Path) -> None:
    file, outside = tmp_path / "b.zip", tmp_path / "outside"
    backup(place.root, place.state, str(file), now=AT)
    other = Place(tmp_path / "other")
    (outside / "memory").mkdir(parents=True)
    (other.root / ".agents/alice").symlink_to(outside)
    assert refused(restore, other.root, other.state, str(file), now=LATER).code == "storage_failed"
    assert list((outside / "memory").iterdir()) == []
    (place.root / ".agents/alice/memory").rename(place.root / "kept")
    (place.root / ".agents/alice/memory").symlink_to(place.root / "kept")
    assert backup(place.root, place.state, str(tmp_path / "c.zip"), now=AT).files == 1


def test_a_snapshot_of_no_database_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SnapshotRefused):
        take_snapshot(str(tmp_path / "none.db"), str(tmp_path / "none.copy"))


@pytest.mark.parametrize(
    ("path", "fits"),
    [
        (DATABASE, True), ("contexts/alice/soul.yaml", True), ("contexts/alice/notes/1.md", True),
        ("project/.agents/alice/soul.yaml", True), ("project/team/alice/todo/index.md", True),
        ("contexts/alice", False), ("project/memory/x.yaml", False), ("project/.agents/memory/x.yaml", False),
        ("contexts/../x/y", False), ("contexts/a/b\\c", False), ("project/soul.yaml", False), ("", False),
        ("project/.agents/alice/memory/" + "x" * 300 + ".yaml", False), ("manifest.json", False),
    ],
)  # fmt: skip
def test_names_in_a_backup_are_few(path: str, fits: bool) -> None:
    assert (name_fault(path) is None) == fits
