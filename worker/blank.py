"""The start of nobody's attempt: what is played before a fork, so that workers share what a first time costs."""

from typing import Final

from protocol.ipc import Limits, McpAddress, Start

BLANK: Final = Start(
    instruction="i0",
    attempt="i0-0",
    epoch=0,
    agent="nobody",
    space="dm:nobody",
    backend="mock",
    model="-",
    provider=None,
    system="-",
    messages=(),
    message="-",
    entries=(),
    limits=Limits(),
    mcp=McpAddress(url="http://127.0.0.1:9/mcp"),
    token="-",
    cwd="/",
    env={},
    idempotency_key="-",
    source_text="-",
)
"""No address in it leads anywhere."""
