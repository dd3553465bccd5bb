"""A copy of the log elsewhere: a prefix of it that some commit ended, whatever dies, and told where it is not."""

import errno
import fcntl
import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from kernel import fault_injection
from kernel.inspect import copier
from kernel.inspect.standby import Whole, check_standby, promote, put_together
from kernel.source import standby_place
from kernel.source.standby_place import BEAT, PROMOTED
from kernel.store import log_tap
from kernel.store.transaction import Transaction
from kernel.store.transitions.clear import clear
from kernel.store.transitions.close import close
from kernel.store.transitions.recovery import recover
from protocol.discovery import DATABASE, LOCK
from protocol.errors import Refused
from tests.kernel.inspect.copied_store import AT, Copied, Place, copied_store, texts_in
from tests.kernel.refusals import refused
from tests.kernel.store.running_store import open_store

LATER = AT + 3600
TOKEN = "INSERT INTO tokens (name, scope, digest, created_ms) VALUES ('ci', 'operate', ?, 0)"


def with_token(tx: Transaction, digest: bytes) -> None:
    """A token that somebody made."""
    tx.conn.execute(TOKEN, (digest,))


def promoted(folder: Path, base: Path, *, force: bool = False) -> list[str]:
    """What was said, in a new project that the copy was put in the place of."""
    there = Place(base)
    promote(there.root, there.state, str(folder), now=LATER, force=force)
    return there.said()


