"""A definition as plain values, and where each of them came from. Driven by the Structs' own types.

A mock script is one value: its short forms have been written out, and no line of the file says what they became.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, get_args, get_origin

import msgspec

from kernel.source.nodes import ListNode, MapNode, Node
from kernel.source.scalars import Quantity, quantity_of
from protocol.agent import Rule

DEFAULT: Final = "default"


@dataclass(frozen=True, slots=True)
class Layer:
    """A file, as far as it speaks of the thing: its name and the node. ``note`` says how it gets a word in."""

    file: str
    node: Node
    note: str = ""

    def under(self, key: str) -> "Layer | None":
        """What it says of ``key``; None where it is silent."""
        child = self.node.get(key) if isinstance(self.node, MapNode) else None
        return None if child is None else Layer(self.file, child, self.note)

    def item(self, index: int) -> "Layer | None":
        """What it says at ``index`` of a list; None where it wrote that in another shape."""
        items = self.node.items if isinstance(self.node, ListNode) else ()
        return Layer(self.file, items[index], self.note) if index < len(items) else None

    @property
    def origin(self) -> str:
        """``file:line``, and the note."""
        return f"{self.file}:{self.node.place.line}{f' ({self.note})' if self.note else ''}"


@dataclass(slots=True)
class Resolving:
    """Values on their way out. ``origins`` grows as they are written. ``hidden`` are keys no file may have."""

    hidden: frozenset[tuple[type, str]] = frozenset()
    origins: dict[str, str] = field(default_factory=dict[str, str])

    def struct(
        self, value: msgspec.Struct, layers: Sequence[Layer], where: str, skip: frozenset[str] = frozenset()
    ) -> dict[str, Any]:
        """``value`` by the keys of its file. The first of ``layers`` that has a key is where it came from."""
        plain: dict[str, Any] = {}
        for info in msgspec.structs.fields(value):
            own = getattr(value, info.name)
            if info.name in skip or (own is None and (type(value), info.encode_name) in self.hidden):
                continue
            said = [under for layer in layers if (under := layer.under(info.encode_name)) is not None]
            at = join(where, info.encode_name)
            # A key that a workflow overrides is its own in whole; of a prompt, each key by itself.
            merged = said if info.name == "prompt" else said[:1]
            plain[info.encode_name] = self.value(own, merged, at, quantity_in(info.type))
        return plain

    def value(self, value: object, layers: Sequence[Layer], where: str, quantity: Quantity | None = None) -> object:
        """Any value; what has no keys of its own is one, with one origin."""
        if isinstance(value, msgspec.Struct):
            return self.struct(value, layers, where)
        if isinstance(value, tuple) and value and _has_keys(value[0]):
            return [self._item(item, layers, f"{where}[{index}]", index) for index, item in enumerate(value)]
        if isinstance(value, Mapping) and value:
            return {str(key): self._entry(child, layers, where, str(key)) for key, child in value.items()}
        self.origins[where] = layers[0].origin if layers else DEFAULT
        if quantity is not None and isinstance(value, int | float):
            return quantity.show(value)
        return msgspec.to_builtins(value)

    def _item(self, item: object, layers: Sequence[Layer], where: str, index: int) -> object:
        found = layers[0].item(index) if layers else None
        plain = self.value(item, (found or layers[0],) if layers else (), where)
        return plain if not isinstance(plain, dict) else {k: v for k, v in plain.items() if v is not None}

    def _entry(self, child: object, layers: Sequence[Layer], where: str, key: str) -> object:
        found = layers[0].under(key) if layers else None
        return self.value(child, (found or layers[0],) if layers else (), join(where, key))


def _has_keys(item: object) -> bool:
    return isinstance(item, msgspec.Struct) and not isinstance(item, Rule)


def join(where: str, key: str) -> str:
    """The path of ``key`` below ``where``."""
    return f"{where}.{key}" if where else key


def quantity_in(kind: Any) -> Quantity | None:
    """What a field of this type is written as, where that is a number with a unit."""
    if get_origin(kind) is Annotated:
        metas = (part for part in get_args(kind) if isinstance(part, msgspec.Meta))
        return next((found for meta in metas if (found := quantity_of(meta)) is not None), None)
    return next((found for part in get_args(kind) if (found := quantity_in(part)) is not None), None)
