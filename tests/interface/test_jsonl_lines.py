"""Lines of ``--jsonl``: one style, whoever made the line."""

import json

from interface.cli.commands.send import as_line, as_result
from interface.client import ServerEvent
from protocol.instruction import Usage

WALL = 1_700_000_000.25


def _check(line: str) -> dict[str, object]:
    document: dict[str, object] = json.loads(line)
    assert {"type", "schema", "at"} <= document.keys()
    assert line == json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return document


def test_every_line_has_a_type_a_schema_and_a_time_and_no_blanks() -> None:
    event = '{"type":"message","at":"2026-11-22T04:04:19.284Z","seq":4,"data":{"text":"a: {b}, é"}}'
    assert _check(as_line(ServerEvent("message", event, "4"), WALL))["schema"] == "awk/event/1"
    accepted = _check(as_line(ServerEvent("accepted", '{"run": "w:main", "seq": 1}', ""), WALL))
    assert (accepted["run"], accepted["at"]) == ("w:main", "2023-11-14T22:13:20.250Z")
    assert _check(as_result(b'{"schema": "awk/run/1", "run": "w:main"}', WALL).decode())["type"] == "result"


def test_a_sum_of_prices_is_a_price() -> None:
    """0.08600000000000001 is noise of binary fractions, and ends up in reports and spreadsheets."""
    total = Usage(cost_usd=0.043)
    for cost in (0.042, 0.001):
        total = total.plus(Usage(cost_usd=cost))
    assert Usage(cost_usd=0.08600000000000001).cost_usd == total.cost_usd == 0.086
    assert Usage(cost_usd=1.2e-8).cost_usd == 1.2e-8
