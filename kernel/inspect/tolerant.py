"""The agents of a project whose project file may be wrong: its mistakes are kept, and the rest is looked at anyway."""

import re
from typing import Final

from kernel.agents.catalog import Catalog
from kernel.agents.declared import place_of
from kernel.agents.project import read_project
from kernel.source.files import tree_of
from kernel.source.nodes import Node
from kernel.source.problems import BadDefinition
from protocol.api.problem import FileError
from protocol.project import ProjectDefinition

_NO_PROVIDER: Final = "unknown provider"
_NO_TOOL: Final = "unknown tool"
_NO_AGENT: Final = re.compile(r"there is no agent '([^']*)'")
"""How mistakes begin that may only follow from a project file that could not be read."""


class TolerantCatalog(Catalog):
    """A catalog that takes a project file with mistakes for an empty one. ``broken`` has the mistakes."""

    broken: tuple[FileError, ...] = ()
    _empty = ProjectDefinition()

    def project(self) -> ProjectDefinition:
        """What the project file says; all defaults where it is wrong."""
        if self.broken:
            return self._empty
        try:
            return super().project()
        except BadDefinition as error:
            self.broken = error.errors
            return self._empty

    def meant(self, errors: tuple[FileError, ...]) -> tuple[FileError, ...]:
        """``errors`` without those that only follow from the project file's."""
        if not self.broken:
            return errors
        tree = self._tree()
        return tuple(one for one in errors if not _follows(one, tree))

    def _tree(self) -> Node | None:
        """The project file as far as it is YAML."""
        try:
            file = read_project(self.root)
            return None if file is None else tree_of(file.data, file.name)[0]
        except BadDefinition:
            return None


def _follows(error: FileError, tree: Node | None) -> bool:
    """Whether the project file would have defined what ``error`` misses; where nobody can tell, it would."""
    if error.message.startswith((_NO_PROVIDER, _NO_TOOL)):
        return True
    missed = _NO_AGENT.match(error.message)
    return missed is not None and (tree is None or place_of(tree, missed[1]) is not tree.place)
