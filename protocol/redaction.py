"""Takes secrets out of text that others wrote, in the forms in which programs repeat them.

A provider or a program that quotes what it was given does so verbatim, in base64 (alone, or behind a user's name as
Basic authentication has it), in hex, URL-encoded or escaped for JSON; whole, or a piece of it. So each form of a secret
is looked for, and every piece of SLICE characters of one. What says it in yet another way is not recognised.
"""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Final, Literal, TypeVar, Union, cast, get_args, get_origin
from urllib.parse import quote, quote_plus

import msgspec

T = TypeVar("T")

SLICE: Final = 16
"""So many characters of a form in a row are a piece of the secret; fewer are words like any other."""
_GRAM: Final = SLICE // 2
"""In every piece there is one of so many characters that begins at a multiple of that; most texts have none."""
SHORTEST: Final = 8
"""What has fewer characters is looked for verbatim and nothing else."""
LONGEST: Final = 4096
"""Characters of a secret whose forms are looked for; of what is longer, those of its beginning."""
_GROUP: Final = 3
_URL_SAFE: Final = str.maketrans("+/", "-_")


class Redaction:
    """Of some secrets, each with what is told in its place (``named``)."""

    def __init__(self, named: Mapping[str, str]) -> None:
        self._held = ""
        self.hide(named)

    def hide(self, named: Mapping[str, str]) -> None:
        """Take out these from now on, and no others; what of a stream waits goes on waiting."""
        secrets = sorted((secret for secret in named if secret), key=len, reverse=True)
        self._whole = tuple((form, named[secret]) for secret in secrets for form in dict.fromkeys(_forms(secret)))
        self._pieces = {
            form[start : start + SLICE]: name
            for form, name in self._whole
            for start in range(min(len(form), LONGEST) - SLICE + 1)
        }
        self._grams = {piece[at : at + _GRAM] for piece in self._pieces for at in (0, SLICE - _GRAM)}

    def of(self, text: str) -> str:
        """``text`` without them: some 0.02 ms for each kB, and 0.5 ms where a piece of one may be in it."""
        for form, name in self._whole:
            text = text.replace(form, name)
        grams = self._grams
        if not any(text[at : at + _GRAM] in grams for at in range(0, len(text), _GRAM)):
            return text
        return "".join(self._without_pieces(text))

    def of_json(self, value: object) -> object:
        """The decoded JSON ``value`` without them: in its texts, keys and numbers."""
        match value:
            case str():
                return self.of(value)
            case list():
                return [self.of_json(item) for item in cast("list[object]", value)]
            case dict():
                return {self.of(key): self.of_json(item) for key, item in cast("dict[str, object]", value).items()}
            case bool() | None:
                return value
            case _:
                said = self.of(str(value))
                return value if said == str(value) else said

    def of_row(self, value: T) -> T:
        """``value``, Structs and what they hold, without them: all its texts but those of closed sets (a state)."""
        return cast("T", self._of_part(value)) if self._whole else value

    def _of_part(self, value: object) -> object:
        match value:
            case str():
                return self.of(value)
            case msgspec.Struct():
                hidden = {name: self._of_part(getattr(value, name)) for name in _open_fields(type(value))}
                return msgspec.structs.replace(value, **hidden)
            case dict():
                items = cast("dict[str, object]", value).items()
                return {self.of(key): self._of_part(item) for key, item in items}
            case tuple():
                return tuple(self._of_part(item) for item in cast("tuple[object, ...]", value))
            case list():
                return [self._of_part(item) for item in cast("list[object]", value)]
            case _:
                return value

    def of_stream(self, text: str) -> str:
        """The part of a stream that can be shown, now with ``text``: the beginning of a secret waits for more."""
        text, held = self._held + text, 0
        while held < len(text) and any(text[-held - 1 :] in form for form, _ in self._whole):
            held += 1
        shown = self.of(text[: len(text) - held])
        if held and not self.of(text).startswith(shown):  # one lies across: with what waits it is whole
            held, shown = len(text), ""
        self._held = text[len(text) - held :]
        return shown

    def end_stream(self) -> str:
        """The part that waited, as the stream ends; it may go on with something else."""
        text, self._held = self._held, ""
        return self.of(text)

    def _without_pieces(self, text: str) -> Iterator[str]:
        """Yield the text between pieces, and the name of a secret in place of those that overlap or touch."""
        told = at = 0
        while at + SLICE <= len(text):
            name = self._pieces.get(text[at : at + SLICE])
            if name is None:
                at += 1
                continue
            yield text[told:at]
            yield name
            at += SLICE
            while at < len(text) and text[at - SLICE + 1 : at + 1] in self._pieces:
                at += 1
            told = at
        yield text[told:]


@cache
def _open_fields(struct: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(struct) if not _is_closed(field.type))


def _is_closed(type_: object) -> bool:
    if get_origin(type_) in (Union, UnionType):
        return all(map(_is_closed, get_args(type_)))
    return get_origin(type_) is Literal or type_ in _CLOSED


_CLOSED: Final[frozenset[object]] = frozenset({int, float, bool, NoneType})


def _forms(secret: str) -> Iterator[str]:
    yield secret
    if len(secret) < SHORTEST:
        return
    secret = secret[:LONGEST]
    data = secret.encode("utf-8", "replace")
    for before in range(_GROUP):
        # What data is in base64 behind so many bytes of something else: the characters that say nothing but it.
        whole = base64.b64encode(bytes(before) + data).decode("ascii")
        encoded = whole[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        yield encoded
        yield encoded.translate(_URL_SAFE)
    yield data.hex()
    yield data.hex().upper()
    yield quote(secret, safe="")
    yield quote_plus(secret)
    yield json.dumps(secret)[1:-1]


VARIABLE_CHARACTERS: Final = 6
"""A variable is let through for a switch (``1``, ``true``) as well: what is shorter is a word like any other."""
SERVER_CHARACTERS: Final = 8
"""What an agent's own MCP server is given is taken for a secret from this length on, unless it is a path."""


def named_secrets(variables: Mapping[str, str], given_to_servers: Iterable[str]) -> dict[str, str]:
    """The secrets among what an agent's file lets through and what its MCP servers are given, each with its word."""
    words = " ".join(given_to_servers).split()
    found = {word: "[secret]" for word in words if len(word) >= SERVER_CHARACTERS and not word.startswith("/")}
    return found | {value: f"[{name}]" for name, value in variables.items() if len(value) >= VARIABLE_CHARACTERS}
