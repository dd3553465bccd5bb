"""Parse YAML text into a tree of nodes with their locations: scalars (as text), lists and mappings.

The type of a key determines the meaning of its scalar. The tree is built from libyaml's events, without the
construction of objects: tags are refused, YAML 1.1 types are not guessed, and depth, size and aliases are counted while
reading. The cost of any input is therefore bounded (faults CF01-CF06).
"""

from collections.abc import Callable, Container, Mapping
from typing import Any, Final, cast

import msgspec
import yaml

from kernel.source.diagnostics import Diagnostics, Location

_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})


class ScalarNode(msgspec.Struct, frozen=True):
    """Value as text. ``plain``: it has no quotes, so that it may be a number or null."""

    text: str
    plain: bool
    place: Location
    size: int = 1

    @property
    def is_null(self) -> bool:
        """Return whether the scalar is null."""
        return self.plain and self.text in _NULLS


class ListNode(msgspec.Struct, frozen=True):
    """A sequence."""

    items: tuple["Node", ...]
    place: Location
    size: int = 1


class MapNode(msgspec.Struct, frozen=True):
    """A mapping. Keys are unique texts, in the order of the file."""

    entries: tuple[tuple[ScalarNode, "Node"], ...]
    place: Location
    size: int = 1

    def get(self, key: str) -> "Node | None":
        """Return the value of ``key``, or None."""
        return next((value for name, value in self.entries if name.text == key), None)

    def place_of(self, key: str) -> Location:
        """Return the location of ``key``; the location of the mapping if the key is missing."""
        return next((name.place for name, _ in self.entries if name.text == key), self.place)

    def without(self, keys: Container[str]) -> "MapNode":
        """Return the mapping without the entries of ``keys``."""
        return MapNode(tuple(entry for entry in self.entries if entry[0].text not in keys), self.place)


Node = ScalarNode | ListNode | MapNode


MAX_BYTES: Final = 1024 * 1024
MAX_DEPTH: Final = 64
MAX_NODES: Final = 10_000
"""Aliases count with the size of their targets, so that a YAML bomb is refused before it is expanded."""
MAX_ALIASES: Final = 100

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_HINTS: Final = (
    ("that cannot start any token", "a tab, '@', '`' or '%' cannot start a value: indent with spaces, or use quotes"),
    ("mapping values are not allowed", "a text that contains ': ' needs quotes, or a '|' block"),
    ("could not find expected ':'", "every key ends in ':'; a long text belongs in a '|' block"),
    ("did not find expected key", "check the indentation, and that quotes are closed"),
    ("did not find expected '-' indicator", "check the indentation of the list"),
    ("undefined alias", None),
    ("while scanning a quoted scalar", "the quotes are not closed"),
)


def parse_yaml(text: str, problems: Diagnostics) -> Node | None:
    """Return the document in ``text``; None if it is empty or invalid (``problems`` has the reason).

    Duplicate keys and tags are reported and parsing continues; syntax errors and exceeded limits end it.
    """
    builder = _Builder(problems)
    loader = _LOADER(text)
    try:
        while not builder.stopped and loader.check_event():
            builder.take(loader.get_event())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        place = Location(mark.line + 1, mark.column + 1) if mark is not None else _reader_place(error, problems)
        said = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read")
        full = f"{getattr(error, 'context', None) or ''} {said}"
        hint = next((hint for part, hint in _HINTS if part in full), None)
        problems.add(place, "", f"not YAML: {said}", hint)
        return None
    finally:
        loader.dispose()
    return None if builder.stopped else builder.root


