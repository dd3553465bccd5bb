"""GET /openapi.json: the route table in the words of OpenAPI, and schema/events.json: what the stream has."""

import re
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from kernel.api.routes import ROUTES
from kernel.operations.operation import Operation
from tests.builders.api import ServedKernel

EVENTS = msgspec.json.decode(Path("schema/events.json").read_bytes())
pytestmark = pytest.mark.promise("P58")


async def test_every_route_is_described(kernel: ServedKernel) -> None:
    document = await kernel.get("/openapi.json")
    assert document["openapi"] == "3.1.0"
    there = {(method.upper(), path): one for path, on in document["paths"].items() for method, one in on.items()}
    assert there.keys() == {(route.method, re.sub(r"<(?:path:)?(\w+)>", r"{\1}", route.path)) for route in ROUTES}
    for route in ROUTES:
        one = there[route.method, re.sub(r"<(?:path:)?(\w+)>", r"{\1}", route.path)]
        assert one["x-scope"] == route.needs
        assert str(route.status) in one["responses"]
        assert ("requestBody" in one) == (route.asks is not None)
        assert one["summary"]
        variables = {parameter["name"] for parameter in one["parameters"] if parameter["in"] == "path"}
        assert variables == set(re.findall(r"{(\w+)}", re.sub(r"<(?:path:)?(\w+)>", r"{\1}", route.path)))
    ids = [one["operationId"] for one in there.values()]
    assert len(set(ids)) == len(ids)


async def test_every_reference_of_the_description_leads_somewhere(kernel: ServedKernel) -> None:
    answer = await kernel.ask("GET", "/openapi.json")
    document = answer.json
    for place in set(re.findall(r'"#/([^"]+)"', answer.body.decode())):
        found: Any = document
        for step in place.split("/"):
            found = found[step]
        assert found
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


async def test_events_are_what_their_schema_says(kernel: ServedKernel) -> None:
    judge = jsonschema.Draft7Validator(EVENTS)
    await kernel.ask("POST", "/workflows", {"workflow": "task"})
    instruction = await kernel.attempt()
    await kernel.end(instruction)
    answer = await kernel.ask("GET", "/events?since=0&follow=0")
    events = [msgspec.json.decode(data) for data in re.findall(rb"^data: (.*)$", answer.body, re.MULTILINE)]
    assert {"message", "instruction.queued", "instruction.ended"} <= {event["type"] for event in events}
    assert [list(judge.iter_errors(event)) for event in events if not judge.is_valid(event)] == []
    assert not judge.is_valid({**events[0], "type": "no.such"})
    assert not judge.is_valid({**events[0], "seq": None})


async def test_a_wrong_body_is_told_which_fields_there_are(kernel: ServedKernel) -> None:
    answer = await kernel.ask("POST", "/workflows", {"workflow": "task", "tags": "x"})
    assert answer.refusal == (400, "bad_request")
    assert "`tags`" in answer.json["detail"]
    assert answer.json["hint"] == "it takes: tag, params, trust, agree, update, continue, workflow (needed)"


ASKING = [route for route in ROUTES if route.asks is not None]


@pytest.mark.parametrize("route", ASKING, ids=lambda route: f"{route.method} {route.path}")
async def test_every_route_tells_which_fields_there_are(kernel: ServedKernel, route: Operation) -> None:
    path = re.sub(r"<[^>]*>", "x", route.path)
    for body in ({"no_such_field": 1}, [1]):
        answer = await kernel.ask(route.method, path, body)
        assert answer.refusal == (400, "bad_request")
        assert route.asks is not None
        for field in msgspec.structs.fields(route.asks):
            assert field.encode_name in answer.json["hint"]


async def test_a_part_of_a_body_is_told_its_own_fields(kernel: ServedKernel) -> None:
    for path, body, hint in (
        (
            "/spaces/review:main/tasks",
            {"tasks": [{"title": "a"}, {"titel": "b"}]},
            "tasks[1] takes: key, title (needed), ",
        ),
        ("/spaces/review:main/tasks", {"tasks": [{"title": 7}]}, "tasks[0] takes: key, title (needed), "),
        ("/spaces/review:main/rules", {"rule": {"name": "a", "when": {"sayd": {}}, "then": []}}, "rule.when takes: "),
        ("/messages", {"messages": [{"too": "alice"}]}, "messages[0] takes: to (needed), "),
        ("/messages", {"messages": 1}, "it takes: to, text, "),
    ):
        answer = await kernel.ask("POST", path, body)
        assert answer.code == "bad_request"
        assert answer.json["hint"].startswith(hint), answer.json["hint"]
