"""The Quart application: matches paths with variables, streams, and says 404 and 405 in JSON.

It is reached only through the front, which has checked the token and read the body.
"""

from collections.abc import Awaitable, Callable

from quart import Response, request
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException

from kernel.api import responses
from kernel.api.asgi import Fields
from kernel.api.context import Services
from kernel.api.http.dispatch import ASKED, RawRequest, dispatch
from kernel.api.http.route import Route, Stream
from kernel.api.http.routes import ROUTES
from kernel.api.responses import COMMON, problem_reply, refusal_of
from protocol.errors import Refused


def build_app(services: Services) -> QuartTrio:
    """An application that serves ROUTES."""
    app = QuartTrio("kernel", static_folder=None)
    app.config["RESPONSE_TIMEOUT"] = None
    app.url_map.merge_slashes = False
    for route in ROUTES:
        app.add_url_rule(
            route.path,
            f"{route.method} {route.path}",
            _view(services, route),
            methods=[route.method],
            provide_automatic_options=False,
        )
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(Exception, _failure)
    return app


def _view(services: Services, route: Route) -> Callable[..., Awaitable[Response]]:
    async def view(**args: str) -> Response:
        fields, body = _asked()
        asked = RawRequest(fields, request.query_string, body, args, client_port=_port())
        result = await dispatch(services, route, asked)
        return _stream(result) if isinstance(result, Stream) else _response(result)

    return view


def _asked() -> tuple[Fields, bytes]:
    fields, body = request.scope[ASKED]  # type: ignore[typeddict-item]
    return fields, body


def _port() -> int:
    client = request.scope.get("client")
    return int(client[1]) if client else 0


def _response(reply: responses.Response) -> Response:
    response = Response(reply.body, reply.status, content_type=reply.content_type.decode())
    for name, value in (*COMMON, *reply.headers):
        response.headers[name.decode()] = value.decode()
    return response


def _stream(stream: Stream) -> Response:
    response = Response(stream.pieces, content_type="text/event-stream; charset=utf-8")
    response.timeout = None
    for name, value in COMMON:
        response.headers[name.decode()] = value.decode()
    return response


async def _http_error(error: HTTPException) -> Response:
    if error.code == 405:
        allowed = ", ".join(sorted(getattr(error, "valid_methods", None) or ()))
        refused = Refused("method_not_allowed", f"{request.method} is not for this route", hint=f"use {allowed}")
        return _response(problem_reply(refused, ((b"allow", allowed.encode()),)))
    if error.code == 404:
        return _response(problem_reply(Refused("not_found", "there is no such route")))
    return _response(problem_reply(Refused("bad_request", "the request cannot be understood")))


async def _failure(error: Exception) -> Response:
    return _response(problem_reply(refusal_of(error)))
