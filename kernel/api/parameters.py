"""Query parameters: what is refused and parsed, and what OpenAPI says of them."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Literal, get_args, get_origin

import msgspec
from msgspec.structs import replace

from kernel.operations.operation import Operation
from protocol.errors import Refused
from protocol.instruction import LARGEST


class Parameter(msgspec.Struct, frozen=True):
    """One query parameter: a text, one of ``words``, or a whole number from ``low`` to ``high``."""

    description: str
    low: int | None = None
    high: int = LARGEST
    words: tuple[str, ...] = ()

    def check(self, name: str, text: str) -> None:
        """Raise Refused (bad_request) unless ``text`` is a value of the parameter ``name``."""
        if self.words and text not in self.words:
            raise Refused("bad_request", f"{name} must be {' or '.join(self.words)}")
        if self.low is None:
            return
        if not (text.isascii() and text.isdecimal() and len(text) <= 16 and self.low <= int(text) <= self.high):
            raise Refused("bad_request", f"{name} must be a whole number from {self.low} to {self.high}")

    def value(self, text: str) -> str | int | bool:
        """Return the value of a ``text`` that was checked."""
        if self.words == _BOOLEAN:
            return text in ("true", "1")
        return text if self.low is None else int(text)

    @property
    def schema(self) -> dict[str, Any]:
        """The parameter as JSON Schema."""
        if self.low is not None:
            return {"type": "integer", "minimum": self.low, "maximum": self.high}
        only = {"const": self.words[0]} if len(self.words) == 1 else {"enum": list(self.words)}
        return {"type": "string", **(only if self.words else {})}


Parameters = Mapping[str, Parameter]
_BOOLEAN: Final = ("true", "false", "1", "0")


@cache
def fields_of(request: type[msgspec.Struct]) -> Parameters:
    """Return the fields of a request as parameters, by the names that they have outside."""
    return {one.encode_name: _parameter(one.type, Parameter("")) for one in msgspec.structs.fields(request)}


def _parameter(kind: Any, known: Parameter) -> Parameter:
    """Return ``known`` with what ``kind``, the type of a field, says."""
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
    """Raise Refused (bad_request) for a parameter that the route does not have, or a value that it does not take."""
    known = parameters_of(route)
    for name, text in query.items():
        if name not in known:
            hint = f"parameters: {', '.join(sorted(known))}" if known else "this route has no parameters"
            raise Refused("bad_request", f"{route.method} {route.path} has no parameter {name[:40]!r}", hint)
        known[name].check(name, text)


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
