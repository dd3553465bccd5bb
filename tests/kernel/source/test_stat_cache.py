"""Whether one stat is enough to know that a file is what it was."""

import weakref
from pathlib import Path

import pytest

from kernel.source.files import SETTLED_SECONDS, StatCache


@pytest.mark.promise("CF18")
def test_what_may_have_been_written_twice_in_a_moment_is_not_settled(tmp_path: Path) -> None:
    now = 0.0
    glances, path = StatCache(lambda: now), tmp_path / "a.yaml"
    path.write_text("a")
    first = glances.at(str(path))
    now = SETTLED_SECONDS - 0.1
    assert (first.settled, glances.at(str(path)).settled) == (False, False)
    now = SETTLED_SECONDS
    settled = glances.at(str(path))
    assert settled.settled
    assert glances.at(str(path)) == settled


@pytest.mark.promise("CF18")
def test_an_edit_looks_different_and_has_to_settle_again(tmp_path: Path) -> None:
    now = 0.0
    glances, path = StatCache(lambda: now), tmp_path / "a.yaml"
    path.write_text("a")
    glances.at(str(path))
    now = 10.0
    before = glances.at(str(path))
    (tmp_path / "b").write_text("b")
    (tmp_path / "b").rename(path)
    after = glances.at(str(path))
    assert before.settled
    assert not after.settled
    assert after.signature != before.signature


@pytest.mark.promise("CF18")
def test_what_is_not_there_is_settled_and_its_coming_is_seen(tmp_path: Path) -> None:
    glances, path = StatCache(lambda: 0.0), tmp_path / "moniro.yaml"
    absent = glances.at(str(path))
    path.write_text("a")
    assert absent == (None, True)
    assert not glances.at(str(path)).settled


def test_a_name_that_stands_for_nothing_is_not_remembered(tmp_path: Path) -> None:
    class Name(str):
        """One that can be seen to be forgotten."""

    glances, there = StatCache(lambda: 0.0), tmp_path / "a.yaml"
    there.write_text("a")
    absent, gone = Name(tmp_path / "nobody.yaml"), Name(there)
    glances.at(absent)
    glances.at(gone)
    there.unlink()
    glances.at(gone)
    left = weakref.ref(absent), weakref.ref(gone)
    del absent, gone
    assert [one() for one in left] == [None, None]