def decode_utf8(data: bytes, problems: Diagnostics) -> str:
    """Return ``data`` as text without a byte order mark; report an invalid byte and return ""."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
        place = Location(before.count(b"\n") + 1, column)
        problems.add(place, "", f"byte 0x{data[error.start]:02x} is not UTF-8", "save the file as UTF-8 text")
        return ""


def _reader_place(error: yaml.YAMLError, problems: Diagnostics) -> Location:
    text = problems.text
    offset = next(
        (
            i
            for i, char in enumerate(text)
            if not (char in "\t\n\r\x85" or " " <= char <= "~" or (char >= "\xa0" and char not in "\ufffe\uffff\ufeff"))
        ),
        len(text),
    )
    return Location(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


class _OpenCollection(msgspec.Struct):
    """Collection whose end has not been read."""

    place: Location
    anchor: str | None
    is_map: bool
    children: list[Node] = msgspec.field(default_factory=list[Node])
    keys: dict[str, Location] = msgspec.field(default_factory=dict[str, Location])
    pairs: list[tuple[ScalarNode, Node]] = msgspec.field(default_factory=list[tuple[ScalarNode, Node]])
    key: ScalarNode | None = None
    skip_value: bool = False
    size: int = 1


class _Builder:
    """Builds a tree from events, iteratively: the depth of a document never becomes the depth of the stack."""

    def __init__(self, problems: Diagnostics) -> None:
        self.root: Node | None = None
        self.stopped = False
        self._problems = problems
        self._open: list[_OpenCollection] = []
        self._anchors: dict[str, Node | None] = {}
        self._aliases = 0
        self._nodes = 0
        self._documents = 0

    def take(self, event: Any) -> None:
        handler = _HANDLERS.get(cast("type[object]", type(event)))
        if handler is not None:
            handler(self, event)

    def document(self, event: Any) -> None:
        self._documents += 1
        if self._documents > 1:
            self._stop(_place(event), "a second document starts here", "one file holds one definition; remove '---'")

    def scalar(self, event: Any) -> None:
        self._refuse_tag(event)
        if "\0" in event.value:
            self._problems.add(_place(event), self._where(), "the text contains a NUL character")
        node = ScalarNode(event.value, not event.style, _place(event))
        self._anchor(event.anchor, node)
        self._put(node)

    def alias(self, event: Any) -> None:
        place = _place(event)
        self._aliases += 1
        target = self._anchors.get(event.anchor)
        if self._aliases > MAX_ALIASES:
            self._stop(place, f"more than {MAX_ALIASES} aliases")
        elif event.anchor not in self._anchors:
            self._stop(place, f"alias *{event.anchor[:40]} has no anchor above it")
        elif target is None:
            self._stop(place, f"alias *{event.anchor[:40]} is inside its own anchor")
        else:
            self._put(target, place)

    def start(self, event: Any) -> None:
        self._refuse_tag(event)
        if len(self._open) >= MAX_DEPTH:
            self._stop(_place(event), f"nested deeper than {MAX_DEPTH} levels")
            return
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._open.append(_OpenCollection(_place(event), event.anchor, isinstance(event, yaml.MappingStartEvent)))

    def end(self, _event: Any) -> None:
        done = self._open.pop()
        node: Node
        if done.is_map:
            node = MapNode(tuple(done.pairs), done.place, done.size)
        else:
            node = ListNode(tuple(done.children), done.place, done.size)
        self._anchor(done.anchor, node)
        self._put(node)

    def _put(self, node: Node, place: Location | None = None) -> None:
        at = place or node.place
        self._nodes += node.size if place or isinstance(node, ScalarNode) else 1
        if self._nodes > MAX_NODES:
            self._stop(at, f"more than {MAX_NODES} values, aliases counted at their full size")
        elif not self._open:
            self.root = node
        else:
            top = self._open[-1]
            top.size += node.size
            if not top.is_map:
                top.children.append(node)
            elif top.key is None and not top.skip_value:
                self._key(top, node, at)
            else:
                if top.key is not None:
                    top.pairs.append((top.key, node))
                top.key, top.skip_value = None, False

    def _key(self, top: _OpenCollection, node: Node, at: Location) -> None:
        if not isinstance(node, ScalarNode):
            fault, hint = "a key must be a plain word", "quote the value if it starts with '[' or '{'"
        elif node.is_null:
            fault, hint = "a key is missing before ':'", "write the key's name"
        elif node.plain and node.text == "<<":
            fault, hint = "merge keys (<<) are not supported", "repeat the keys, or use an alias for a whole value"
        else:
            fault = hint = ""
        if fault or not isinstance(node, ScalarNode):
            self._problems.add(at, self._where(), fault, hint)
            top.skip_value = True
            return
        earlier = top.keys.get(node.text)
        if earlier is not None:
            where = ".".join(filter(None, (self._where(), node.text)))
            message = f"the key {node.text!r} is given twice: on line {earlier.line} and on line {at.line}"
            self._problems.add(at, where, message, "keep one of them")
            top.skip_value = True
            return
        top.keys[node.text] = at
        top.key = ScalarNode(node.text, node.plain, at)

    def _anchor(self, name: str | None, node: Node) -> None:
        if name is not None:
            self._anchors[name] = node

    def _refuse_tag(self, event: Any) -> None:
        if event.tag is not None:
            hint = "remove it: the key determines the type of its value"
            self._problems.add(_place(event), self._where(), f"the tag {event.tag[:60]!r} is not allowed", hint)

    def _where(self) -> str:
        parts = [
            f".{frame.key.text}" if frame.key is not None else "" if frame.is_map else f"[{len(frame.children)}]"
            for frame in self._open
        ]
        return "".join(parts).lstrip(".")[:200]

    def _stop(self, place: Location, message: str, hint: str | None = None) -> None:
        self._problems.add(place, self._where(), message, hint)
        self.stopped = True


def _place(event: Any) -> Location:
    return Location(event.start_mark.line + 1, event.start_mark.column + 1)


_HANDLERS: Final[Mapping[type[object], Callable[[_Builder, Any], None]]] = {
    yaml.DocumentStartEvent: _Builder.document,
    yaml.ScalarEvent: _Builder.scalar,
    yaml.AliasEvent: _Builder.alias,
    yaml.SequenceStartEvent: _Builder.start,
    yaml.MappingStartEvent: _Builder.start,
    yaml.SequenceEndEvent: _Builder.end,
    yaml.MappingEndEvent: _Builder.end,
}
