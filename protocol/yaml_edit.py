"""YAML reader that knows the location of each value, and editor that changes single values and no other byte.

Reading constructs no objects: every scalar is a text. It is used for files that the kernel's loader validates (agents)
and for files that contain only texts (memory). Depth, size and aliases are limited before libyaml recurses (faults
CF01-CF04). An edit changes the text at the locations that the parser reports. The result is parsed again and compared
with the intended data. A file that cannot be edited this way, for example because an anchor is used elsewhere, is
refused.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from typing import Any, Final, NamedTuple, cast

import yaml

from protocol.yaml_writer import entry, inline, text

MAX_CHARACTERS: Final = 1024 * 1024
MAX_DEPTH: Final = 64
MAX_EVENTS: Final = 40_000
MAX_ALIASES: Final = 100
_MAX_DATA: Final = 40_000
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class NotYaml(ValueError):
    """Invalid YAML, or YAML beyond the limits. The text contains the reason and the line."""


def composed(text: str) -> yaml.Node | None:
    """Parse the single document in ``text`` to nodes with locations, or None if it is empty. Raises NotYaml."""
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
                raise NotYaml("it is nested too deeply, or has too many values or aliases")
    except yaml.YAMLError as error:
        raise _not_yaml(error) from error
    try:
        return yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        raise _not_yaml(error) from error


def data_of(node: yaml.Node | None) -> object:
    """Return the data of ``node``: mappings, lists and texts; None if it is empty. Raises
    NotYaml. If a key occurs twice, the last one counts."""
    return _Data().of(node)


def read(text: str) -> object:
    """Parse ``text`` to data as ``data_of`` returns it. Raises NotYaml."""
    return data_of(composed(text))


class _Data:
    """Converter of nodes to data. The number of values is limited, because aliases of aliases multiply values."""

    def __init__(self) -> None:
        self._count = 0

    def of(self, node: yaml.Node | None, depth: int = 0) -> object:
        self._count += 1
        if self._count > _MAX_DATA or depth > MAX_DEPTH:
            raise NotYaml("it has too many values through aliases")
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
    """Return whether a scalar is empty: ``key:``, ``~`` or ``null``."""
    return isinstance(node, yaml.ScalarNode) and not node.style and node.value in {"", "~", "null", "Null", "NULL"}


def _not_yaml(error: yaml.YAMLError) -> NotYaml:
    mark = getattr(error, "problem_mark", None)
    place = f"line {mark.line + 1}: " if mark is not None else ""
    return NotYaml(f"{place}{getattr(error, 'problem', None) or getattr(error, 'reason', None) or 'not YAML'}")


_STEP: Final = 2


class Uneditable(ValueError):
    """Change that this module cannot make. The text contains the reason; the user can make the change in an editor."""


class Raw(NamedTuple):
    """Value as the user wrote it: YAML on one line."""

    yaml: str


New = str | Raw | bool | int | float | Sequence[Any] | Mapping[str, Any] | None
"""New value: a text, which is quoted if necessary; YAML; or a plain value, in which mappings may contain YAML."""


def with_value(source: str, path: Sequence[str], value: New) -> str:
    """Return ``source`` with ``value`` at the keys ``path``. Missing keys are created. Raises NotYaml, Uneditable."""
    root = composed(source)
    after = _Edit(source).put(root, tuple(path), value)
    _compare(after, _changed(data_of(root), tuple(path), _data_of_value(value)))
    return after


def without_value(source: str, path: Sequence[str]) -> str:
    """Return ``source`` without the key at the end of ``path``, and without parents that become
    empty. Raises NotYaml, Uneditable; KeyError if the key is missing."""
    root = composed(source)
    after = _Edit(source).remove(root, tuple(path))
    _compare(after, _changed(data_of(root), tuple(path), _GONE))
    return after


def without_values(source: str, names: Collection[str]) -> str:
    """Return ``source`` without the top-level keys ``names``. Raises NotYaml, Uneditable; KeyError if a key is missing
    from a file in flow style.
    """
    root = composed(source)
    mapping = _as_mapping(root, "the file") if root is not None else None
    if mapping is None or mapping.flow_style:
        return reduce(lambda text, name: without_value(text, [name]), names, source)
    rest = {key: value for key, value in cast("dict[str, object]", data_of(root)).items() if key not in names}
    after = _Edit(source).remove_all(mapping, frozenset(names))
    _compare(after, rest or _GONE)
    return after


_GONE: Final = object()


class _Edit:
    """Text that is being edited."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._newline = "\r\n" if "\r\n" in source else "\n"

    def put(self, root: yaml.Node | None, path: tuple[str, ...], value: New) -> str:
        if root is None:
            gap = "" if not self._source or self._source.endswith("\n") else self._newline
            return f"{self._source}{gap}{self._newline.join(entry_lines(path, value, 0))}{self._newline}"
        node, depth = _as_mapping(root, "the file"), 0
        while True:
            found = [pair for pair in node.value if pair[0].value == path[depth]]
            if len(found) > 1:
                raise Uneditable(f"{path[depth]} occurs twice")
            if not found:
                return self._insert(node, path[depth:], value)
            key, old = found[0]
            depth += 1
            if depth == len(path):
                return self._replace(key, old, node, value)
            if is_null(old) or (isinstance(old, yaml.MappingNode) and not old.value):
                return self._replace(key, old, node, _nested(path[depth:], value))
            node = _as_mapping(old, ".".join(path[:depth]))

    def remove(self, root: yaml.Node | None, path: tuple[str, ...]) -> str:
        above: list[tuple[yaml.MappingNode, int]] = []
        node = root
        for key in path:
            mapping = _as_mapping(node, "its parent") if node is not None else None
            place = next((i for i, (k, _) in enumerate(mapping.value) if k.value == key), None) if mapping else None
            if mapping is None or place is None:
                raise KeyError(".".join(path))
            above.append((mapping, place))
            node = mapping.value[place][1]
        while len(above) > 1 and len(above[-1][0].value) == 1:
            above.pop()
        return self._cut(*above[-1])

    def remove_all(self, mapping: yaml.MappingNode, names: Collection[str]) -> str:
        for place in reversed(range(len(mapping.value))):  # from the end, so that earlier marks remain valid
            if mapping.value[place][0].value in names:
                self._source = self._cut(mapping, place)
        return self._source

    def _replace(self, key: yaml.Node, old: yaml.Node, mapping: yaml.MappingNode, value: New) -> str:
        start, end = old.start_mark.index, self._end(old)
        if mapping.flow_style:
            lead = "" if start > key.end_mark.index + 1 else " "
            return self._spliced(start, end, lead + _flow(value))
        head, *more = _value_lines(value, key.start_mark.column)
        if start == end or not head or old.start_mark.line != key.end_mark.line:
            start = self._source.index(":", key.end_mark.index) + 1
            end, head = max(start, end), f" {head}".rstrip()
        if not more:
            return self._spliced(start, end, head)
        line_end = self._line_end(end)  # the rest of the line is a comment, which stays on the first line
        rest = self._source[end:line_end]
        return self._spliced(start, line_end, self._newline.join([f"{head}{rest if rest.strip() else ''}", *more]))

    def _insert(self, mapping: yaml.MappingNode, path: tuple[str, ...], value: New) -> str:
        if mapping.flow_style or not mapping.value:
            inner = _flow(_nested(path, value))[1:-1]
            at = self._end(mapping.value[-1][1]) if mapping.value else mapping.start_mark.index + 1
            return self._spliced(at, at, f", {inner}" if mapping.value else inner)
        lines = entry_lines(path, value, mapping.start_mark.column)
        at = self._line_end(self._end(mapping.value[-1][1]))
        return self._spliced(at, at, self._newline + self._newline.join(lines))

    def _cut(self, mapping: yaml.MappingNode, place: int) -> str:
        key, value = mapping.value[place]
        start, end = key.start_mark.index, self._end(value)
        if mapping.flow_style:
            if place + 1 < len(mapping.value):
                return self._spliced(start, mapping.value[place + 1][0].start_mark.index, "")
            return self._spliced(self._end(mapping.value[place - 1][1]) if place else start, end, "")
        line = self._source.rfind("\n", 0, start) + 1
        if self._source[line:start].strip(" "):
            raise Uneditable(f"{key.value} is not on a separate line")
        return self._spliced(line, min(self._line_end(end) + len(self._newline), len(self._source)), "")

    def _end(self, node: yaml.Node) -> int:
        if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
            last = node.value[-1]
            return self._end(last[1] if isinstance(node, yaml.MappingNode) else last)
        start, end = node.start_mark.index, node.end_mark.index
        if isinstance(node, yaml.ScalarNode) and node.style in {"|", ">"}:
            return start + len(self._source[start:end].rstrip())
        return end

    def _line_end(self, place: int) -> int:
        found = self._source.find("\n", place)
        if found < 0:
            return len(self._source)
        return found - 1 if self._newline == "\r\n" and self._source[found - 1 : found] == "\r" else found

    def _spliced(self, start: int, end: int, new: str) -> str:
        return self._source[:start] + new + self._source[end:]


