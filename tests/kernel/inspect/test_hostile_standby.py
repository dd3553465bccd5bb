"""A standby's folder that somebody else wrote is refused in words; what people are told of the copy of a log."""

import hashlib
import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from kernel.agents.catalog import Catalog
from kernel.agents.sections import standby_units
from kernel.inspect.standby import check_standby, promote, standby_rows
from kernel.services.standby import STALE_SECONDS, standby_notice
from kernel.source.standby_place import BEAT, FILES, OWNER, PART, PROMOTED, new_file, write_json
from protocol.discovery import DATABASE
from protocol.errors import Refused
from protocol.inspection import DoctorRow
from protocol.project import StandbySettings
from protocol.standby import Promoted, StandbyState
from protocol.trust import Grant
from tests.kernel.inspect.copied_store import AT, Place, copied_store
from tests.kernel.refusals import faults

LATER = AT + 3600
HUGE = 10**40
ENDLESS = "CREATE VIEW boots AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS term FROM c"


def tell(pattern: str, **said: object) -> Callable[[Path], object]:
    """Have a file of JSON say something else."""

    def change(folder: Path) -> None:
        (file,) = folder.glob(pattern)
        file.write_text(json.dumps({**json.loads(file.read_text()), **said}))

    return change


def head(**said: object) -> Callable[[Path], object]:
    """Have the head of a piece say something else."""

    def change(folder: Path) -> None:
        file = min(folder.glob("log-*"))
        data = file.read_bytes()
        (length,) = struct.unpack(">I", data[8:12])
        new = json.dumps({**json.loads(data[12 : 12 + length]), **said}).encode()
        file.write_bytes(data[:8] + struct.pack(">I", len(new)) + new + data[12 + length :])

    return change


def text(pattern: str, data: bytes) -> Callable[[Path], object]:
    return lambda folder: next(folder.glob(pattern)).write_bytes(data)


def pipe(name: str) -> Callable[[Path], object]:
    """A pipe that nobody writes to, behind a link."""

    def change(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / "pipe")
        (folder / name).symlink_to("pipe")

    return change


def database(*statements: str) -> Callable[[Path], object]:
    """A copy of one whole file, in which somebody has changed something, with the digest of that."""

    def change(folder: Path) -> None:
        base, told = next(folder.glob("base-*.db")), next(folder.glob("base-*.json"))
        for piece in folder.glob("log-*"):
            piece.unlink()
        (folder / BEAT).unlink()
        shutil.copy(folder.parent / "whole.db", base)
        connection = apsw.Connection(str(base))
        for statement in statements:
            connection.execute(statement).fetchall()
        connection.close()
        data = base.read_bytes()
        said = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "first": 1, "needs": 0}
        told.write_text(json.dumps({**json.loads(told.read_text()), **said}))

    return change


