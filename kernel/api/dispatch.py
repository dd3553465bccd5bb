"""Dispatch of requests: decode the input of a route, call its handler, encode the answer or the refusal."""

import hashlib
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from functools import cache
from typing import Any, Final, Literal, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec
import trio
from msgspec.inspect import DictType, ListType, Metadata, StructType, Type, UnionType, VarTupleType
from msgspec.structs import replace

from kernel.api.requests import Fields
from kernel.api.responses import problem_reply, refusal_of
from kernel.fault_injection import fault_point
from kernel.operations.answers import Answering, Response, Stream, json_reply
from kernel.operations.context import Services, StoreAccess, known_space
from kernel.operations.operation import Actor, Operation, invoke
from kernel.policy.access import ADMIN, Access
from kernel.policy.webhooks import Signed
from kernel.source.diagnostics import BadDefinition
from kernel.source.safe_paths import root_fault
from kernel.store import tokens
from kernel.store.idempotency import RequestKey
from kernel.store.writer import CommitWriter
from protocol.api.tokens import PageTokenRequest
from protocol.errors import Refused
from protocol.instruction import LARGEST
from protocol.ndjson import reject_duplicate_keys
from protocol.text import encode_json


class Parameter(msgspec.Struct, frozen=True):
    """Query parameter: a text, one of ``words``, or a whole number from ``low`` to ``high``."""

    description: str
    low: int | None = None
    high: int = LARGEST
    words: tuple[str, ...] = ()
    required: bool = False

    def check(self, name: str, text: str) -> None:
        """Raise Refused (bad_request) unless ``text`` is a value of the parameter ``name``."""
        if self.words and text not in self.words:
            raise Refused("bad_request", f"{name} must be {' or '.join(self.words)}")
        if self.low is None:
            return
        if not (text.isascii() and text.isdecimal() and len(text) <= 16 and self.low <= int(text) <= self.high):
            raise Refused("bad_request", f"{name} must be a whole number from {self.low} to {self.high}")

    def value(self, text: str) -> str | int | bool:
        """Return the value of a checked ``text``."""
        if self.words == _BOOLEAN:
            return text in ("true", "1")
        return text if self.low is None else int(text)

    @property
    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the parameter."""
        if self.low is not None:
            return {"type": "integer", "minimum": self.low, "maximum": self.high}
        only = {"const": self.words[0]} if len(self.words) == 1 else {"enum": list(self.words)}
        return {"type": "string", **(only if self.words else {})}


Parameters = Mapping[str, Parameter]
_BOOLEAN: Final = ("true", "false", "1", "0")


@cache
def fields_of(request: type[msgspec.Struct]) -> Parameters:
    """Return the fields of a request as parameters, by their external names."""
    fields = msgspec.structs.fields(request)
    return {one.encode_name: _parameter(one.type, Parameter("", required=one.required)) for one in fields}


def _parameter(kind: Any, known: Parameter) -> Parameter:
    parts, origin = get_args(kind), get_origin(kind)
    if origin is Literal:
        return replace(known, words=parts)
    if kind is bool:
        return replace(known, words=_BOOLEAN)
    if kind is int:
        return replace(known, low=known.low or 0)
    for part in parts:
        if isinstance(part, msgspec.Meta):
            low, high = part.ge, part.le
            known = replace(known, description=part.description or known.description)
            known = known if low is None else replace(known, low=int(low))
            known = known if high is None else replace(known, high=int(high))
        else:
            known = _parameter(part, known)
    return known


def parameters_of(route: Operation) -> Parameters:
    """Return the query parameters of a route."""
    fields = fields_of(route.request) if route.query else {}
    return {name: fields[name] for name in route.query}


def check_query(route: Operation, query: Mapping[str, str]) -> None:
    """Raise Refused (bad_request) for unknown or missing parameters, or invalid values."""
    known = parameters_of(route)
    hint = f"parameters: {', '.join(sorted(known))}" if known else "this route has no parameters"
    for name, text in query.items():
        if name not in known:
            raise Refused("bad_request", f"{route.method} {route.path} has no parameter {name[:40]!r}", hint)
        known[name].check(name, text)
    for name in (name for name, one in known.items() if one.required and name not in query):
        raise Refused("bad_request", f"{route.method} {route.path} requires the parameter {name!r}", hint)


def asked_of(
    row: Operation, variables: Mapping[str, str], query: Mapping[str, str], body: msgspec.Struct | None
) -> msgspec.Struct:
    """Return the request of an operation: the variables of its path, its checked ``query``, and its ``body``."""
    if body is not None and type(body) is row.request:
        return body
    given: dict[str, Any] = {} if body is None else {name: getattr(body, name) for name in body.__struct_fields__}
    given |= {row.variables[name]: text for name, text in variables.items()}
    given |= {row.query[name]: fields_of(row.request)[name].value(text) for name, text in query.items()}
    return row.request(**given)


ASKED: Final = "agent_worker.asked"
"""Key of an ASGI scope: header fields, body and access of a request that Quart routes."""
KEY_LIMIT: Final = 200
QUERY_FIELDS: Final = 32
LARGE_BYTES: Final = 64 * 1024
"""Length of a body from which it is decoded in a thread."""
NO_ARGS: Final[Mapping[str, str]] = {}


class _Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a route without input: ``{}``."""


