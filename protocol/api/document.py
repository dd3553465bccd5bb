"""What all documents of the REST API are made from."""

import msgspec


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an answer, or one without a schema."""


class Document(Body, frozen=True, kw_only=True):
    """An answer of its own. Every subclass fixes its schema, which is declared here so that it comes first."""

    schema: str


class Ask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client sends: a field that is not known is refused."""
