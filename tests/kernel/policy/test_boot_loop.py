"""A kernel that keeps dying: whose fault, and when to stop trying."""

import pytest

from kernel.policy.restart import LOOP_MS, BootFailures, PastBoot, in_boot_loop, with_failure

NOW = 10_000_000


@pytest.mark.promise("P13")
def test_deaths_add_up_only_while_nothing_gets_further() -> None:
    deaths = BootFailures(0, -1)
    seen = []
    for progress in (0, 0, 1, 1, 1):
        deaths = with_failure(deaths, progress)
        seen.append((deaths.count, deaths.poisonous))
    assert seen == [(1, False), (2, False), (1, False), (2, False), (3, True)]


@pytest.mark.parametrize(
    ("ages_ms", "clean", "loop"),
    [
        ((1, 2, 3), (False, False, False), True),
        ((1, 2, 3, 4), (False, False, False, True), True),
        ((1, 2), (False, False), False),
        ((1, 2, 3), (False, True, False), False),
        ((1, 2, LOOP_MS + 1), (False, False, False), False),
        ((-5, -6, -7), (False, False, False), True),
    ],
)
def test_three_unclean_boots_in_five_minutes_are_a_loop(
    ages_ms: tuple[int, ...], clean: tuple[bool, ...], loop: bool
) -> None:
    boots = [PastBoot(NOW - age, ended) for age, ended in zip(ages_ms, clean, strict=True)]
    assert in_boot_loop(boots, NOW) is loop
