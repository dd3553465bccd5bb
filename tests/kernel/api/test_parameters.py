"""Query parameters: what OpenAPI says is what dispatch takes."""

import re

import pytest

from kernel.api.dispatch import parameters_of
from kernel.api.routes import ROUTES
from kernel.operations.operation import Operation
from tests.builders.api import ServedKernel

pytestmark = pytest.mark.promise("P58")


async def test_what_a_route_does_not_declare_is_refused(kernel: ServedKernel) -> None:
    for route in ROUTES:
        if not route.keyed and not route.signed:  # their bodies are judged before anything is parsed
            await refuses_others(kernel, route)


async def refuses_others(kernel: ServedKernel, route: Operation) -> None:
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
        assert answer.refusal == (400, "bad_request"), (text, answer.body)
        assert text.partition("=")[0] in answer.json["detail"]


async def test_every_parameter_is_described(kernel: ServedKernel) -> None:
    document = await kernel.get("/openapi.json")
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