def entry_lines(path: Sequence[str], value: New, indent: int) -> list[str]:
    """Return the lines of the last key of ``path``, nested in the keys before it."""
    margin = " " * indent
    first, *rest = path
    if rest:
        return [f"{margin}{inline(first)}:", *entry_lines(rest, value, indent + _STEP)]
    head, *more = _value_lines(value, indent)
    return [f"{margin}{inline(first)}: {head}".rstrip(), *more]


def _value_lines(value: New, indent: int) -> list[str]:
    match value:
        case Raw():
            return [value.yaml]
        case str():
            return text(value, indent + _STEP).split("\n")
        case Mapping() if any(isinstance(item, Raw) for item in value.values()):
            return ["", *(line for name, item in value.items() for line in entry_lines([name], item, indent + _STEP))]
        case _:
            lines = entry("x", value, indent)
            return [lines[0].partition(":")[2].lstrip(), *lines[1:]]


def _flow(value: New) -> str:
    match value:
        case Raw():
            return value.yaml
        case Mapping():
            return "{" + ", ".join(f"{inline(name)}: {_flow(item)}" for name, item in value.items()) + "}"
        case _:
            return inline(value)


def _nested(path: Sequence[str], value: New) -> Mapping[str, Any]:
    first, *rest = path
    return {first: _nested(rest, value) if rest else value}