@pytest.mark.promise("P90", "P91")
async def test_a_copy_is_gone_on_with_elsewhere(tmp_path: Path) -> None:
    async with copied_store(tmp_path / "a") as copied:
        digest = os.urandom(32)
        await copied.store.writer.commit(with_token, digest)
        term = (await copied.store.writer.commit(recover)).term
        memory = copied.place.root / ".agents/alice/memory/core.yaml"
        memory.parent.mkdir(parents=True)
        memory.write_text("auth: JWT\n")
        await copied.say("one", "two")
        copied.bring()
        await copied.say("three")
        copied.bring()
    there = Place(tmp_path / "b")
    lock = os.open(there.state / LOCK, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    folder = str(copied.folder)
    assert "is running" in refused(promote, there.root, there.state, folder, now=LATER).text
    os.close(lock)
    told = promote(there.root, there.state, folder, now=LATER)
    assert there.said() == ["one", "two", "three"]
    assert (there.root / ".agents/alice/memory/core.yaml").read_text() == "auth: JWT\n"
    assert digest not in (there.state / DATABASE).read_bytes()
    assert (told.backup.message, told.backup.project) == (3, str(copied.place.root))
    assert "the copy ends at event" in told.notes[0]
    assert "must not run again" in told.notes[1]
    async with open_store(str(there.state / DATABASE)) as store:
        assert (await store.writer.commit(recover)).term > term + 900_000
    again = Place(tmp_path / "c")
    assert "was already promoted" in refused(promote, again.root, again.state, folder, now=LATER).text
    with pytest.raises(Refused):
        check_standby(str(tmp_path / "nowhere"), now=LATER)


@pytest.mark.promise("P90")
async def test_the_original_must_be_known_to_be_dead_or_have_ended(tmp_path: Path) -> None:
    async with copied_store(tmp_path / "a") as copied:
        await copied.say("one")
        copied.bring()
        copied.now += 10
        copied.bring()
        folder, there = copied.folder, Place(tmp_path / "b")
        for now in (copied.now + 30, copied.now - 30):  # its clock may differ from ours
            why = refused(promote, there.root, there.state, str(folder), now=now)
            assert (why.code, "may still run" in why.text) == ("busy", True)
        assert check_standby(str(folder), now=copied.now + 30).alive
        forced = tmp_path / "forced"
        shutil.copytree(folder, forced)
        promote(there.root, there.state, str(forced), now=copied.now + 30, force=True)
        await copied.say("two")
        copied.bring(last=True)
        assert copied.heard.ended
    ended = Place(tmp_path / "c")
    told = promote(ended.root, ended.state, str(folder), now=copied.now + 1)
    assert ended.said() == ["one", "two"]
    assert "the copy is complete" in told.notes[0]


@pytest.mark.promise("P90")
@pytest.mark.parametrize(
    ("seed", "rounds"), [(0, 25), *(pytest.param(seed, 80, marks=pytest.mark.long("[0-25]")) for seed in range(1, 9))]
)
async def test_a_copy_is_a_prefix_at_every_moment_of_a_long_life(
    seed: int, rounds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(log_tap, "DUE_FRAMES", 40)
    monkeypatch.setattr(copier, "ROOM_BYTES", 200_000)
    monkeypatch.setattr(copier, "_CHUNK_BYTES", 16 * 4096)
    seen: set[str] = set()
    async with copied_store(tmp_path / "a") as copied:
        number = 0
        for _ in range(rounds):
            for _ in range(chance.randint(0, 4)):
                number += 1
                await copied.say(f"m{number} " + "x" * chance.choice((10, 1000, 30_000)))
            copied.now += chance.choice((1, 10))
            if chance.random() < 0.05:
                copied.new_copier()
            whole = chance.random() < 0.4
            if whole:
                copied.bring()
            else:
                copied.step()
            if any(name.endswith(".json") and name.startswith("base") for name in os.listdir(copied.folder)):
                report, held = looked(copied.folder, tmp_path / "look")
                said = copied.place.said()
                assert not report.faults
                assert held == said[: len(held)]
                assert not whole or held == said
                seen.add(report.found.base_name)
        copied.bring()
        assert looked(copied.folder, tmp_path / "look")[1] == copied.place.said()
    assert len(seen) >= 2, "there were new bases"
    size = sum(path.stat().st_size for path in copied.folder.iterdir())
    assert size < 8 * (copied.place.state / DATABASE).stat().st_size + 1_000_000


def looked(folder: Path, base: Path) -> tuple[Whole, list[str]]:
    """What a copy comes to, without a change to it, and what was said in it."""
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    base.mkdir(exist_ok=True)
    (base / DATABASE).unlink(missing_ok=True)
    whole = put_together(str(folder), str(base / DATABASE))
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    held = texts_in(base / DATABASE)
    assert len(held) == whole.mark.message
    return whole, held


class Killed(BaseException):
    """In place of the end of the process."""


@pytest.mark.promise("P90")
@pytest.mark.parametrize("frames", [35, 40, 46])
async def test_a_copier_that_is_killed_at_any_point_leaves_a_prefix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frames: int
) -> None:
    monkeypatch.setattr(log_tap, "DUE_FRAMES", frames)
    async with copied_store(tmp_path / "a") as copied:
        await copied.say("first")
        copied.bring()
        killed = 0
        for point in range(1, 40):
            copied.new_copier()
            left = point

            def reached(name: str) -> None:
                nonlocal left
                left -= name.startswith("standby.")
                if left == 0:
                    raise Killed

            before = len(copied.place.said())
            copied.now += 10
            died = False
            with monkeypatch.context() as patched:
                patched.setattr(fault_injection, "_reached", reached)
                try:
                    copied.step()
                    await copied.say(f"{point}a", f"{point}b")
                    copied.bring()
                except Killed:
                    died = True
            report, held = looked(copied.folder, tmp_path / "look")
            said = copied.place.said()
            assert not report.faults
            assert held == said[: len(held)]
            assert len(held) >= before
            killed += died
            if not died:
                break
            copied.new_copier()
            copied.bring()
            assert looked(copied.folder, tmp_path / "look")[1] == said
        assert killed > 8


def why(copied: Copied) -> str | None:
    """What keeps the copier, as it said last."""
    return copied.heard.why


def flip(path: Path, at: float) -> None:
    """Turn one bit of a file over."""
    data = bytearray(path.read_bytes())
    data[int(len(data) * at)] ^= 1
    path.write_bytes(data)


def swap(one: Path, other: Path) -> None:
    beside = one.with_suffix(".beside")
    one.rename(beside)
    other.rename(one)
    beside.rename(other)


def leave_out(far: Path, gone: int) -> None:
    """Remove a piece, then renumber and rechain the pieces after it."""
    paths = sorted(far.glob("log-*"))
    pieces = [path.read_bytes() for path in paths]
    heads = [data[12 : 12 + int.from_bytes(data[8:12], "big")] for data in pieces]
    before = heads[gone - 1]
    for at in range(gone + 1, len(pieces)):
        said = {**json.loads(heads[at]), "number": at, "chain": hashlib.sha256(before).hexdigest()}
        before = json.dumps(said).encode()
        body = pieces[at][12 + len(heads[at]) :]
        paths[at - 1].write_bytes(pieces[at][:8] + len(before).to_bytes(4, "big") + before + body)
    paths[-1].unlink()


@pytest.mark.promise("P90")
async def test_what_is_damaged_missing_or_swapped_is_found_and_all_before_it_is_good(tmp_path: Path) -> None:
    async with copied_store(tmp_path / "a") as copied:
        for number in range(6):
            await copied.say(f"m{number}")
            copied.bring()
        copied.now += 10
        copied.bring()
        copied.copier.turn()
        said = copied.place.said()
    pieces = sorted(copied.folder.glob("log-*"))
    assert len(pieces) == 6
    broken: dict[str, Callable[[Path], object]] = {
        "a bit of a body": lambda far: flip(far / pieces[3].name, 0.9),
        "a bit of a head": lambda far: flip(far / pieces[3].name, 0.004),
        "a piece that is gone": lambda far: (far / pieces[3].name).unlink(),
        "a piece that is left out": lambda far: leave_out(far, 3),
        "the last piece that is gone": lambda far: (far / pieces[5].name).unlink(),
        "two that are swapped": lambda far: swap(far / pieces[3].name, far / pieces[4].name),
        "one that is cut": lambda far: os.truncate(far / pieces[3].name, pieces[3].stat().st_size - 7),
        "one that is another's": lambda far: (far / pieces[3].name).write_bytes(pieces[2].read_bytes()),
        "one that is a link": lambda far: os.symlink(
            (far / pieces[3].name).rename(far / "elsewhere"), far / pieces[3].name
        ),
    }
    for name, damage in broken.items():
        far = tmp_path / name / "far"
        shutil.copytree(copied.folder, far)
        damage(far)
        report = check_standby(str(far), now=LATER)
        assert not report.ok, name
        assert report.faults, name
        there = Place(tmp_path / name / "b")
        assert "damaged" in refused(promote, there.root, there.state, str(far), now=LATER).text
        assert not (there.state / DATABASE).exists()
        held = promoted(far, tmp_path / name / "c", force=True)
        expected = 5 if name.startswith("the last") else 3
        assert held == said[:expected], name
    for base in ("db", "json"):
        far = tmp_path / base
        shutil.copytree(copied.folder, far)
        flip(next(far.glob(f"base-*.{base}")), 0.05)
        assert refused(check_standby, str(far), now=LATER).code == "conflict"
    [told] = copied.folder.glob("base-*.json")
    told.write_text(json.dumps({**json.loads(told.read_text()), "needs": 7}))
    assert "are missing" in refused(check_standby, str(copied.folder), now=LATER).text


@pytest.mark.promise("P90")
async def test_a_copy_that_is_replaced_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with copied_store(tmp_path / "a") as copied:
        await copied.say("one")
        copied.bring()
    faults = [FileNotFoundError("the base was replaced")]

    def read(folder: str, target: str) -> Whole:
        if faults:
            raise faults.pop()
        return put_together(folder, target)

    monkeypatch.setattr("kernel.inspect.standby.put_together", read)
    assert check_standby(str(copied.folder), now=LATER).message == 1


@pytest.mark.promise("P90")
async def test_a_place_that_is_full_gone_or_read_only_is_told_and_caught_up_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copier, "RETRY_SECONDS", (0.0,))
    away = tmp_path / "away"

    def full(_folder: str, *_rest: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with copied_store(tmp_path / "a") as copied:
        await copied.say("one")
        copied.bring()
        with monkeypatch.context() as patched:
            patched.setattr(standby_place, "write_piece", full)
            await copied.say("two")
            copied.step()
            assert why(copied) == f"the disk of {copied.folder} is full"
            assert "resumes automatically" in (copied.heard.fix or "")
        assert looked(copied.folder, tmp_path / "look")[1] == ["one"]
        copied.bring()
        assert why(copied) is None
        assert looked(copied.folder, tmp_path / "look")[1] == ["one", "two"]

        copied.folder.rename(away)
        copied.now += 10
        await copied.say("three")
        copied.step()
        assert "does not exist" in (why(copied) or "")
        monkeypatch.setattr(copier, "QUEUE_BYTES", 1000)
        await copied.say("four", "five")
        copied.send()
        assert copied.heard.lost
        assert looked(away, tmp_path / "look")[1] == ["one", "two"]
        away.rename(copied.folder)
        monkeypatch.setattr(copier, "QUEUE_BYTES", 1_000_000)
        copied.bring()
        assert looked(copied.folder, tmp_path / "look")[1] == ["one", "two", "three", "four", "five"]

        shutil.rmtree(copied.folder)
        copied.folder.mkdir()
        copied.now += 10
        await copied.say("six")
        copied.step()
        copied.bring()
        assert looked(copied.folder, tmp_path / "look")[1][-1] == "six"


async def test_a_folder_that_is_anothers_or_was_promoted_is_left_alone(tmp_path: Path) -> None:
    """Two that were one project never write into one folder."""
    async with copied_store(tmp_path / "a") as copied, copied_store(tmp_path / "b") as other:
        await copied.say("one")
        copied.bring()
        promoted(copied.folder, tmp_path / "c", force=True)
        before = sorted(os.listdir(copied.folder))
        assert PROMOTED in before
        copied.new_copier()
        copied.step()
        assert "was promoted at" in (why(copied) or "")
        (copied.folder / PROMOTED).unlink()
        other.folder = copied.folder
        other.new_copier()
        other.step()
        assert "another project" in (other.heard.why or "")
        assert sorted(os.listdir(copied.folder)) == [name for name in before if name != PROMOTED]
        assert BEAT in before


def test_a_folder_without_a_copy_is_named_once_with_what_to_name_instead(tmp_path: Path) -> None:
    there = Place(tmp_path / "p")
    for folder, why in ((tmp_path / "gone", "it cannot be read: No such file or directory"), (tmp_path, "no standby")):
        for call in (
            lambda at=str(folder): check_standby(at, now=LATER),
            lambda at=str(folder): promote(there.root, there.state, at, now=LATER),
        ):
            said = refused(call)
            assert why in said.text and said.text.count(str(folder)) == 1
            assert "standby: {to: ...}" in (said.hint or "")


@pytest.mark.promise("P90")
async def test_a_tap_that_was_put_on_when_all_was_said_gives_all_of_it(tmp_path: Path) -> None:
    async with copied_store(tmp_path / "a") as copied:
        await copied.say("one", "two")
        for _ in range(2):
            await copied.new_tap()
            copied.new_copier()
            copied.bring()
            assert looked(copied.folder, tmp_path / "look")[1] == ["one", "two"]


async def test_what_is_erased_is_erased_in_the_copy(tmp_path: Path) -> None:
    async with copied_store(tmp_path / "a") as copied:
        (instruction,) = (await copied.store.said("dm:alice", "a secret that nobody should read")).instruction_ids
        leased = await copied.store.take(instruction)
        await copied.store.writer.commit(close, instruction, leased.epoch, status="done", text="ok")
        copied.bring()
        assert any(b"a secret that nobody" in path.read_bytes() for path in copied.folder.iterdir())
        await copied.store.writer.commit(clear, "dm:alice")
        await copied.say("another")
        copied.bring()
        assert not any(b"a secret that nobody" in path.read_bytes() for path in copied.folder.iterdir())
        assert looked(copied.folder, tmp_path / "look")[1][-1] == "another"


async def test_a_commit_that_is_larger_than_what_is_kept_begins_a_new_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_tap, "DUE_FRAMES", 20)
    monkeypatch.setattr(log_tap, "CHUNK_BYTES", 60_000)
    monkeypatch.setattr(log_tap, "PENDING_BYTES", 150_000)
    async with copied_store(tmp_path / "a") as copied:
        await copied.say("small")
        copied.bring()
        await copied.say("y" * 250_000)
        copied.bring()
        await copied.say("last")
        copied.bring()
        assert copied.begun > 1
        assert looked(copied.folder, tmp_path / "look")[1][::2] == ["small", "last"]


