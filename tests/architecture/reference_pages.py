"""Pages of docs/reference that repeat tables of the code: ``scripts/generate`` writes them."""

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from interface.cli.commands.help import VARIABLES
from interface.cli.exits import MEANINGS
from kernel.api.mcp.tools import MANAGEMENT, TOOLS, PeopleTool, TeamTool
from kernel.api.routes import ROUTES, openapi_document
from kernel.operations.context import KernelNumbers
from kernel.operations.exposition import PREFIX, Scrape, expose_text
from kernel.operations.operation import Operation
from kernel.policy.circuit_breaker import Breaker
from kernel.policy.metrics import COUNTED, CounterKey, Durations
from kernel.services.telemetry import EventCounters
from kernel.store.metrics import Gauges, KeptCounters, ModelSpending
from protocol.agent import NAMED_ONLY
from protocol.instruction import Usage
from protocol.message import DURABLE, LIVE, Event
from protocol.standby import StandbyState
from protocol.tools import ToolScope
from tests.architecture.sources import ROOT

_WRITTEN: Final = "*This page is written by `scripts/generate`.*\n"
_REST: Final = f"""\
# REST

Conventions of all routes, and the routes `/call`, `/mcp` and `/ws`: [HTTP API](http.md).
`GET /openapi.json` describes each route with the full schemas. Names with `?` are optional.
Every POST takes an [Idempotency-Key](http.md#requests-and-answers).

{_WRITTEN}"""
_TOOLS: Final = f"""\
# MCP tools

Scopes, answers and notifications: [MCP](mcp.md). Arguments with `?` are optional.

{_WRITTEN}
## Scopes

"""
_EVENTS: Final = f"""\
# Events

`GET /events`, `GET /ws`, `awk events` and webhooks deliver events.
[schema/events.json](../../schema/events.json) is the JSON Schema of an event.

```sh
awk init --example hello && awk send alice hi --wait
awk events
```

{_WRITTEN}
## Fields of an event

"""
_DURABLE: Final = """
## Durable events

Durable events have a `seq`, are stored, and can be read again.
"""
_LIVE: Final = """
## Live events

Live events have no `seq` and are not stored.
"""
_METRICS: Final = f"""\
# Metrics

Metrics of `GET /metrics`: [Monitor with Prometheus](../how-to/operate/monitor.md). On Linux, the
metrics `process_*` of the Prometheus client library follow. Metrics of the standby exist only if
one is configured.

{_WRITTEN}"""
_ENVIRONMENT: Final = f"""\
# Environment variables

`awk help environment` prints this table. `awk providers` lists the variables of provider keys.

{_WRITTEN}
"""
_EXITS: Final = f"""\
# Exit codes

`run`, `send --wait`, `ask` and `serve` exit with the worst of their results.
`awk help exit-codes` prints this table.

{_WRITTEN}
"""
_TAGS: Final = {"routes": "system", "messaging": "messages", "trees": "working trees", "history": "agents' history"}
"""Headings of modules whose names say too little outside the code."""
_WORDS: Final = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}

_BAR: Final = "\\|"
_LONGEST_ROW: Final = 280

Schema = Mapping[str, Any]


def rest_page() -> str:
    document = msgspec.to_builtins(openapi_document())
    schemas = document["components"]["schemas"]
    tags: dict[str, list[str]] = {}
    for route in ROUTES:
        operation = document["paths"][re.sub(r"<(?:path:)?(\w+)>", r"{\1}", route.path)][route.method.lower()]
        tag = str(operation["tags"][0])
        tags.setdefault(_TAGS.get(tag, tag.replace("_", " ")), []).extend(_route(route, operation, schemas))
    sections = (f"\n## {tag[0].upper()}{tag[1:]}\n{''.join(lines)}" for tag, lines in tags.items())
    return _REST + "".join(sections)


def _route(route: Operation, operation: Schema, schemas: Mapping[str, Schema]) -> Iterator[str]:
    path = re.sub(r"<(\w+)>", r":\1", route.path.replace("<path:path>", "*path"))
    yield f"\n### {route.method} {path}\n\n{_wrapped(_prose(route.description))}\n\n"
    proof = (
        "none; the body is signed"
        if route.signed
        else "none; the body has a key"
        if route.keyed
        else "none; no token is needed"
    )
    yield _item("Scope", proof if route.tokenless else f"`{route.needs}`")
    answers = {status: answer for status, answer in operation["responses"].items() if status != "default"}
    kinds = next(iter(answers.values()))["content"]
    if "application/json" in kinds:
        shapes = kinds["application/json"]["schema"]
        yield _item(f"Answer {' or '.join(answers)}", ", or ".join(_fields(one, schemas) for one in _choices(shapes)))
    else:
        yield _item(f"Answer {' or '.join(answers)}", " or ".join(f"`{kind}`" for kind in kinds))
    given = [one for one in operation["parameters"] if one["name"] != "Idempotency-Key"]
    rows = [
        (_name(one["name"], needed=one["in"] == "path"), one["in"], _type(one["schema"], schemas), one["description"])
        for one in given
    ]
    if body := operation.get("requestBody"):
        schema = _resolved(body["content"]["application/json"]["schema"], schemas)
        rows += [(name, "body", kind, text) for name, kind, text in _members(schema, schemas)]
    yield from _table(("parameter", "in", "type", "meaning"), rows)


