"""``python -m tests.cost``: measure, print, and record figures that are lower than before."""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.cost.measure import RECORDS, measure

with TemporaryDirectory() as folder:
    found = measure(Path(folder))
path = RECORDS / "recorded.json"
before = json.loads(path.read_text("utf-8")) if path.exists() else {}
figures = {f"{name}-{key}": n for name, cost in found.items() for key, n in cost.figures.items()}
for key, n in figures.items():
    sys.stdout.write(f"{key:16} {before.get(key, 0):>9} {n:>9}\n")
lower = {key: min(n, before.get(key, n)) for key, n in figures.items()}
path.write_text(f"{json.dumps(lower, indent=2)}\n", "utf-8")
lines = (
    f"{json.dumps(name)}: {json.dumps({k: round(n) for k, n in sorted(cost.functions.items()) if n >= 2})}"
    for name, cost in found.items()
)
(RECORDS / "functions.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
