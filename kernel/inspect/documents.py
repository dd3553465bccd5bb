"""What Structs say of themselves in their source: the text below each field. Nothing else in Python keeps it."""

import ast
import inspect
from functools import cache

import msgspec

from protocol.agent import AgentDefinition
from protocol.workflow import Ref


def field_texts(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Name of a field -> what it means, on one line; fields that nobody explained are left out."""
    return _written(AgentDefinition) | _written(Ref) if kind is Ref else _written(kind)


@cache
def _written(kind: type[msgspec.Struct]) -> dict[str, str]:
    """As the docstrings below the fields say."""
    tree = ast.parse(inspect.getsource(kind))
    (node,) = tree.body
    assert isinstance(node, ast.ClassDef)
    texts: dict[str, str] = {}
    for before, after in zip(node.body, node.body[1:], strict=False):
        if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name) and _text(after):
            texts[before.target.id] = _text(after)
    return texts


def class_text(kind: type[msgspec.Struct]) -> str:
    """The first paragraph of the docstring of ``kind``, on one line."""
    return _prose((kind.__doc__ or "").partition("\n\n")[0])


def whole_text(kind: type[msgspec.Struct]) -> list[str]:
    """Every paragraph of the docstring of ``kind``."""
    return [_prose(paragraph) for paragraph in (kind.__doc__ or "").split("\n\n")]


def _prose(text: str) -> str:
    return " ".join(text.replace("``", "`").split())


def _text(node: ast.stmt) -> str:
    constant = node.value if isinstance(node, ast.Expr) else None
    if isinstance(constant, ast.Constant) and isinstance(constant.value, str):
        return _prose(constant.value)
    return ""