def _as_mapping(node: yaml.Node, name: str) -> yaml.MappingNode:
    if not isinstance(node, yaml.MappingNode):
        raise Uneditable(f"{name} is not a mapping of keys to values")
    return node


def _data_of_value(value: New) -> object:
    match value:
        case Raw():
            return data_of(composed(value.yaml))
        case str() | None:
            return value
        case bool() | int() | float():
            return inline(value)
        case Mapping():
            return {name: _data_of_value(item) for name, item in value.items()}
        case _:
            return [_data_of_value(item) for item in value]


def _compare(after: str, wanted: object) -> None:
    """Raise Uneditable unless the data of ``after`` equals ``wanted`` (_GONE: no data)."""
    try:
        found = data_of(composed(after))
    except NotYaml as error:
        raise Uneditable(f"the form of the file does not allow it ({error})") from error
    if found != (None if wanted is _GONE else wanted):
        raise Uneditable("the form of the file does not allow it (an alias, perhaps)")


def _changed(data: object, path: tuple[str, ...], meant: object) -> object:
    if not path:
        return meant
    old = cast("dict[str, object]", data) if isinstance(data, dict) else {}
    new = _changed(old.get(path[0]), path[1:], meant)
    rest = {name: item for name, item in old.items() if name != path[0]}
    if new is _GONE:
        return rest or _GONE
    return {**rest, path[0]: new}
