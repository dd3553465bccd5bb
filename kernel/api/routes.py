"""ROUTES: everything that the REST API answers (contracts 4), and how a request finds its route."""

import re
from typing import Final

from kernel.api import openapi
from kernel.operations.operation import Operation, operation
from kernel.operations.table import OPERATIONS
from protocol.api.kernel import OpenApi


def openapi_document() -> OpenApi:
    """Return this table, as OpenAPI 3.1."""
    return openapi.describe(ROUTES)


ROUTES: Final = (operation(openapi_document, "GET /openapi.json"), *(row for row in OPERATIONS if row.path))

if len({(route.method, route.path) for route in ROUTES}) != len(ROUTES):
    raise ValueError("two rows of ROUTES have the same method and path")

_PATTERNS: Final = tuple(
    (route, re.compile(re.sub(r"<\w+>", "[^/]+", route.path.replace("<path:path>", ".+"))))
    for route in sorted(ROUTES, key=lambda route: route.path.count("<"))
)


def route_of(method: str, path: str) -> Operation | None:
    """The route that a request is for, as the router will find it; None: there is none."""
    return next((route for route, pattern in _PATTERNS if route.method == method and pattern.fullmatch(path)), None)
