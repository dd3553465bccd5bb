"""``needs`` in an agent's file: read with its units, bounded, and refused at its place."""

from pathlib import Path

import pytest

from kernel.source.diagnostics import BadDefinition
from protocol.placement import PlaceNeeds
from tests.kernel.agents.test_catalog import project

MOCK = "backend: mock\nmock: [{text: x}]\n"


def test_it_is_read_with_its_units(tmp_path: Path) -> None:
    found = project(tmp_path, alice=f"{MOCK}needs: {{labels: [gpu, zone/a], memory: 8GB, gpus: 2}}\n", bob=MOCK)
    assert found.agent("alice").definition.needs == PlaceNeeds(labels=("gpu", "zone/a"), memory=8_000_000_000, gpus=2)
    assert not found.agent("bob").definition.needs


@pytest.mark.parametrize(
    ("needs", "where", "message"),
    [
        ("{labels: ['a b']}", "needs.labels[0]", "is no label"),
        ("{labels: [gpu, '-x']}", "needs.labels[1]", "is no label"),
        (f"{{labels: [{', '.join(f'l{n}' for n in range(17))}]}}", "needs.labels", "more than 16"),
        ("{labels: gpu}", "needs.labels", "needs a list"),
        ("{memory: 1MiB}", "needs.memory", "at least 64MiB"),
        ("{memory: 8gigs}", "needs.memory", "8gigs"),
        ("{gpus: -1}", "needs.gpus", "at least 0"),
        ("{gpus: 2000}", "needs.gpus", "at most 1024"),
        ("{cpus: 2}", "needs.cpus", "unknown key"),
    ],
)
def test_what_is_wrong_in_it_is_told_at_its_place(tmp_path: Path, needs: str, where: str, message: str) -> None:
    with pytest.raises(BadDefinition) as caught:
        project(tmp_path, alice=f"{MOCK}needs: {needs}\n").agent("alice")
    assert [(error.where, message in error.message) for error in caught.value.errors] == [(where, True)]
