"""Logins of programs: the part that is lent to an attempt, and the renewed tokens that are taken from its copy.

The copy is writable by its program and by everything in its sandbox. So only the lent tokens (``LoginSpec.renews``)
are taken back, and only with the same type: other parts of a login are controlled by its owner, and some are
configuration that a program would run outside any sandbox.
"""

import errno
import os
import stat
from typing import Any, Final

import msgspec

from kernel.agents.providers import CauseError
from protocol.backends import MAX_LOGIN_BYTES, LoginSpec, TokenField
from protocol.text import decoded

MAX_TOKEN_CHARACTERS: Final = 8 * 1024
_MAX_NUMBER: Final = 2**53
"""Times are in milliseconds; larger numbers are not portable between programs."""
_LENT_TYPES: Final = ("oauth", "api")
"""Entry types that may be lent; an entry of type ``wellknown`` names commands to run."""


def login_at(home: str, spec: LoginSpec, provider: str) -> bytes:
    """Return the part of the login at ``home`` that a model of ``provider`` needs. Raises CauseError."""
    try:
        data = _lendable(read_login(home) or b"", spec, provider)
    except OSError as error:
        raise CauseError("auth", f"login file {home} is not readable: {error.strerror}") from error
    if data is None:
        whose = f" for {provider} that can be lent" if spec.by_provider else ""
        raise CauseError("auth", f"login file {home} has no login{whose}; {spec.how}")
    return data


def read_login(path: str) -> bytes | None:
    """Return the content of a regular file of limited size; None if it does not exist. Raises OSError."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        data = file.read(MAX_LOGIN_BYTES + 1)
    if len(data) > MAX_LOGIN_BYTES:
        raise OSError(errno.EFBIG, "too large for a login", path)
    return data


def token_file(token: str) -> bytes:
    """Return the login file that claude would write for a token, so that the token need not be in its environment."""
    oauth = {"accessToken": token, "refreshToken": None, "expiresAt": None, "scopes": ["user:inference"]}
    return msgspec.json.encode({"claudeAiOauth": oauth})


def token_fields(data: bytes, spec: LoginSpec, provider: str) -> tuple[TokenField, ...]:
    """Return the tokens in ``data`` that a program may renew."""
    above = (provider,) if spec.by_provider else ()
    fields = (msgspec.structs.replace(field, path=(*above, *field.path)) for field in spec.renews)
    found = _object(data)
    return tuple(field for field in fields if _fits(_at(found, field), field))


def renewal_of(data: bytes, fields: tuple[TokenField, ...]) -> bytes | None:
    """Return only the ``fields`` of ``data``; None unless all are present with the right type."""
    found = _object(data)
    taken: dict[str, Any] = {}
    for field in fields:
        value = _at(found, field)
        if not _fits(value, field):
            return None
        _put(taken, field.path, value)
    return msgspec.json.encode(taken) if taken else None


def merged(kept: bytes, renewed: bytes, fields: tuple[TokenField, ...]) -> bytes:
    """Return ``kept`` with the ``fields`` of ``renewed``; both documents have all fields (``renewal_of``)."""
    whole, tokens = _object(kept), _object(renewed)
    for field in fields:
        _put(whole, field.path, _at(tokens, field))
    return msgspec.json.format(msgspec.json.encode(whole), indent=2)


def _lendable(data: bytes, spec: LoginSpec, provider: str) -> bytes | None:
    found = _object(data)
    names = {provider} if spec.by_provider else spec.parts or found.keys()
    lent = {name: entry for name, entry in found.items() if name in names}
    if spec.by_provider and not any(isinstance(one, dict) and one.get("type") in _LENT_TYPES for one in lent.values()):
        return None
    return (data if lent == found else msgspec.json.encode(lent)) if lent else None


def _object(data: bytes) -> dict[str, Any]:
    """Decode an object; return an empty one if ``data`` is invalid, for example after its program was killed."""
    return decoded(data, dict[str, Any]) or {}


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