class RawRequest(msgspec.Struct, frozen=True):
    """Received request: header fields, query string, body, and path variables."""

    fields: Fields
    query_string: bytes
    body: bytes
    args: Mapping[str, str] = NO_ARGS
    client_port: int = 0
    """Port of the client on this machine; 0: unknown."""
    access: Access = ADMIN
    """Access of its token."""


async def dispatch(services: Services, route: Operation, asked: RawRequest) -> Response | Stream:
    """Return the answer of ``route``. Raises only on cancellation: refusals and failures are answers too."""
    try:
        route.check(asked.access)
        changes = route.method != "GET" and route.path != "/shutdown"
        if changes and (lost := root_fault(str(services.files.catalog.root))) is not None:
            raise Refused("busy", lost, "put the folder back, or awk stop")
        large = len(asked.body) >= LARGE_BYTES
        decoded = await trio.to_thread.run_sync(_try_decode, route, asked) if large else decode(route, asked)
        if isinstance(decoded, Response):
            return decoded
        result = await perform(services, route, *decoded, asked.client_port)
    except Exception as error:  # noqa: BLE001 - the boundary: a failing handler is answered
        return problem_reply(refusal_of(error))
    if route.method != "GET":
        fault_point("api.answer")
    if isinstance(result, Stream) and asked.access.number is not None:
        return Stream(while_valid(result.pieces, services.store, asked.access), result.content_type)
    return result if isinstance(result, Response | Stream) else json_reply(result, route.status)


Result = msgspec.Struct | Response | Stream


async def perform(services: Services, row: Operation, actor: Actor, asked: msgspec.Struct, client_port: int) -> Result:
    """Run an operation for a person, for REST and MCP. Raises Refused.

    With an Idempotency-Key, it runs once, and a repeated request gets the recorded answer.
    """
    if actor.access != ADMIN and row.trusts is not None and row.trusts(asked):
        text = "only the administrator's token can allow commands to run: trust and checks"
        raise Refused("forbidden", text, "use awk on the kernel's machine, such as awk trust")
    if isinstance(asked, PageTokenRequest):
        services.kernel.keys.page.check(asked.key, trio.current_time())  # Check a stranger's key before slow work.
    # Processes of agents are refused with any token. The check takes ten milliseconds.
    for_people = row.people_only or (row.vouches is not None and row.vouches(asked))
    if for_people and await trio.to_thread.run_sync(services.processes.runs_client, client_port):
        raise Refused("forbidden", "this request is for people, but a process of an agent sent it")
    key, store = actor.request_key, services.store
    if key is None or row.keeps_key:
        return await answer_of(services, row, actor, asked)

    async def handle(writer: CommitWriter) -> Response:
        keyed = msgspec.structs.replace(services, store=msgspec.structs.replace(store, writer=writer))
        result = await answer_of(keyed, row, actor, asked)
        assert not isinstance(result, Stream), "what is streamed keeps its key"
        return result if isinstance(result, Response) else json_reply(result, row.status)

    answering = Answering(
        key=key,
        reader=store.reader,
        writer=store.writer,
        now_ms=store.now_ms,
        answers=row.answers,
        status=row.status,
        is_secret=row.secret,
    )
    return await services.kernel.keys.answers.once(answering, handle)


async def answer_of(services: Services, row: Operation, actor: Actor, asked: Any) -> Result:
    """Run an operation whose caller is checked. Raises Refused."""
    if row.changes and services.kernel.shutdown.begun():
        raise Refused("stopping", "the kernel is stopping and accepts no new requests")
    try:
        if row.in_space:
            space = known_space(services.store, services.files, asked.space)
            asked = msgspec.structs.replace(asked, space=space)
        given: Result = await invoke(row, services, actor, asked)
        return given
    except BadDefinition as refused:
        raise refused.remote(quotes=actor.access == ADMIN) from None


async def while_valid(
    pieces: AsyncGenerator[bytes, None], store: StoreAccess, access: Access
) -> AsyncGenerator[bytes, None]:
    """Yield ``pieces`` until the token of ``access`` is revoked."""
    async with aclosing(pieces) as passing:
        async for piece in passing:
            if store.reader.now(tokens.digest_of, access.number or 0, store.now_ms()) is None:
                return
            yield piece


def _try_decode(route: Operation, asked: RawRequest) -> tuple[Actor, msgspec.Struct] | Response:
    try:
        return decode(route, asked)
    except Exception as error:  # noqa: BLE001 - raised from a thread, it would hold the body in a reference cycle
        return problem_reply(refusal_of(error))


