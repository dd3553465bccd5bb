"""Instructions that are taken many at once: each part of a selection leaves fewer, and none is taken twice or lost."""

import random

import pytest

from kernel.store.transitions.bulk import Choosable, Selection, choose
from protocol.instruction import LIVE, STATUSES
from protocol.names import instruction_id

SPACES = ("review:main", "review:pr-1", "review:main~design", "dm:alice")
AGENTS = (("alice", "alice"), ("alice", "coder"), ("coder@review:main", "coder"), ("bob", "bob"))


@pytest.mark.promise("P70")
def test_what_is_taken_is_what_every_part_of_the_selection_means() -> None:
    """Against a model of one line for each part, three thousand times; what is meant is taken or left, never both."""
    chance = random.Random(17)
    for _ in range(3000):
        rows = [
            Choosable(instruction_id(number), *chance.choice(AGENTS), chance.choice(SPACES), chance.choice(STATUSES))
            for number in range(1, chance.randrange(1, 12))
        ]
        spaces = chance.choice((None, frozenset(chance.sample(SPACES, chance.randrange(3)))))
        agent = chance.choice((None, "alice", "coder", "coder@review:main", "nobody"))
        queued = chance.random() < 0.5
        here = {row.id for row in rows if spaces is None or row.space in spaces}
        key = {row.id for row in rows if agent in (None, row.agent)}
        name = {row.id for row in rows if agent in (None, row.name)}
        meant = here & (key if spaces is None else name)
        runs = {row.id for row in rows if row.status in LIVE}
        choice = choose(rows, Selection(agent=agent, spaces=spaces, queued=queued))
        taken = [row.id for row in choice.taken]
        assert set(taken) == (meant - runs if queued else meant)
        assert choice.left == (len(meant & runs) if queued else 0)
        assert taken == [row.id for row in rows if row.id in taken], "in the order they came, each once"