def tools_page() -> str:
    scopes: dict[ToolScope, list[str]] = {}
    for tool in TOOLS.values():
        scopes.setdefault(tool.scope, []).append(tool.name)
    rows = [(_scope(scope), ", ".join(names)) for scope, names in scopes.items()]
    table = "".join(_table(("scope", "tools"), rows)).lstrip("\n")
    team = "".join(line for tool in TOOLS.values() for line in _tool(tool, f"`{tool.scope}`"))
    management = "".join(line for tool in MANAGEMENT.values() for line in _tool(tool, f"`{tool.row.needs}`"))
    return f"{_TOOLS}{table}\n## Tools for agents\n{team}\n## Management tools\n{management}"


def _scope(scope: ToolScope) -> str:
    common = {"all": "(all agents)", "tree": "(agents with a working tree)"}
    return common.get(scope) or (f"`{scope}`, only if named" if scope in NAMED_ONLY else f"`{scope}`")


def _tool(tool: TeamTool | PeopleTool, scope: str) -> Iterator[str]:
    described = tool.described
    yield f"\n### {tool.name}\n\n{_wrapped(_prose(described['description']))}\n\n"
    yield _item("Scope", scope)
    output = described.get("outputSchema")
    yield _item("Returns", "text" if output is None else _fields(output, output.get("$defs", {})))
    given = described["inputSchema"]
    yield from _table(("argument", "type", "meaning"), list(_members(given, given.get("$defs", {}))))


def events_page() -> str:
    schema = msgspec.json.schema_components([Event])[1]["Event"]
    fields = _prose((inspect.getdoc(Event) or "").partition("\n\n")[0])
    names = ", ".join(f"`{name}`" for name in schema["properties"])
    parts = [_EVENTS, _wrapped(f"{names}. {fields}"), "\n", _DURABLE, *_events(DURABLE), _LIVE, *_events(LIVE)]
    return "".join(parts)


def _events(events: Mapping[str, str]) -> Iterator[str]:
    for name, text in events.items():
        meaning, _, data = text.partition("; data: ")
        yield f"\n### {name}\n\n{_wrapped(_prose(meaning.rstrip('.')) + '.')}\n"
        if data:
            yield "\n" + _item("Data", _prose(data.rstrip(".")))


def metrics_page() -> str:
    text = expose_text(_scrape(), "text/plain")[0].decode()
    rows: dict[str, tuple[str, ...]] = {}
    for family in text_string_to_metric_families(text):
        if not family.name.startswith(PREFIX) or family.name.endswith("_created"):
            continue
        labels = dict.fromkeys(label for sample in family.samples for label in sample.labels if label != "le")
        suffix = "_total" if family.type == "counter" else ""
        shown = ", ".join(f"`{label}`" for label in labels)
        rows[family.name] = (f"`{family.name}{suffix}`", family.type, shown, family.documentation)
    return _METRICS + "".join(_table(("metric", "type", "labels", "meaning"), rows.values()))


def _scrape() -> Scrape:
    """Return a scrape with a sample of every metric."""
    counted = {CounterKey(one.name, tuple("x" for _ in one.labels)): 1.0 for one in COUNTED.values()}
    return Scrape(
        at=1.0,
        counted=KeptCounters(1, 1, counted),
        now=Gauges(
            queued={"normal": (1, 1)}, working=1, waiting={"approval": 1}, attempts=1, agents={"idle": (1, 1)},
            approvals=1, runs=1, landings=1, breakers=(Breaker("anthropic", "provider"),), webhook_retries=1,
            webhooks_ended=1, traces_behind=1, traces_failing_ms=1, traces_dropped=1, oldest_event=1, newest_event=1,
            oldest_ms=1, database_bytes=1, free_bytes=1, spent=(ModelSpending("sdk", "model", Usage(cost_usd=1.0)),),
        ),
        numbers=KernelNumbers(
            counters=EventCounters(cast("Any", None)),
            commits=Durations(), turns=Durations(), retention_seconds=lambda: 1.0, free_bytes=lambda: 1,
        ),
        version="1", uptime_seconds=1, ready=True, safe_mode=False, workers_running=1, workers_kept=1, needs=1,
        streams=1, standby=StandbyState(to="x", state="following", lag_seconds=1, event=1),
    )  # fmt: skip


