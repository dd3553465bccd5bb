"""The OpenAPI description of the REST API, made of the table of routes: what it says is what is served.

Query parameters are read off the first lines of handlers, which name them (``GET /runs?limit=&before=``); a test has
each of those named there answered.
"""

import re
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

import msgspec

from kernel.api.http.route import Route
from protocol.api.document import Problem
from protocol.api.kernel import OpenApi
from protocol.version import VERSION

PROBLEM: Final = {"$ref": "#/components/responses/Problem"}
_VARIABLE: Final = re.compile(r"<(?:path:)?(\w+)>")
_SCOPES: Final = "The scope of the token that an operation needs is its x-scope: read, operate, approve or admin."


@cache
def describe(routes: tuple[Route, ...]) -> OpenApi:
    """The description of ``routes``, OpenAPI 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    structs: dict[type[msgspec.Struct], None] = {Problem: None}
    for route in routes:
        structs.update(dict.fromkeys(one for one in (route.asks, route.answers, *route.also) if one is not None))
    schemas, components = msgspec.json.schema_components(tuple(structs), ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(structs, schemas, strict=True))
    for route in routes:
        operation = _operation(route, schema_of)
        paths.setdefault(_VARIABLE.sub(r"{\1}", route.path), {})[route.method.lower()] = operation
    return OpenApi(
        openapi="3.1.0",
        info={"title": "agent-worker", "version": VERSION, "description": _SCOPES},
        paths=paths,
        components={
            "schemas": components,
            "responses": {
                "Problem": {
                    "description": "Refused: RFC 9457, with a stable code.",
                    "content": {"application/problem+json": {"schema": schema_of[Problem]}},
                }
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        security=({"token": ()},),
    )


def _operation(route: Route, schema_of: dict[type[msgspec.Struct], dict[str, Any]]) -> dict[str, Any]:
    text = " ".join((route.handler.__doc__ or "").split())
    module = route.handler.__module__.rpartition(".")[2]
    path = "_".join(re.findall(r"\w+", route.path.replace("<path:", "")))
    found: dict[str, Any] = {
        "operationId": f"{route.method.lower()}_{path}".replace(".", "_"),
        "summary": text.partition(": ")[2].partition(". ")[0] or text,
        "tags": [module],
        "x-scope": route.needs,
        "parameters": list(_parameters(route, text)),
        "responses": {**_responses(route, schema_of), "default": PROBLEM},
    }
    if route.open:
        found["security"] = ()
    if route.asks is not None:
        content = {"application/json": {"schema": schema_of[route.asks]}}
        found["requestBody"] = {"required": not route.body_optional, "content": content}
    return found


def _parameters(route: Route, text: str) -> Iterable[dict[str, Any]]:
    for name in _VARIABLE.findall(route.path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    for name in dict.fromkeys(re.findall(r"[?&](\w+)=", text)):
        number = {"type": "integer", "minimum": 1}
        yield {"name": name, "in": "query", "schema": number if name == "limit" else {"type": "string"}}
    headers = {
        "Idempotency-Key": route.method == "POST",
        "If-Match": "documents/<path" in route.path and route.method != "GET",
        "If-None-Match": "documents/<path" in route.path and route.method == "PUT",
        "Last-Event-ID": route.path == "/events",
    }
    for name in (name for name, given in headers.items() if given):
        yield {"name": name, "in": "header", "schema": {"type": "string"}}


def _responses(route: Route, schema_of: dict[type[msgspec.Struct], dict[str, Any]]) -> dict[str, Any]:
    if route.path == "/metrics":
        kinds = ("text/plain", "application/openmetrics-text")
        return {"200": {"description": "Metrics.", "content": {kind: {"schema": {"type": "string"}} for kind in kinds}}}
    if route.file:
        return {"200": {"description": "A file.", "content": {"*/*": {"schema": {"type": "string"}}}}}
    if route.answers is None:
        kind = "application/x-ndjson" if route.path.endswith("/export") else "text/event-stream"
        return {"200": {"description": "A stream.", "content": {kind: {"schema": {"type": "string"}}}}}
    shapes = [schema_of[one] for one in (route.answers, *route.also)]
    schema = shapes[0] if len(shapes) == 1 else {"anyOf": shapes}
    answer = {
        "description": (route.answers.__doc__ or "").partition("\n")[0],
        "content": {"application/json": {"schema": schema}},
    }
    return {str(status): answer for status in sorted({route.status, *route.statuses})}
