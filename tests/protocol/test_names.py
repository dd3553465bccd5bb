"""Names of spaces: of runs, of agents, and of what is opened below a run's."""

import pytest

from protocol.names import base_space, is_below, is_personal, place_of, split_below, split_space, subspace


@pytest.mark.parametrize(
    ("base", "space", "place", "split"),
    [
        ("review:main#12", "review:main~design#12.7", "review:main~design", ("review", "main~design")),
        ("review:pr-1.x#3", "review:pr-1.x~design#3.7", "review:pr-1.x~design", ("review", "pr-1.x~design")),
        ("review:main", "review:main~design#.7", "review:main~design", ("review", "main~design")),
    ],
    ids=["of a run", "whose tag has a point", "of an old database, whose spaces have no number"],
)
def test_a_space_below_another_leads_back_to_it(base: str, space: str, place: str, split: tuple[str, str]) -> None:
    assert subspace(base, "design", 7) == space
    assert base_space(space) == base
    assert base_space(place) == place_of(base)
    assert (place_of(space), split_space(space), split_below(space)) == (place, split, (place_of(base), "design"))
    assert (is_below(space), is_below(base), is_personal(space)) == (True, False, False)


@pytest.mark.parametrize("space", ["review:main#12", "review:main", "dm:alice"])
def test_a_space_that_is_below_none_is_its_own(space: str) -> None:
    assert base_space(space) == space
    assert split_below(space) == (place_of(space), "")


def test_the_default_tag_may_be_left_out() -> None:
    assert split_space("review~design") == split_space("review:main~design")
