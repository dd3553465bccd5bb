"""When people have to know of the copy of a log."""

import pytest

from kernel.services.standby import STALE_SECONDS, standby_notice
from protocol.standby import StandbyState


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