def decode(route: Operation, asked: RawRequest) -> tuple[Actor, msgspec.Struct]:
    """Return the actor and the request for the handler of ``route``. Raises Refused, msgspec's errors, DuplicateKey."""
    fields, asks = asked.fields, route.asks
    body: msgspec.Struct | None = None
    if asks is not None and route.body_optional and not asked.body:
        body = asks()
    elif asks is not None:
        check_json(fields.get(b"content-type", b""))
        try:
            body = _decoder(asks).decode(asked.body)
        except msgspec.ValidationError as error:
            raise Refused("bad_request", f"the body does not fit: {error}", takes(asks, str(error))) from error
        reject_duplicate_keys(asked.body)
    elif asked.body and route.method != "GET" and not route.signed:
        _decoder(_Nothing).decode(asked.body)  # The route reads no body: refuse one.
    query = NO_ARGS
    if asked.query_string:
        try:
            text = asked.query_string.decode("ascii")
            query = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=QUERY_FIELDS))
        except ValueError as error:
            raise Refused("bad_request", f"the query string cannot be read: {error}") from error
    check_query(route, query)
    key, request_key = fields.get(b"idempotency-key"), None
    if key is not None and route.method == "POST" and not route.tokenless:
        if not key or len(key) > KEY_LIMIT or not key.isascii():
            raise Refused("bad_request", f"Idempotency-Key must be 1 to {KEY_LIMIT} ASCII characters")
        # Bound to route and body: the same key for another request is an error.
        target = encode_json((route.method, route.path, sorted(asked.args.items())))
        what = hashlib.sha256(b"%s\0%s" % (target, asked.body)).digest()
        request_key = RequestKey(asked.access.name, key.decode(), what)
    none_match, reads = fields.get(b"if-none-match"), route.method == "GET"
    if none_match is not None and none_match.strip() != b"*" and not reads:
        raise Refused(
            "bad_request", "If-None-Match can only be *", "it has the request refused where something is there"
        )
    last_event_id = fields.get(b"last-event-id")
    actor = Actor(
        last_event_id=None if last_event_id is None else last_event_id.decode("latin-1"),
        accept=fields.get(b"accept", b"").decode("latin-1"),
        request_key=request_key,
        if_match=_version(fields.get(b"if-match")),
        if_none_match=none_match is not None and not reads,
        known=(none_match or b"").decode("latin-1") if reads else "",
        signed=_signed(asked) if route.signed else None,
        access=asked.access,
    )
    return actor, asked_of(route, asked.args, query, body)


def _signed(asked: RawRequest) -> Signed:
    """Return the Standard Webhooks signature of the request, or an empty one, which is never valid."""
    id_, timestamp, signatures = (
        asked.fields.get(b"webhook-" + name, b"").decode("latin-1") for name in (b"id", b"timestamp", b"signature")
    )
    return Signed(id_, timestamp, signatures, asked.body)


_PLACE: Final = re.compile(r" - at `\$(.+)`\Z")
_STEP: Final = re.compile(r"\.([^.\[]+)|\[[^\]]*\]")


def takes(asks: type[msgspec.Struct], told: str) -> str:
    """Return a hint: the fields of ``asks``, or of the nested Struct that ``told`` locates."""
    place = _PLACE.search(told)
    path = "" if place is None else place[1]
    named, part, here = "it", asks, [msgspec.inspect.type_info(asks)]
    for step in _STEP.finditer(path):
        here = [plain for one in here for inner in _inside(one, step[1]) for plain in _plain(inner)]
        structs = [one.cls for one in here if isinstance(one, StructType)]
        if len(structs) == 1:
            named, part = path[1 : step.end()], structs[0]
    fields = msgspec.structs.fields(part)
    shown = ", ".join(one.encode_name + (" (needed)" if one.required else "") for one in fields)
    return f"{named} takes: {shown}" if shown else f"{named} takes nothing: {{}}"


def _inside(kind: Type, name: str | None) -> Iterator[Type]:
    match kind:
        case StructType():
            yield from (field.type for field in kind.fields if field.encode_name == name)
        case ListType() | VarTupleType() if name is None:
            yield kind.item_type
        case DictType() if name is None:
            yield kind.value_type
        case _:
            pass


def _plain(kind: Type) -> Iterator[Type]:
    match kind:
        case UnionType():
            for one in kind.types:
                yield from _plain(one)
        case Metadata():
            yield from _plain(kind.type)
        case _:
            yield kind


def _version(tag: bytes | None) -> int | None:
    """Return the version of an If-Match value: ``"3"`` or ``3``. Raises Refused (bad_request)."""
    if tag is None:
        return None
    digits = tag.strip().removeprefix(b'"').removesuffix(b'"')
    if not digits.isdigit() or len(digits) > 15:
        raise Refused("bad_request", "If-Match must be the version of the resource", 'such as If-Match: "3"')
    return int(digits)


def check_json(content_type: bytes) -> None:
    """Raise Refused unless the content type is JSON: a page can send all other types without a preflight request."""
    if content_type.partition(b";")[0].strip().lower() != b"application/json":
        raise Refused("unsupported_media_type", "the body must be application/json", hint="set Content-Type")


@cache
def _decoder(asks: type[msgspec.Struct]) -> msgspec.json.Decoder[msgspec.Struct]:
    return msgspec.json.Decoder(asks)
