"""Routes of the REST API (contracts 4), the lookup of a request's route, and OpenAPI."""

import re
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

import msgspec

from kernel.api.dispatch import fields_of, parameters_of
from kernel.operations.operation import Operation, operation
from kernel.operations.table import OPERATIONS
from protocol.api.document import Problem
from protocol.api.kernel import OpenApi
from protocol.discovery import VERSION

PROBLEM: Final = {"$ref": "#/components/responses/Problem"}
_VARIABLE: Final = re.compile(r"([\w-]*)/<(?:path:)?(\w+)>")
_VARIABLES: Final = {
    "space": "Space, such as review:main or dm:alice.",
    "run": "Id of the run, such as r12, or review:main for the newest of a workflow and tag.",
    "tag": "Tag of the workflow.",
    "path": "Path of the document, or key of the memory entry.",
    "n": "Number of the item, from 1.",
}
_HEADERS: Final = {
    "Idempotency-Key": "Text of at most 200 ASCII characters; a repeat with the same key gets the same answer.",
    "If-Match": "Version that the change is based on.",
    "If-None-Match": "`*`: create only. For a file: the ETag of the client's copy.",
    "Last-Event-ID": "Id of the last received event.",
}
_SCOPES: Final = "The x-scope of an operation is the token scope that it requires: read, operate, approve or admin."


@cache
def describe(routes: tuple[Operation, ...]) -> OpenApi:
    """Return the OpenAPI 3.1 description of ``routes``."""
    paths: dict[str, dict[str, Any]] = {}
    structs: dict[type[msgspec.Struct], None] = {Problem: None}
    for route in routes:
        structs.update(dict.fromkeys(one for one in (route.asks, route.answers, *route.also) if one is not None))
    schemas, components = msgspec.json.schema_components(tuple(structs), ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(structs, schemas, strict=True))
    for route in routes:
        operation = _operation(route, schema_of)
        paths.setdefault(re.sub(r"<(?:path:)?(\w+)>", r"{\1}", route.path), {})[route.method.lower()] = operation
    return OpenApi(
        openapi="3.1.0",
        info={"title": "agent-worker", "version": VERSION, "description": _SCOPES},
        paths=paths,
        components={
            "schemas": _with_const(components),
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


def _operation(route: Operation, schema_of: dict[type[msgspec.Struct], dict[str, Any]]) -> dict[str, Any]:
    summary = route.description.partition(". ")[0].rstrip(".:")
    module = route.handler.__module__.rpartition(".")[2]
    path = "_".join(re.findall(r"\w+", route.path.replace("<path:", "")))
    found: dict[str, Any] = {
        "operationId": f"{route.method.lower()}_{path}".replace(".", "_"),
        "summary": summary[:1].upper() + summary[1:],
        "tags": [module],
        "x-scope": route.needs,
        "parameters": list(_parameters(route)),
        "responses": {**_responses(route, schema_of), "default": PROBLEM},
    }
    if route.open:
        found["security"] = ()
    if route.asks is not None:
        content = {"application/json": {"schema": schema_of[route.asks]}}
        found["requestBody"] = {"required": not route.body_optional, "content": content}
    return found


def _parameters(route: Operation) -> Iterable[dict[str, Any]]:
    known = fields_of(route.request)
    for above, name in _VARIABLE.findall(route.path):
        what = (known[name].description if name in known else "") or _VARIABLES.get(name)
        what = what or f"{name.capitalize()} of the {above.removesuffix('s')}."
        schema = {"type": "integer" if name == "n" else "string", **({} if name == "n" else {"minLength": 1})}
        yield {"name": name, "in": "path", "required": True, "description": what, "schema": schema}
    for name, one in parameters_of(route).items():
        need = {"required": True} if one.required else {}
        yield {"name": name, "in": "query", **need, "description": one.description, "schema": one.schema}
    headers = {
        "Idempotency-Key": route.method == "POST" and not route.tokenless,
        "If-Match": "documents/<path" in route.path and route.method in ("PUT", "DELETE"),
        "If-None-Match": route.file or ("documents/<path" in route.path and route.method == "PUT"),
        "Last-Event-ID": route.path == "/events",
    }
    for name in (name for name, given in headers.items() if given):
        yield {"name": name, "in": "header", "description": _HEADERS[name], "schema": {"type": "string"}}


def _with_const(schema: Any) -> Any:
    if isinstance(schema, dict):
        only = schema.get("enum")
        if isinstance(only, list) and len(only) == 1:
            schema = {**{key: value for key, value in schema.items() if key != "enum"}, "const": only[0]}
        return {key: _with_const(value) for key, value in schema.items()}
    return [_with_const(one) for one in schema] if isinstance(schema, list | tuple) else schema


def _responses(route: Operation, schema_of: dict[type[msgspec.Struct], dict[str, Any]]) -> dict[str, Any]:
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


def openapi_document() -> OpenApi:
    """Return the OpenAPI 3.1 description of the REST API."""
    return describe(ROUTES)


ROUTES: Final = (operation(openapi_document, "GET /openapi.json"), *(row for row in OPERATIONS if row.path))

if len({(route.method, route.path) for route in ROUTES}) != len(ROUTES):
    raise ValueError("two rows of ROUTES have the same method and path")

_PATTERNS: Final = tuple(
    (route, re.compile(re.sub(r"<(\w+)>", r"(?P<\1>[^/]+)", route.path).replace("<path:path>", "(?P<path>.+)")))
    for route in sorted(ROUTES, key=lambda route: route.path.count("<"))
)


def route_of(method: str, path: str) -> Operation | None:
    """Return the route of a request, the same as the router will find, or None."""
    found = matched(method, path)
    return None if found is None else found[0]


def matched(method: str, path: str) -> tuple[Operation, dict[str, str]] | None:
    """Return the route of a request with the variables of its path, or None."""
    found = ((route, pattern.fullmatch(path)) for route, pattern in _PATTERNS if route.method == method)
    return next(((route, match.groupdict()) for route, match in found if match is not None), None)