async def test_the_newer_of_two_bases_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def left(_folder: str, _first: int, _kept: str) -> None:
        """Remove nothing."""

    async with copied_store(tmp_path / "a") as copied:
        await copied.say("one")
        copied.bring()
        copied.new_copier()
        await copied.say("two")
        monkeypatch.setattr(standby_place, "forget_before", left)
        copied.bring()
        assert len(list(copied.folder.glob("base-*.json"))) == 2
        assert looked(copied.folder, tmp_path / "look")[1] == ["one", "two"]


async def test_a_log_that_another_program_checkpoints_too_early_starts_a_new_copy(tmp_path: Path) -> None:
    async with copied_store(tmp_path / "a") as copied:
        await copied.say("one")
        copied.bring()
        await copied.say("two")
        other = apsw.Connection(str(copied.place.state / DATABASE))
        other.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
        other.close()
        await copied.say("three")
        copied.send()
        assert copied.tap.broken
        copied.bring()
        assert looked(copied.folder, tmp_path / "look")[1] == ["one", "two", "three"]


async def test_a_writer_that_copies_its_log_back_by_itself_does_so_as_before(tmp_path: Path) -> None:
    async with copied_store(tmp_path / "a") as copied:
        log = f"{copied.store.database.path}-wal"
        for number in range(30):
            await copied.say(f"{number}" + "z" * 200_000)
        assert os.stat(log).st_size < 8 * 1024 * 1024
        copied.bring()
        assert len(texts_in(copied.place.state / DATABASE)) == 30
    assert apsw.Connection(str(copied.place.state / DATABASE)).execute("PRAGMA integrity_check").get == "ok"