def environment_page() -> str:
    rows = [(f"`{name}`", _prose(text)) for name, text in VARIABLES.items()]
    return _ENVIRONMENT + "".join(_table(("variable", "meaning"), rows)).lstrip("\n")


def exits_page() -> str:
    rows = [(str(int(code)), _prose(text)) for code, text in MEANINGS.items()]
    return _EXITS + "".join(_table(("exit code", "meaning"), rows)).lstrip("\n")


def _resolved(schema: Schema, schemas: Mapping[str, Schema]) -> Schema:
    for inner in schema.get("allOf", ()):
        schema = {**schema, **inner}
    return schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def _choices(schema: Schema) -> list[Schema]:
    return [one for one in schema.get("anyOf", [schema]) if one.get("type") != "null"]


def _type(schema: Schema, schemas: Mapping[str, Schema]) -> str:  # noqa: PLR0911  (one for each type)
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(one, schemas) for one in _choices(schema)))
    schema = _resolved(schema, schemas)
    if words := schema.get("enum") or ([schema["const"]] if "const" in schema else None):
        return ", ".join(f"`{word}`" for word in words)
    match schema.get("type"):
        case "array":
            return f"list of {_type(schema['items'], schemas)}".replace("list of object", "list of objects")
        case "object" if "properties" in schema:
            return f"object {{{', '.join(name for name, _, _ in _members(schema, {}))}}}"
        case "object":
            return f"name -> {_type(schema['additionalProperties'], schemas)}" if _is_typed(schema) else "object"
        case str() as word:
            return _WORDS[word] + _bounds(schema)
        case _:
            return "anything"


def _is_typed(schema: Schema) -> bool:
    return isinstance(schema.get("additionalProperties"), Mapping)


def _bounds(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if high is not None and high < 2**53:
        return f", {low or 0} to {high}"
    return f", at most {schema['maxLength']} characters" if "maxLength" in schema else ""


def _members(schema: Schema, schemas: Mapping[str, Schema]) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and meaning of each property; without ``schemas`` the name only."""
    for name, one in schema["properties"].items():
        text = next((part["description"] for part in (one, *_choices(one)) if "description" in part), "")
        kind = _type(one, schemas) if schemas or "$ref" not in str(one) else ""
        default = one.get("default")
        if kind and isinstance(default, str | int | float) and default not in ("", False):
            kind += f" (default: {default})"
        yield _name(name, needed=name in schema.get("required", ())), kind, text


def _name(name: str, *, needed: bool) -> str:
    return f"`{name}`" if needed else f"`{name}?`"


def _fields(schema: Schema, schemas: Mapping[str, Schema]) -> str:
    schema = _resolved(schema, schemas)
    names = [f"`{name}`" for name in schema.get("properties", {}) if name != "schema"]
    return ", ".join(names) or "an empty object"


def _table(heads: Iterable[str], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    heads, rows = list(heads), list(rows)
    long = [cells for cells in rows if len("".join(cells)) > _LONGEST_ROW]
    if rows:
        yield "\n"
    for cells in (heads, ["---"] * len(heads), *rows) if rows else ():
        shown = (*cells[:-2], "object", "below") if cells in long else cells
        yield f"| {' | '.join(_prose(cell).replace('|', _BAR) for cell in shown)} |\n"
    for name, *_, kind, meaning in long:
        yield f"\n{_wrapped(f'{name} is a {kind}. {_prose(meaning)}')}\n"


def _prose(text: str) -> str:
    """Return text of the code as Markdown."""
    return " ".join(text.replace("``", "`").partition("Raises Refused")[0].split())


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _item(name: str, text: str) -> str:
    return _wrapped(f"- {name}: {text}", "  ") + "\n"


PAGES: Final[Mapping[str, Callable[[], str]]] = MappingProxyType(
    {
        "rest": rest_page,
        "mcp-tools": tools_page,
        "events": events_page,
        "metrics": metrics_page,
        "environment": environment_page,
        "exit-codes": exits_page,
    }
)

if __name__ == "__main__":
    for page, write in PAGES.items():
        (ROOT / f"docs/reference/{page}.md").write_text(write(), "utf-8")
