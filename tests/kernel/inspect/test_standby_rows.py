"""What people are told of the copy of a log, and what is wrong with the key that asks for one."""

from pathlib import Path

import pytest

from kernel.agents.catalog import Catalog
from kernel.agents.sections import standby_units
from kernel.inspect.standby import standby_rows
from kernel.services.standby import STALE_SECONDS, standby_notice
from kernel.source.diagnostics import BadDefinition
from kernel.source.standby_place import PROMOTED, write_json
from protocol.inspection import DoctorRow
from protocol.project import StandbySettings
from protocol.standby import Promoted, StandbyState
from protocol.trust import Grant
from tests.kernel.inspect.copied_store import AT, copied_store


def rows(folder: Path, state: Path, *grants: Grant) -> list[DoctorRow]:
    return list(standby_rows(StandbySettings(to=str(folder)), state, {}, lambda: grants, AT + 7))


async def test_a_copy_that_cannot_be_made_is_told_with_a_way_out(tmp_path: Path) -> None:
    async with copied_store(tmp_path / "a") as copied:
        folder, state = copied.folder, copied.place.state
        (demand,) = standby_units(Catalog(copied.place.root).project()) or (None,)
        assert demand is None, "no project file asks for it"
        missing, *_ = rows(tmp_path / "nowhere", state)
        assert (missing.ok, missing.fix) == (False, "look at it: awk trust")
        assert "mkdir" in (rows(tmp_path / "nowhere", state)[-1].fix or "")
        assert "no standby was made there" in rows(folder, state)[-1].detail
        await copied.say("one")
        copied.bring()
        whole = rows(folder, state)[-1]
        assert (whole.ok, whole.detail.endswith("7 s ago for the last time")) == (True, True)
        assert "another project" in rows(folder, tmp_path)[-1].detail
        write_json(str(folder), PROMOTED, Promoted(at="then", root="/there"))
        promoted = rows(folder, state)[-1]
        assert (promoted.ok, promoted.fix) == (False, "this project must not go on: awk stop")


@pytest.mark.parametrize("to", ["far", "../far", "/", "/mnt/../far", "/mnt//far", "/a\\tb"])
def test_a_place_is_the_whole_path_of_a_folder(to: str, tmp_path: Path) -> None:
    file = tmp_path / ".agents.yaml"
    file.write_text(f'standby: {{to: "{to}"}}\n')
    with pytest.raises(BadDefinition) as caught:
        Catalog(tmp_path).project()
    assert [error.where for error in caught.value.errors] == ["standby.to"]
    file.write_text("standby: {to: /mnt/nas/awk}\n")
    (unit,) = standby_units(Catalog(tmp_path).project())
    assert unit.demands == ("all that is said and done, and what agents keep, is copied to /mnt/nas/awk",)


@pytest.mark.parametrize(
    ("state", "lag_seconds", "told"),
    [
        ("following", 0.0, None),
        ("following", STALE_SECONDS - 1, None),
        ("copying", 5.0, None),
        ("following", STALE_SECONDS, "60 s behind: the place takes nothing (see to it)"),
        ("copying", 2 * STALE_SECONDS, "120 s behind"),
        ("behind", 0.5, "0 s behind: the place takes nothing"),
        ("untrusted", 0.0, "is not made"),
    ],
)
def test_a_copy_that_follows_or_begins_is_no_news_and_all_else_is(
    state: str, lag_seconds: float, told: str | None
) -> None:
    notice = standby_notice(StandbyState(to="/far", state=state, lag_seconds=lag_seconds, event=1))
    assert (notice is None) == (told is None)
    assert told is None or told in (notice or "")
