"""ROUTES: everything that the REST API answers (contracts 4), and how a request finds its route."""

from collections.abc import Mapping
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

_BELOW: Final[dict[str, list[Operation]]] = {}
"""Routes by the first part of their paths, which is always fixed. Those with more fixed parts come first."""
for _row in sorted(ROUTES, key=lambda route: route.path.count("<")):
    _BELOW.setdefault(_row.path.split("/", 2)[1], []).append(_row)


def find_route(method: str, path: str) -> tuple[Operation, Mapping[str, str]] | None:
    """Return the route that a request is for, and the variables of its path; None: there is none."""
    for route in _BELOW.get(path.partition("/")[2].partition("/")[0], ()):
        if route.method == method and (found := _variables(route.path, path)) is not None:
            return route, found
    return None


def methods_of(path: str) -> set[str]:
    """Return the methods that ``path`` is answered for."""
    below = _BELOW.get(path.partition("/")[2].partition("/")[0], ())
    found = {str(route.method) for route in below if _variables(route.path, path) is not None}
    return found | {"HEAD"} if "GET" in found else found


def _variables(template: str, path: str) -> dict[str, str] | None:
    """Return the variables of ``path``; None: it is none of ``template``. One of the kind ``path`` is the last."""
    words = template.split("/")
    parts = path.split("/", len(words) - 1)
    found: dict[str, str] = {}
    if len(words) != len(parts):
        return None
    for word, part in zip(words, parts, strict=True):
        if word.startswith("<path:") and part and part[0] != "/":
            found[word[6:-1]] = part
        elif word.startswith("<") and not word.startswith("<path:") and part and "/" not in part:
            found[word[1:-1]] = part
        elif word != part:
            return None
    return found
