"""A message costs the kernel no more than recorded. ``python -m tests.cost`` records lower figures."""

import json
from pathlib import Path

from tests.cost.measure import LOADS, RECORDS, Cost, measure, risen


def test_a_message_costs_no_more_than_recorded(tmp_path: Path) -> None:
    figures, functions = (
        json.loads((RECORDS / name).read_text("utf-8")) for name in ("recorded.json", "functions.json")
    )
    found = measure(tmp_path)
    grown = [line for name in LOADS for line in risen(name, found[name], figures, functions[name])]
    assert not grown, "\n".join(grown)


def test_a_risen_cost_names_the_functions_that_grew() -> None:
    now = Cost({"calls": 110.0, "stats": 4.0}, {"a.py f": 30.0, "a.py g": 80.0})
    recorded = {"empty-calls": 100.0, "empty-stats": 4.0}
    said = ["empty-calls is 110.0, recorded: 100.0", "a.py f +10.0"]
    assert risen("empty", now, recorded, {"a.py f": 20.0, "a.py g": 80.0}) == said
    assert risen("empty", now, {**recorded, "empty-calls": 109.0}, {}) == []
