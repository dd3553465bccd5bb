"""Values that a Struct of a file can have, and the places in them: made from its types alone, not as the loader does.

What types do not say (that a model must be known, that an action has one key) comes as strategies for single fields.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st
from msgspec import inspect as mi

Special = Mapping[tuple[str, str], st.SearchStrategy[Any] | None]
"""Strategies by the name of a Struct and a key, where the type says too little; None: the key is left out."""

TEXTS: Final = st.text(alphabet="abXY 0189.,:;#-_'\"\\/!?*&|>%@{}[]~\n\té日", min_size=1, max_size=16)
FREE: Final[st.SearchStrategy[Any]] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**17), 10**17), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(TEXTS, inner, max_size=2)),
    max_leaves=3,
)
_LARGEST: Final = 1_000_000_000


class Site(NamedTuple):
    """A value in a document: the keys that lead to it, and what it may be."""

    path: tuple[str | int, ...]
    kind: mi.Type

    @property
    def where(self) -> str:
        """The path as errors have it: ``agents.bob.mock[0]``."""
        return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.path).removeprefix(".")


def values(kind: mi.Type, special: Special) -> st.SearchStrategy[Any]:
    """What a file can say for ``kind``: plain data."""
    make = _MAKERS.get(type(kind))
    return FREE if make is None else make(kind, special)


def sites(kind: mi.Type, data: Any, path: tuple[str | int, ...] = ()) -> Iterator[Site]:
    """Every place in ``data``, which is of ``kind``, but its root and what may be anything."""
    bare = _bare(kind, data)
    if isinstance(bare, mi.AnyType):
        return
    if path:
        yield Site(path, bare)
    for key, inner, value in _parts(bare, data):
        yield from sites(inner, value, (*path, key))


def _bare(kind: mi.Type, data: Any) -> mi.Type:
    if isinstance(kind, mi.Metadata):
        return _bare(kind.type, data)
    if isinstance(kind, mi.UnionType):
        return next(bare for one in kind.types if _is(bare := _bare(one, data), data))
    return kind


def _parts(kind: mi.Type, data: Any) -> Iterator[tuple[str | int, mi.Type, Any]]:
    if isinstance(kind, mi.StructType):
        types = {field.encode_name: field.type for field in kind.fields}
        yield from ((key, types[key], value) for key, value in data.items())
    elif isinstance(kind, mi.DictType):
        yield from ((key, kind.value_type, value) for key, value in data.items())
    elif isinstance(kind, mi.VarTupleType):
        yield from ((index, kind.item_type, value) for index, value in enumerate(data))


def _is(kind: mi.Type, data: Any) -> bool:
    if isinstance(kind, mi.StructType):
        return isinstance(data, dict) and (kind.tag is None or (kind.tag == "ref") is ("ref" in data))
    return type(data) in _DATA.get(type(kind), (int, float, str))


_DATA: Final[Mapping[type[mi.Type], tuple[type, ...]]] = {
    mi.DictType: (dict,),
    mi.VarTupleType: (list,),
    mi.NoneType: (type(None),),
    mi.BoolType: (bool,),
    mi.StrType: (str,),
}


def _union(kind: mi.UnionType, special: Special) -> st.SearchStrategy[Any]:
    return st.one_of([values(one, special) for one in kind.types if not isinstance(one, mi.NoneType)])


def _keys(kind: mi.StructType, special: Special) -> st.SearchStrategy[dict[str, Any]]:
    needed: dict[str, st.SearchStrategy[Any]] = {}
    free: dict[str, st.SearchStrategy[Any]] = {}
    for field in kind.fields:
        named = (kind.cls.__name__, field.encode_name)
        strategy = special[named] if named in special else values(field.type, special)
        if strategy is not None:
            (needed if field.required else free)[field.encode_name] = strategy
    return st.fixed_dictionaries(needed, optional=free)


def _mapping(kind: mi.DictType, special: Special) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(["x", "y-1"]), values(kind.value_type, special), max_size=2)


def _number(kind: mi.FloatType, special: Special) -> st.SearchStrategy[float]:
    least, most = _bounds(kind)
    return st.floats(least, most).map(lambda number: min(max(round(number, 3), least), most))


def _bounds(kind: mi.IntType | mi.FloatType) -> tuple[Any, Any]:
    return (-_LARGEST if kind.ge is None else kind.ge, _LARGEST if kind.le is None else kind.le)


_MAKERS: Final[Mapping[type[mi.Type], Callable[[Any, Special], st.SearchStrategy[Any]]]] = {
    mi.Metadata: lambda kind, special: values(kind.type, special),
    mi.UnionType: _union,
    mi.StructType: _keys,
    mi.DictType: _mapping,
    mi.VarTupleType: lambda kind, special: st.lists(values(kind.item_type, special), max_size=2),
    mi.LiteralType: lambda kind, special: st.sampled_from(kind.values),
    mi.IntType: lambda kind, special: st.integers(*_bounds(kind)),
    mi.FloatType: _number,
    mi.BoolType: lambda kind, special: st.booleans(),
    mi.StrType: lambda kind, special: TEXTS,
}
