"""/nodes: what is asked for is checked before anything of it is kept."""

from typing import Any

import pytest

from tests.builders.api import ServedKernel


@pytest.mark.parametrize(
    "asked",
    [
        {"name": "G1", "node": {"via": "join"}},
        {"name": "g1", "node": {"via": "ftp"}},
        {"name": "g1", "node": {"via": "ssh"}},
        {"name": "g1", "node": {"via": "ssh", "host": "-oProxyCommand=x"}},
        {"name": "g1", "node": {"via": "ssh", "host": "h", "args": ["a\nb"]}},
        {"name": "g1", "node": {"via": "ssh", "host": "h", "nonsense": 1}},
        {"name": "g1", "node": {"via": "join"}, "host": "x" * 300},
    ],
)
async def test_what_is_wrong_is_refused_and_nothing_is_kept(kernel: ServedKernel, asked: dict[str, Any]) -> None:
    refused = await kernel.ask("POST", "/nodes", asked)
    assert refused.status == 400
    assert (await kernel.get("/nodes"))["nodes"] == []
