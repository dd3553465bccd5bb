"""What ``approval`` may be called in a file beside the words that are kept."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from kernel.source.nodes import Node, ScalarNode
from protocol.agent import Approval

_MEANT: Final[Mapping[str, Approval]] = MappingProxyType({"never": "auto", "reads": "ask"})
"""never: nobody is asked. reads: what only reads goes without."""


def kept_word(node: Node) -> Node:
    """The value as it is kept."""
    if not isinstance(node, ScalarNode) or node.text not in _MEANT:
        return node
    return replace(node, text=_MEANT[node.text])
