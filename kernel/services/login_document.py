"""Logins of programs: the part that is lent to an attempt, and the tokens that are taken back from its copy.

A copy lies where its program can write, and in a sandbox whatever runs there. So nothing of it is taken but the tokens
that were lent (``LoginSpec.renews``), each of the kind that it was: all else of a login is its owner's word, and some
of it is configuration, which a program would run outside of any sandbox.
"""

import errno
import os
import stat
from typing import Any, Final

import msgspec

from kernel.agents.providers import CauseError
from protocol.backends import MAX_LOGIN_BYTES, LoginSpec, TokenField

MAX_TOKEN_CHARACTERS: Final = 8 * 1024
_MAX_NUMBER: Final = 2**53
"""Times are in milliseconds; larger numbers are not the same to every program."""
_LENT_TYPES: Final = ("oauth", "api")
"""Of entries by provider. One of type ``wellknown`` names commands to run."""


def login_at(home: str, spec: LoginSpec, provider: str) -> bytes:
    """The part of the login at ``home`` that work with a model of ``provider`` needs. Raises CauseError."""
    try:
        data = _lendable(read_login(home) or b"", spec, provider)
    except OSError as error:
        raise CauseError("auth", f"{home} cannot be read: {error.strerror}") from error
    if data is None:
        whose = f" for {provider} that can be lent" if spec.by_provider else ""
        raise CauseError("auth", f"{home} holds no login{whose}; {spec.how}")
    return data


def read_login(path: str) -> bytes | None:
    """A regular file of bounded size; None where there is none. Raises OSError."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "it is no file", path)
        data = file.read(MAX_LOGIN_BYTES + 1)
    if len(data) > MAX_LOGIN_BYTES:
        raise OSError(errno.EFBIG, "it is too large for a login", path)
    return data


def token_file(token: str) -> bytes:
    """The file that claude would make of a token in its environment; so its shells are not handed it."""
    oauth = {"accessToken": token, "refreshToken": None, "expiresAt": None, "scopes": ["user:inference"]}
    return msgspec.json.encode({"claudeAiOauth": oauth})


def token_fields(data: bytes, spec: LoginSpec, provider: str) -> tuple[TokenField, ...]:
    """The tokens in ``data`` that a program may renew."""
    above = (provider,) if spec.by_provider else ()
    fields = (msgspec.structs.replace(field, path=(*above, *field.path)) for field in spec.renews)
    found = _object(data)
    return tuple(field for field in fields if _fits(_at(found, field), field))


def renewal_of(data: bytes, fields: tuple[TokenField, ...]) -> bytes | None:
    """The ``fields`` of ``data`` and nothing else of it; None unless it has all of them, each of its kind."""
    found = _object(data)
    taken: dict[str, Any] = {}
    for field in fields:
        value = _at(found, field)
        if not _fits(value, field):
            return None
        _put(taken, field.path, value)
    return msgspec.json.encode(taken) if taken else None


def merged(kept: bytes, renewed: bytes, fields: tuple[TokenField, ...]) -> bytes:
    """``kept`` with its ``fields`` replaced by those of ``renewed``. Both have all of them (``renewal_of``)."""
    whole, tokens = _object(kept), _object(renewed)
    for field in fields:
        _put(whole, field.path, _at(tokens, field))
    return msgspec.json.format(msgspec.json.encode(whole), indent=2)


def _lendable(data: bytes, spec: LoginSpec, provider: str) -> bytes | None:
    """The part of the login ``data`` that work with a model of ``provider`` needs; None where there is none."""
    found = _object(data)
    names = {provider} if spec.by_provider else spec.parts or found.keys()
    lent = {name: entry for name, entry in found.items() if name in names}
    if spec.by_provider and not any(isinstance(one, dict) and one.get("type") in _LENT_TYPES for one in lent.values()):
        return None
    return (data if lent == found else msgspec.json.encode(lent)) if lent else None


def _object(data: bytes) -> dict[str, Any]:
    """The object that ``data`` is; empty where it is none, as of a program that was killed over it."""
    try:
        found: object = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _at(found: object, field: TokenField) -> object:
    for part in field.path:
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _put(into: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    for part in path[:-1]:
        into = into.setdefault(part, {})
    into[path[-1]] = value


def _fits(value: object, field: TokenField) -> bool:
    if field.number:
        return type(value) in (int, float) and 0 <= value < _MAX_NUMBER  # type: ignore[operator]
    return isinstance(value, str) and 0 < len(value) <= MAX_TOKEN_CHARACTERS and value.isascii() and value.isprintable()
