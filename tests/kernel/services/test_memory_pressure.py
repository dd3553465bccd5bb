"""Memory pressure holds back new leases."""

from pathlib import Path

import pytest

from kernel.services.health import MemoryPressure, free_part

GIB = 1 << 30


def test_memory_is_looked_at_once_a_second() -> None:
    now = [0.0]
    looks: list[float] = []

    def look() -> float:
        looks.append(now[0])
        return 0.05

    memory = MemoryPressure(clock=lambda: now[0], look=look)
    answers = [memory.pressed(0.1) for now[0] in (0.0, 0.5, 0.99, 1.0, 1.5)]
    assert (answers, looks) == ([True] * 5, [0.0, 1.0])
    assert not memory.pressed(0.05)


def test_it_sees_the_machine_it_runs_on() -> None:
    assert 0.0 <= free_part() <= 1.0
    assert not MemoryPressure(clock=lambda: 0.0).pressed(0.0)


@pytest.mark.promise("PF15")
@pytest.mark.parametrize(
    ("limit", "used", "cached", "pressed"),
    [
        (str(GIB), GIB - 1, 0, True),
        (str(GIB), GIB - 1, GIB // 2, False),
        ("max", GIB, 0, False),
        ("nonsense", GIB, 0, False),
        ("0", 0, 0, False),
    ],
)
def test_the_limit_of_a_container_counts(limit: str, used: int, cached: int, pressed: bool, tmp_path: Path) -> None:
    group = tmp_path / "outer/inner"
    group.mkdir(parents=True)
    (tmp_path / "outer/memory.max").write_text(f"{limit}\n")
    (tmp_path / "outer/memory.current").write_text(f"{used}\n")
    (tmp_path / "outer/memory.stat").write_text(f"anon 1\ninactive_file {cached}\nactive_file 0\n")
    own = tmp_path / "own"
    own.write_text("1:name=systemd:/\n0::/outer/inner\n")
    memory = MemoryPressure(clock=lambda: 0.0, look=lambda: min(free_part(tmp_path, own), 1.0))
    elsewhere = MemoryPressure(clock=lambda: 0.0, look=lambda: free_part(tmp_path, tmp_path / "nothing"))
    assert memory.pressed(0.01) == pressed
    assert not elsewhere.pressed(0.01)
