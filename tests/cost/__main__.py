"""``python -m tests.cost``: measure, print, and record figures that are lower than before."""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.cost.measure import RECORDS, measure

with TemporaryDirectory() as folder:
    found = measure(Path(folder))
path = RECORDS / "recorded.json"
before = json.loads(path.read_text("utf-8"))
figures = {f"{name}-{key}": n for name, cost in found.items() for key, n in cost.figures.items()}
sys.stdout.writelines(f"{key:16} {before.get(key, 0):>9} {n:>9}\n" for key, n in figures.items())
lower = {key: min(n, before.get(key, n)) for key, n in figures.items()}
path.write_text(f"{json.dumps(lower, indent=2)}\n", "utf-8")
named = {name: {k: round(n) for k, n in sorted(cost.functions.items()) if n >= 2} for name, cost in found.items()}
(RECORDS / "functions.json").write_text(f"{json.dumps(named, indent=0)}\n", "utf-8")
