"""Query parameters: what a handler reads is what its route declares, what OpenAPI says, and what dispatch takes."""

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from textwrap import dedent
from types import FunctionType
from typing import Any

import pytest

from kernel.api.http import parameters
from kernel.api.http.parameters import parameters_of
from kernel.api.http.route import AnyRoute, Request, Route
from kernel.api.http.routes import ROUTES
from tests.builders.api import ServedKernel

pytestmark = pytest.mark.promise("P58")
PASSED = {"call", "asked"}
"""What a request is called where it is handed on."""


def named(route: AnyRoute) -> str:
    """Return the name of a route."""
    return f"{route.method} {route.path}"


def is_query(node: ast.expr) -> bool:
    """Return whether an expression is the query of a request."""
    return ast.unparse(node) in ("call.query", "query", "self.query")


def names_in(node: ast.expr, known: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the names that an expression stands for, which has to be a text, or a name that goes through some."""
    if isinstance(node, ast.Name):
        return known[node.id]
    value = ast.literal_eval(node)
    return tuple(sorted(value)) if isinstance(value, set | tuple) else (value,)


def loops(tree: ast.AST) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the names that go through texts: ``for name in ("from", "to")``."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.comprehension)
            and isinstance(node.target, ast.Name)
            and isinstance(node.iter, ast.Tuple)
        ):
            values = [ast.literal_eval(one) for one in node.iter.elts if isinstance(one, ast.Constant)]
            yield node.target.id, tuple(str(value) for value in values)


def read_by(function: Callable[..., Any], seen: set[Callable[..., Any]]) -> Iterator[str]:
    """Yield the names of the parameters that ``function``, and what it hands its request on to, reads."""
    if function in seen or not isinstance(function, FunctionType):
        return
    seen.add(function)
    tree = ast.parse(dedent(inspect.getsource(function)))
    known = dict(loops(tree))
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=on, attr="get"), args=[name, *_]) if is_query(on):
                yield from names_in(name, known)
            case ast.Subscript(value=on, slice=name) if is_query(on):
                yield from names_in(name, known)
            case ast.Compare(left=name, ops=[ast.In() | ast.NotIn()], comparators=[on]) if is_query(on):
                yield from names_in(name, known)
            case ast.BinOp(left=ast.Set() as names, right=ast.Call(args=[on])) if is_query(on):
                yield from names_in(names, known)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="call"), attr="number" | "flag"), args=[name, *_]):
                yield from names_in(name, known)
            case ast.Call(func=ast.Name(id="page_of"), args=[_, name, *_]):
                yield from ("limit", *names_in(name, known))
            case ast.Call(func=ast.Name(id=called), args=args) if any(ast.unparse(one) in PASSED for one in args):
                yield from read_by(function.__globals__.get(called, print), seen)
            case _:
                pass


@pytest.mark.parametrize("route", [one for one in ROUTES if isinstance(one, Route)], ids=named)
def test_a_handler_reads_the_parameters_that_its_route_declares(route: AnyRoute) -> None:
    """No more, and no fewer: of 107 OpenAPI had left out 37."""
    assert set(read_by(route.handler, set())) == set(parameters_of(route))


def test_the_reader_of_handlers_sees_every_way_to_read() -> None:
    async def handler(call: Request[None]) -> object:
        query = call.query
        both = [call.number(name, 0) for name in ("from", "to")]
        if not {"by", "since"} & set(call.query):
            return call.query["space"], query.get("agent"), "run" in query, "tag" not in call.query, both
        return call.flag("wait"), call.number("limit", 1)

    found = {"from", "to", "by", "since", "space", "agent", "run", "tag", "wait", "limit"}
    assert set(read_by(handler, set())) == found


def test_only_routes_have_parameters() -> None:
    assert parameters.ROUTE_PARAMETERS.keys() <= {named(route) for route in ROUTES if isinstance(route, Route)}


async def test_what_a_route_does_not_declare_is_refused(kernel: ServedKernel) -> None:
    for route in ROUTES:
        if not route.keyed and not route.signed:  # their bodies are judged before anything is parsed
            await refuses_others(kernel, route)


async def refuses_others(kernel: ServedKernel, route: AnyRoute) -> None:
    """Ask a route with parameters and values that it does not have."""
    path = re.sub(r"<[^>]*>", "1", route.path)
    headers = kernel.headers(None) if route.tokenless else None
    wrong = [f"no_such={1}"]
    for name, one in parameters_of(route).items():
        if one.low is not None:
            wrong += [
                f"{name}={text}" for text in ("x", "-1", str(one.low - 1), str(one.high + 1), "1e3", "", "9" * 400)
            ]
        if one.words:
            wrong += [f"{name}={text}" for text in ("x", "", one.words[0].upper() + "!")]
    body: dict[str, str] | None = {} if route.asks is not None else None
    for text in wrong:
        answer = await kernel.ask(route.method, f"{path}?{text}", body, headers=headers)
        if route.asks is not None and "`" in answer.body.decode():
            return  # its body does not fit, which is told first
        assert (answer.status, answer.code) == (400, "bad_request"), (text, answer.body)
        assert text.partition("=")[0] in answer.json["detail"]


async def test_every_parameter_is_described(kernel: ServedKernel) -> None:
    document = (await kernel.ask("GET", "/openapi.json")).json
    for path, methods in document["paths"].items():
        for method, one in methods.items():
            where = f"{method.upper()} {path}"
            assert re.fullmatch(r"[A-Z`/][^\n]*[^.:]", one["summary"]), (where, one["summary"])
            assert not one["summary"].startswith(method.upper()), where
            names = [(parameter["in"], parameter["name"]) for parameter in one["parameters"]]
            assert len(set(names)) == len(names), where
            for parameter in one["parameters"]:
                assert parameter["schema"].get("type") in ("string", "integer"), (where, parameter)
                assert re.search(r"\w.*\.$", parameter["description"]), (where, parameter)


async def test_one_value_is_a_constant(kernel: ServedKernel) -> None:
    body = (await kernel.ask("GET", "/openapi.json")).body
    assert b'"enum":[true]' not in body
    assert b'"const":true' in body
    assert not re.search(rb'"enum":\[[^,\]]*\]', body)