HOSTILE: dict[str, Callable[[Path], object]] = {
    "a time that there is not": tell("base-*.json", at_ms=HUGE),
    "a time before all": tell("base-*.json", at_ms=-(2**62)),
    "a size below nothing": tell("base-*.json", size=-1),
    "a size above all": tell("base-*.json", size=HUGE),
    "a first piece below nothing": tell("base-*.json", first=-(2**62)),
    "a first piece above all": tell("base-*.json", first=HUGE),
    "pieces that never come": tell("base-*.json", needs=HUGE),
    "a base that is no UTF-8": text("base-*.json", b'{"first":"\xff"}'),
    "an owner that is no UTF-8": text(OWNER, b'{"form":"awk/standby/1","log":"\xff","root":"/","state":"/"}'),
    "a beat that is no UTF-8": text(BEAT, b'{"at":0,"term":"\xff"}'),
    "a beat of the end of time": tell(BEAT, at=1e300),
    "a beat of before all time": tell(BEAT, at=-1e300),
    "a beat that is not now or ever": tell(BEAT, at=HUGE),
    "a beat of a huge piece": tell(BEAT, last=HUGE, event=HUGE),
    "files behind a link to a pipe": pipe(FILES),
    "a beat behind a link to a pipe": pipe(BEAT),
    "an owner behind a link to a pipe": pipe(OWNER),
    "no log's header": head(wal=""),
    "a page of nothing": head(wal="AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
    "a page above all": head(wal="/////////////////////////////////////////w=="),
    "frames below nothing": head(frames=-1),
    "frames above all": head(frames=HUGE),
    "a start below nothing": head(start=-5),
    "a head that is no text": text("log-*", b'awk-log1\0\0\0\x0e{"chain":"\xff"}'),
    "a term without end": database("DROP TABLE boots", ENDLESS),
    "tokens that are a view": database("DROP TABLE tokens", "CREATE VIEW tokens AS SELECT 1"),
    "events of the end of time": database("UPDATE events SET at_ms = 9000000000000000000"),
    "a term above all": database("UPDATE boots SET term = 9223372036854775807"),
}


@pytest.mark.promise("P90")
@pytest.mark.timeout(60)
async def test_a_folder_that_somebody_else_wrote_is_refused_in_words_or_used(tmp_path: Path) -> None:
    async with copied_store(tmp_path / "a") as copied:
        for number in range(2):
            await copied.say(f"m{number}")
            copied.bring()
        copied.now += 10
        copied.bring()
        copied.copier.turn()
        whole = apsw.Connection(str(copied.place.state / DATABASE))
        whole.execute("VACUUM INTO ?", (str(tmp_path / "whole.db"),)).fetchall()
        whole.close()
    fell: list[str] = []
    for number, (name, change) in enumerate(HOSTILE.items()):
        far = tmp_path / f"far{number}"
        shutil.copytree(copied.folder, far)
        change(far)
        there = Place(tmp_path / f"there{number}")
        for call in (
            lambda far=far: check_standby(str(far), now=LATER),
            lambda far=far, there=there: promote(there.root, there.state, str(far), now=LATER, force=True),
        ):
            try:
                call()
            except Refused as refused:
                fell += [] if refused.text.isprintable() else [f"{name}: {refused.text!r}"]
            except Exception as error:  # noqa: BLE001  (all of them are told)
                fell.append(f"{name}: {error!r}")
    assert not fell


def test_nobody_who_was_there_before_reads_along(tmp_path: Path) -> None:
    there = tmp_path / (FILES + PART)
    there.write_bytes(b"")
    there.chmod(0o666)
    with there.open("rb") as held:
        with new_file(str(tmp_path), FILES) as file:
            file.write(b"what agents keep")
        assert held.read() == b""
    assert (tmp_path / FILES).read_bytes() == b"what agents keep"
    assert (tmp_path / FILES).stat().st_mode & 0o077 == 0


def rows(folder: Path, state: Path, *grants: Grant) -> list[DoctorRow]:
    return list(standby_rows(StandbySettings(to=str(folder)), state, {}, lambda: grants, AT + 7))


async def test_a_copy_that_cannot_be_made_is_told_with_a_way_out(tmp_path: Path) -> None:
    async with copied_store(tmp_path / "a") as copied:
        folder, state = copied.folder, copied.place.state
        (demand,) = standby_units(Catalog(copied.place.root).project()) or (None,)
        assert demand is None, "no project file asks for it"
        missing, *_ = rows(tmp_path / "nowhere", state)
        assert (missing.ok, missing.fix) == (False, "review and grant it: awk trust")
        assert "mkdir" in (rows(tmp_path / "nowhere", state)[-1].fix or "")
        assert "it contains no standby" in rows(folder, state)[-1].detail
        await copied.say("one")
        copied.bring()
        whole = rows(folder, state)[-1]
        assert (whole.ok, whole.detail.endswith("updated 7 s ago")) == (True, True)
        assert "another project" in rows(folder, tmp_path)[-1].detail
        write_json(str(folder), PROMOTED, Promoted(at="then", root="/there"))
        promoted = rows(folder, state)[-1]
        assert (promoted.ok, promoted.fix) == (False, "this project must not run any longer: awk stop")


@pytest.mark.parametrize("to", ["far", "../far", "/", "/mnt/../far", "/mnt//far", "/a\\tb"])
def test_a_place_is_the_whole_path_of_a_folder(to: str, tmp_path: Path) -> None:
    file = tmp_path / ".agents.yaml"
    file.write_text(f'standby: {{to: "{to}"}}\n')
    assert [error.where for error in faults(Catalog(tmp_path).project)] == ["standby.to"]
    file.write_text("standby: {to: /mnt/nas/awk}\n")
    (unit,) = standby_units(Catalog(tmp_path).project())
    assert unit.demands == ("all that is said and done, and what agents keep, is copied to /mnt/nas/awk",)


@pytest.mark.parametrize(
    ("state", "lag_seconds", "told"),
    [
        ("following", 0.0, None),
        ("following", STALE_SECONDS - 1, None),
        ("copying", 5.0, None),
        ("following", STALE_SECONDS, "60 s behind: the place accepts no data (check the place)"),
        ("copying", 2 * STALE_SECONDS, "120 s behind"),
        ("behind", 0.5, "0 s behind: the place accepts no data"),
        ("untrusted", 0.0, "is not running"),
    ],
)
def test_a_copy_that_follows_or_begins_is_no_news_and_all_else_is(
    state: str, lag_seconds: float, told: str | None
) -> None:
    notice = standby_notice(StandbyState(to="/far", state=state, lag_seconds=lag_seconds, event=1))
    assert (notice is None) == (told is None)
    assert told is None or told in (notice or "")
