"""Money and loops end, with real workers: what a run may cost, and agents that never stop mentioning each other."""

from typing import Any

import pytest

from tests.project import Project

STEP = "      - usage: {input_tokens: 800, output_tokens: 200, cost_usd: 0.01}\n"
PONG = """\
agents:
  ann: { backend: mock, mock: [{ text: "@bob @ann your turn" }] }
  bob: { backend: mock, mock: [{ text: "@ann @bob your turn" }] }
limits: { hops: 4 }
kickoff: "@ann begin"
"""


def spenders(kickoff: str = "@ann @bob @cid @dan go") -> str:
    """Four agents that each spend ten times 1,000 tokens and a cent."""
    agents = "".join(f"  {name}:\n    backend: mock\n    mock:\n{STEP * 10}" for name in ("ann", "bob", "cid", "dan"))
    return f'agents:\n{agents}kickoff: "{kickoff}"\n'


def total(report: dict[str, Any]) -> int:
    return int(report["usage"]["input_tokens"]) + int(report["usage"]["output_tokens"])


@pytest.mark.promise("TF12", "TF13")
def test_money_and_loops_end_whatever_the_agents_do(project: Project) -> None:
    """--max-tokens, --max-cost: four in parallel, within one call of each; exit 6."""
    project.write(".workflows/pong.yaml", PONG)
    project.write(".workflows/four.yaml", spenders())
    report = project.awk("run", "four", "--max-tokens", "10500", "--json")
    assert report.code == 6, report.err
    assert 10_500 <= total(report.json()) <= 14_500
    counts = report.json()["instructions"]
    assert counts["incomplete"] + counts["done"] == 4
    assert counts["incomplete"] > 0
    costly = project.awk("run", "four", "--max-cost", "0.105", "--json")
    assert costly.code == 6, costly.err
    assert 0.105 <= costly.json()["usage"]["cost_usd"] < 0.1451
    free = project.awk("run", "four", "--json")
    assert (free.code, total(free.json())) == (0, 40_000)
    ran = project.awk("run", "pong", "--json")
    assert (ran.code, ran.json()["instructions"]["done"], ran.json()["instructions"]["incomplete"]) == (6, 5, 1)
