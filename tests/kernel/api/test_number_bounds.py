"""Every number that a tool or a route takes has bounds, and what lies beyond them is refused by its name."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from kernel.api.mcp.tools import TOOLS, TeamTool
from kernel.api.routes import ROUTES
from kernel.operations.operation import Operation
from protocol.agent import NAMED_ONLY
from tests.builders.api import ServedKernel
from tests.kernel.api.mcp.rpc import call, call_of, post
from tests.protocol.test_numbers import numbers

pytestmark = pytest.mark.promise("P10")

BEYOND = (
    2**63,
    -1,
    10**400,
    *(pytest.param(number, marks=pytest.mark.long("[the others]")) for number in (-(2**63), 2**53 + 1)),
)
QUERIES = ("limit", "since", "before", "after", "offset", "n")
GIVEN: dict[str, dict[str, Any]] = {
    "auth_request": {"tool": "bash", "input": {}},
    "resource_read": {"id": "x"},
    "team_proposal_create": {"type": "approval", "title": "x"},
    "POST /spaces/<space>/proposals": {"type": "approval", "title": "x"},
    "POST /agents/<name>/soul/rollback": {},
    "POST /run": {"workflow": "review"},
    "POST /serve": {"workflow": "review"},
    "POST /shutdown": {},
    "POST /agents/<name>/thread/trial": {"words": 0.5, "vectors": 0.5},
    "POST /spaces/<space>/rules": {},
    "POST /nodes": {"name": "gpu1", "node": {"via": "command"}},
    "POST /spaces/<space>/grants": {},
    "POST /runs/<run>/rules/test": {},
}
"""What else each of them needs."""


def of(struct: type[msgspec.Struct] | None) -> list[tuple[str, inspect.IntType | inspect.FloatType]]:
    return [] if struct is None else list(numbers(inspect.type_info(struct), ""))


def filled(given: dict[str, Any], where: str, value: int) -> dict[str, Any]:
    """``given`` with ``value`` at the place that is written ``.resolution.quorum`` or ``.then[].vote.quorum``."""
    first, *rest = where.strip(".").split(".")
    if first.endswith("[]"):
        return given | {first[:-2]: [filled({}, ".".join(rest), value)]}
    return given | {first: filled(given.get(first, {}), ".".join(rest), value) if rest else value}


def tool_numbers() -> Iterator[tuple[TeamTool, str]]:
    for tool in TOOLS.values():
        yield from ((tool, where) for where, _ in of(tool.asks))


def route_numbers() -> Iterator[tuple[Operation, str]]:
    for route in ROUTES:
        yield from ((route, where) for where, _ in of(route.asks))


ASKED = [*(tool.asks for tool in TOOLS.values()), *(route.asks for route in ROUTES if route.asks is not None)]


@pytest.mark.parametrize("asks", ASKED)
def test_every_number_has_bounds(asks: type[msgspec.Struct]) -> None:
    unbound = [where for where, kind in of(asks) if kind.le is None or (kind.ge is None and kind.gt is None)]
    assert unbound == []


def test_there_are_numbers_to_look_at() -> None:
    assert len(list(tool_numbers())) >= 5
    assert len(list(route_numbers())) >= 6


@pytest.mark.parametrize("value", BEYOND)
async def test_no_tool_takes_a_number_beyond_its_bounds(kernel: ServedKernel, value: int) -> None:
    for scope in NAMED_ONLY:
        await kernel.ask("POST", "/spaces/dm:alice/grants", {"scope": scope, "to": "alice"})
    await kernel.attempt()
    for tool, where in tool_numbers():
        arguments = filled(GIVEN.get(tool.name, {}), where, value)
        answer = await post(kernel, call_of(tool.name, arguments))
        if abs(value) > 2**64:  # the reader of JSON itself may refuse it
            assert answer.status in (200, 400)
            assert b'"isError":false' not in answer.body
            continue
        content = answer.json["result"]["structuredContent"]
        assert (content["code"], where.rpartition(".")[2] in content["detail"]) == ("bad_request", True), content


@pytest.mark.parametrize("value", BEYOND)
async def test_no_route_takes_a_number_beyond_its_bounds(kernel: ServedKernel, value: int) -> None:
    """400, before anything begins."""
    for route, where in route_numbers():
        path = re.sub(r"<\w+>", "review:main", route.path)
        body = filled(GIVEN[f"{route.method} {route.path}"], where, value)
        answer = await kernel.ask(route.method, path, body)
        assert answer.refusal == (400, "bad_request"), (path, body, answer.body)
    for route in ROUTES:
        if route.method != "GET" or route.path == "/events":
            continue
        path = re.sub(r"<(\w+)>", "alice", route.path)
        for name in QUERIES:
            answer = await kernel.ask("GET", f"{path}?{name}={value}&follow=0")
            assert answer.status < 500, (path, name, answer.body)
    answer = await kernel.ask("GET", f"/events?since={value}&follow=0")
    assert answer.status == 400


async def test_an_argument_that_is_given_twice_is_refused(kernel: ServedKernel) -> None:
    await kernel.attempt()
    arguments = msgspec.Raw(b'{"message":"one","message":"two"}')
    answer = await post(kernel, call_of("channel_send", arguments))
    content = answer.json["result"]["structuredContent"]
    assert (answer.json["result"]["isError"], content["code"]) == (True, "bad_request")
    assert "'message' occurs twice" in content["detail"]
    listed = msgspec.Raw(b'{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}')
    assert (await post(kernel, listed)).status == 400
    assert (await call(kernel, "channel_send", {"message": "once"}))["isError"] is False