@pytest.mark.promise("P90")
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long("[1]")) for seed in range(2, 31))])
async def test_a_place_that_fails_at_any_moment_holds_a_prefix(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(copier, "RETRY_SECONDS", (0.0,))
    monkeypatch.setattr(copier, "ROOM_BYTES", 300_000)
    monkeypatch.setattr(log_tap, "DUE_FRAMES", 40)
    fails = True

    def reached(name: str) -> None:
        if name.startswith("standby.") and fails and chance.random() < 0.2:
            raise OSError(chance.choice((errno.ENOSPC, errno.EIO, errno.EROFS)), "failed")

    monkeypatch.setattr(fault_injection, "_reached", reached)
    async with copied_store(tmp_path / "a") as copied:
        for number in range(40):
            await copied.say(f"m{number} " + "x" * chance.choice((10, 20_000)))
            copied.now += 3
            for _ in range(3):
                copied.step()
            if any(name.endswith(".json") and name.startswith("base") for name in os.listdir(copied.folder)):
                whole, held = looked(copied.folder, tmp_path / "look")
                assert not whole.faults
                assert held == copied.place.said()[: len(held)]
        fails = False
        copied.bring()
        copied.copier.turn()
        assert why(copied) is None
        assert looked(copied.folder, tmp_path / "look")[1] == copied.place.said()
        assert len(list(copied.folder.glob("base-*.json"))) == 1
