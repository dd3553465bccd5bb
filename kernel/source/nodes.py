"""The tree of a YAML file: three kinds of nodes that know their place."""

from dataclasses import dataclass
from typing import Final

from kernel.source.problems import Place

_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """One value as text. ``plain``: it was written without quotes, so it may be a number or nothing."""

    text: str
    plain: bool
    place: Place
    size: int = 1

    @property
    def is_null(self) -> bool:
        """Whether it says that there is no value."""
        return self.plain and self.text in _NULLS


@dataclass(frozen=True, slots=True)
class ListNode:
    """A sequence."""

    items: tuple["Node", ...]
    place: Place
    size: int = 1


@dataclass(frozen=True, slots=True)
class MapNode:
    """A mapping. Keys are unique texts, in the order of the file."""

    entries: tuple[tuple[ScalarNode, "Node"], ...]
    place: Place
    size: int = 1

    def get(self, key: str) -> "Node | None":
        """The value of ``key``, if it is there."""
        return next((value for name, value in self.entries if name.text == key), None)

    def place_of(self, key: str) -> Place:
        """Where ``key`` stands; the mapping's own place if it does not."""
        return next((name.place for name, _ in self.entries if name.text == key), self.place)


Node = ScalarNode | ListNode | MapNode
