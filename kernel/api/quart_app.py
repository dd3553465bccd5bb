"""Quart application: the router of the REST API, with streams, and 404 and 405 in JSON.

ApiApp calls the application after it has checked the token and read the body. ApiApp answers the
simplest routes itself.
"""

from collections.abc import Awaitable, Callable

from quart import Response, request
from quart.routing import QuartRule
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException

from kernel.api.dispatch import ASKED, RawRequest, dispatch
from kernel.api.responses import COMMON, problem_reply, refusal_of
from kernel.api.routes import ROUTES
from kernel.operations import answers
from kernel.operations.context import Services
from kernel.operations.operation import Operation
from protocol.errors import Refused


class MatchedRule(QuartRule):
    """Rule that matches paths and cannot build a path.

    For building, Werkzeug compiles two functions for each rule: nine tenths of the start-up time.
    """

    def _compile_builder(self, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:
        return _make_no_path


def _make_no_path(*_values: object, **_named: object) -> tuple[str, str]:
    raise LookupError("routes build no paths here: write the path")


class RestApp(QuartTrio):
    """Quart application whose routes are MatchedRules."""

    url_rule_class = MatchedRule  # type: ignore[assignment]


def build_app(services: Services) -> QuartTrio:
    """Return an application that serves ROUTES."""
    app = RestApp("kernel", static_folder=None)
    app.config["RESPONSE_TIMEOUT"] = None
    app.url_map.merge_slashes = False
    for route in ROUTES:
        app.add_url_rule(
            route.path,
            f"{route.method} {route.path}",
            view_of(services, route),
            methods=[route.method],
            provide_automatic_options=False,
        )
    app.register_error_handler(HTTPException, http_error)
    app.register_error_handler(Exception, failure)
    return app


def view_of(services: Services, route: Operation) -> Callable[..., Awaitable[Response]]:
    """Return the Quart view that answers ``route`` through ``dispatch``."""

    async def view(**args: str) -> Response:
        fields, body, access = request.scope[ASKED]  # type: ignore[typeddict-item]
        client = request.scope.get("client")
        port = int(client[1]) if client else 0
        asked = RawRequest(fields, request.query_string, body, args, client_port=port, access=access)
        result = await dispatch(services, route, asked)
        if isinstance(result, answers.Response):
            return _response(result)
        response = Response(result.pieces, content_type=result.content_type)
        response.timeout = None
        for name, value in COMMON:
            response.headers[name.decode()] = value.decode()
        return response

    return view


def _response(reply: answers.Response) -> Response:
    response = Response(reply.body, reply.status, content_type=reply.content_type.decode())
    for name, value in (*COMMON, *reply.headers):
        response.headers[name.decode()] = value.decode()
    return response


async def http_error(error: HTTPException) -> Response:
    """Return the problem document for an error of the router."""
    if error.code == 405:
        allowed = ", ".join(sorted(getattr(error, "valid_methods", None) or ()))
        refused = Refused("method_not_allowed", f"{request.method} is not for this route", hint=f"use {allowed}")
        return _response(problem_reply(refused, ((b"allow", allowed.encode()),)))
    if error.code == 404:
        return _response(problem_reply(Refused("not_found", "route not found")))
    return _response(problem_reply(Refused("bad_request", "the request is malformed")))


async def failure(error: Exception) -> Response:
    """Return the problem document for an internal failure."""
    return _response(problem_reply(refusal_of(error)))
