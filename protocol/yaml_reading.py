"""YAML that commands read by themselves: where each value stands, every scalar a text, nothing constructed.

For files whose meaning the kernel's loader judges (agents), and for those that have none but texts (memory). Bounded
before libyaml recurses: depth, size and aliases (faults CF01-CF04).
"""

from typing import Any, Final

import yaml

MAX_CHARACTERS: Final = 1024 * 1024
MAX_DEPTH: Final = 64
MAX_EVENTS: Final = 40_000
MAX_ALIASES: Final = 100
_MAX_DATA: Final = 40_000
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class NotYaml(ValueError):
    """The text is no YAML, or more of it than anybody writes. The text says what, and in which line."""


def composed(text: str) -> yaml.Node | None:
    """The one document in ``text``, as nodes that know their places; None where there is none. Raises NotYaml."""
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise NotYaml("it is not UTF-8 text")
    if len(text) > MAX_CHARACTERS:
        raise NotYaml(f"it is longer than {MAX_CHARACTERS} characters")
    depth = aliases = 0
    try:
        for count, event in enumerate(yaml.parse(text, Loader=_LOADER)):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            aliases += isinstance(event, yaml.AliasEvent)
            if count > MAX_EVENTS or depth > MAX_DEPTH or aliases > MAX_ALIASES:
                raise NotYaml("it is nested too deep, or has too many values or aliases")
    except yaml.YAMLError as error:
        raise _not_yaml(error) from error
    try:
        return yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        raise _not_yaml(error) from error


def data_of(node: yaml.Node | None) -> object:
    """The data of ``node``: mappings, lists and texts; None for nothing. Raises NotYaml.

    Of a key that is there twice the last counts.
    """
    return _Data().of(node)


def read(text: str) -> object:
    """The data of ``text``, as ``data_of`` has it. Raises NotYaml."""
    return data_of(composed(text))


class _Data:
    """Counts what it makes, so that aliases of aliases end."""

    def __init__(self) -> None:
        self._made = 0

    def of(self, node: yaml.Node | None, depth: int = 0) -> object:
        self._made += 1
        if self._made > _MAX_DATA or depth > MAX_DEPTH:
            raise NotYaml("it repeats itself by aliases without end")
        if isinstance(node, yaml.MappingNode):
            data: dict[str, object] = {}
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    raise NotYaml(f"line {key.start_mark.line + 1}: a key is not a text")
                data[str(key.value)] = self.of(value, depth + 1)
            return data
        if isinstance(node, yaml.SequenceNode):
            return [self.of(item, depth + 1) for item in node.value]
        return None if node is None or is_null(node) else node.value


def is_null(node: yaml.Node) -> bool:
    """Return whether a scalar says nothing: ``key:``, ``~`` or ``null``."""
    return isinstance(node, yaml.ScalarNode) and not node.style and node.value in {"", "~", "null", "Null", "NULL"}


def _not_yaml(error: yaml.YAMLError) -> NotYaml:
    mark = getattr(error, "problem_mark", None)
    place = f"line {mark.line + 1}: " if mark is not None else ""
    return NotYaml(f"{place}{getattr(error, 'problem', None) or getattr(error, 'reason', None) or 'not YAML'}")
