"""The table of routes is whole: every row has what server, clients and docs need of it."""

import inspect
import re
from typing import Final

import apsw
import msgspec
import pytest

from kernel.api.dispatch import parameters_of
from kernel.api.mcp.fast_path import NAME
from kernel.api.mcp.tools import TOOLS, TeamTool, schema_of
from kernel.api.routes import ROUTES
from kernel.operations.context import Services
from kernel.operations.operation import Actor, Operation
from kernel.operations.table import OPERATIONS
from kernel.store.transaction import Transaction
from protocol.tools import CONTEXT_TOOLS, DEPRECATED_TOOLS
from tests.builders.api import ServedKernel
from tests.kernel.api.mcp.rpc import call


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_has_types(route: Operation) -> None:
    assert route.description
    for struct in (route.asks, route.answers):
        assert struct is None or msgspec.json.schema(struct)
    assert route.asks is None or route.method in ("POST", "PUT", "PATCH")


@pytest.mark.parametrize("row", OPERATIONS, ids=lambda row: f"{row.handler.__module__}.{row.handler.__name__}")
def test_every_operation_takes_what_there_is(row: Operation) -> None:
    records = {record.name: record.type for record in msgspec.structs.fields(Services)}
    known = {**records, "asked": row.request, "actor": Actor, "now_ms": int}
    first = {"tx": Transaction, "conn": apsw.Connection}
    parameters = inspect.signature(row.handler).parameters
    taken = {name: one.annotation for name, one in parameters.items() if name not in first}
    assert taken == {name: known[name] for name in row.takes}
    assert all(parameters[name].annotation is first[name] for name in first if name in parameters)
    assert (row.kind in ("change", "query")) == (next(iter(parameters), "") in first)


def test_no_record_of_the_context_is_a_bag() -> None:
    for record in msgspec.structs.fields(Services):
        parts = msgspec.structs.fields(record.type)
        assert len(parts) <= 8
        assert all(one.default is msgspec.NODEFAULT for one in parts)


PAGES = ["/page", "/page/<name>", "/page/vendor/<name>"]


@pytest.mark.promise("P17")
def test_only_health_and_the_bytes_of_the_page_are_open() -> None:
    """A token on every other route, reads and MCP included."""
    assert [route.path for route in ROUTES if route.open] == ["/health", *PAGES]
    assert [route.path for route in ROUTES if route.file] == PAGES
    assert [route.path for route in ROUTES if route.keyed] == ["/page/token"], "a key that was used is refused"
    assert [route.path for route in ROUTES if route.signed] == ["/hooks/<name>"], "who cannot sign is refused"


@pytest.mark.promise("XF19")
def test_what_changes_something_is_for_people() -> None:
    others = {f"{route.method} {route.path}" for route in ROUTES if route.method != "GET" and not route.people_only}
    assert others == {"POST /run", "POST /serve", "POST /messages", "POST /feedback", "POST /hooks/<name>"}, (
        "the first three are where they vouch; hooks are of strangers"
    )


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_every_tool_has_a_schema_without_dangling_references(tool: TeamTool) -> None:
    """contracts 5: JSON schema in, structured content out."""
    assert tool.described["description"]
    for struct in (tool.asks, tool.gives):
        schema = schema_of(struct)
        assert schema["type"] == "object"
        named = set(re.findall(r"#/\$defs/(\w+)", msgspec.json.encode(schema).decode()))
        assert named == set(schema.get("$defs", {}))
    assert schema_of(tool.asks)["additionalProperties"] is False
    assert NAME not in tool.name


def test_each_tool_with_a_scope_is_an_operation() -> None:
    assert set(TOOLS) | set(DEPRECATED_TOOLS) == CONTEXT_TOOLS


PUT_BEFORE: Final = {
    "/proposals/<id>": ("proposals", {"type": "approval", "title": "Ship it?"}, "id"),
    "/resources/<id>": ("resources", {"content": "x"}, "id"),
    "/grants/<id>": ("grants", {"scope": "auth", "to": "bob"}, "id"),
}


async def something_for(kernel: ServedKernel, route: Operation) -> dict[str, str]:
    """Make what ``route`` shows; the variables of its path."""
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    sent = (await kernel.ask("POST", "/messages", {"to": "alice", "text": "hi"})).json
    known = {"name": "alice", "id": sent["message_id"], "space": "review:main", "run": "review:main", "tag": "main"}
    if route.path.startswith("/workflows"):
        known["name"] = "review"
    if route.path.startswith("/page"):
        known["name"] = "preact.js" if "vendor" in route.path else "main.js"
    if route.path.startswith("/instructions"):
        known["id"] = sent["instruction_ids"][0]
    for ending, (where, put, given) in PUT_BEFORE.items():
        if route.path.endswith(ending):
            known["id"] = (await kernel.ask("POST", f"/spaces/review:main/{where}", put)).json[given]
    if route.path.startswith("/approvals"):
        await kernel.attempt()
        asked = await call(kernel, "auth_request", {"tool": "bash", "input": {}, "wait_seconds": 0})
        known["id"] = asked["structuredContent"]["id"]
    if route.path.endswith("/rules/<name>"):
        rule = {"rule": {"name": known["name"], "then": [{"say": "hi"}]}}
        await kernel.ask("POST", "/spaces/review:main/rules", rule)
    if "/tasks/<id>" in route.path:
        put_tasks = {"tasks": [{"title": "Ship it"}]}
        (known["id"],) = (await kernel.ask("POST", "/spaces/review:main/tasks", put_tasks)).json["tasks"]
    if "document" in route.path:
        known["path"] = "plans/a.md"
        await kernel.ask("PUT", "/spaces/review:main/documents/plans/a.md", {"content": "x"})
    if route.path.endswith("/suggestions/<id>"):
        await kernel.attempt("alice@review")
        await call(kernel, "team_doc_suggest", {"suggestion": "x"})
        known["id"] = "s1"
    if route.path.endswith("/merge"):
        await kernel.plan_trees()
        await kernel.ask("POST", "/runs/r1/merge", {"into": "main"})
    return known


@pytest.mark.parametrize("route", [route for route in ROUTES if route.method == "GET"], ids=lambda route: route.path)
async def test_every_get_route_answers_what_it_says(kernel: ServedKernel, route: Operation) -> None:
    known = await something_for(kernel, route)
    path = re.sub(r"<(?:path:)?(\w+)>", lambda match: known[match[1]], route.path)
    given = {"follow": "0", "since": "0"} if route.path == "/events" else {"space": "dm:alice", "query": "hi"}
    query = "&".join(f"{name}={given[name]}" for name in given if name in parameters_of(route))
    answer = await kernel.ask("GET", f"{path}?{query}")
    assert answer.status == 200
    if route.file:
        assert answer.headers["content-security-policy"]
    elif route.path == "/metrics":
        assert answer.headers["content-type"].startswith("text/plain; version=")
    elif route.answers is None:
        stream = "application/x-ndjson" if route.path.endswith("/export") else "text/event-stream"
        assert answer.headers["content-type"].startswith(stream)
    else:
        msgspec.json.decode(answer.body, type=route.answers)
        assert answer.headers["content-type"] == "application/json"
