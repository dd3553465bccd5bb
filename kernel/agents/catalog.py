"""The agents of a project, as ``.agents/`` has them when one is asked for: an edit counts from the next lease.

The files are read each time; what is kept is what the same bytes came to before. A stale definition costs trust.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kernel.agents.definition import AGENT_SHAPES, Named, check_agent, convert_agent, place_at
from kernel.agents.project import ProjectFile, parse_project, read_project
from kernel.source.files import FileMissing, inside, read_bytes, read_text, tree_of
from kernel.source.located import Converter
from kernel.source.nodes import Node
from kernel.source.problems import BadDefinition, Problems, fail
from kernel.source.spelling import suggest
from protocol.agent import AgentDefinition
from protocol.api import FileError
from protocol.errors import Refused
from protocol.names import NameRejected, check_name
from protocol.project import ProjectDefinition

AGENTS: Final = ".agents"
SUFFIX: Final = ".yaml"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A definition and the file it came from, as seen from the project's root."""

    definition: AgentDefinition
    path: str


@dataclass(frozen=True, slots=True)
class Survey:
    """All agent files at once: those that are sound, and what is wrong with the others."""

    loaded: tuple[Loaded, ...]
    errors: tuple[FileError, ...]


class Catalog:
    """What the project at ``root`` defines. Reads block for microseconds."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._project: tuple[ProjectFile | None, ProjectDefinition] = (None, ProjectDefinition())
        self._agents: dict[str, tuple[bytes, ProjectDefinition, Loaded]] = {}

    def project(self) -> ProjectDefinition:
        """What the project file says, or all defaults. Raises BadDefinition."""
        file = read_project(self.root)
        if file != self._project[0]:
            self._project = (file, ProjectDefinition() if file is None else parse_project(file))
        return self._project[1]

    def names(self) -> tuple[str, ...]:
        """Names of all agent files, sorted; whether each is sound is not looked at."""
        return tuple(stem for stem in self._stems() if _is_name(stem))

    def agent(self, name: str, project: ProjectDefinition | None = None) -> Loaded:
        """The agent ``name`` as its file says now.

        Raises Refused(unknown_agent) where there is no file, BadDefinition where it is wrong.
        """
        if not _is_name(name):
            raise self._unknown(name)
        path = f"{AGENTS}/{name}{SUFFIX}"
        try:
            data = read_bytes(inside(self.root, path, path), path)
        except FileMissing:
            self._agents.pop(name, None)
            raise self._unknown(name) from None
        kept = self._agents.get(name)
        project = project or self.project()
        if kept is not None and kept[0] == data and kept[1] is project:
            return kept[2]
        loaded = Loaded(self._parse(name, path, data, project), path)
        if loaded.definition.prompt.system_file is None:  # else another file decides too
            self._agents[name] = (data, project, loaded)
        return loaded

    def _parse(self, name: str, path: str, data: bytes, project: ProjectDefinition) -> AgentDefinition:
        node, problems = tree_of(data, path)
        named = Named(name, f"the file is called {name}{SUFFIX}")
        definition = convert_agent(node, named, Converter(problems, AGENT_SHAPES), problems)
        if definition is not None:
            check_agent(definition, node, project, problems)
            self.check_system_file(definition, node, problems)
        problems.check()
        assert definition is not None
        return definition

    def system_text(self, definition: AgentDefinition, path: str = "") -> str:
        """The system prompt of ``definition``, from the file or from its ``system_file``. Raises BadDefinition.

        ``path`` is the file that an error would be in.
        """
        prompt = definition.prompt
        if prompt.system_file is None:
            return prompt.system or ""
        shown = path or f"{AGENTS}/{definition.name}{SUFFIX}"
        where = "prompt.system_file"
        try:
            return read_text(inside(self.root, prompt.system_file, shown, where), shown, where)
        except FileMissing:
            raise fail(shown, f"{prompt.system_file[:200]} is not there", where=where) from None

    def check_system_file(self, definition: AgentDefinition, node: Node, problems: Problems, where: str = "") -> None:
        """Note in ``problems`` why the ``system_file`` of ``definition`` cannot be read now, if it cannot."""
        if definition.prompt.system_file is None or definition.prompt.system is not None:
            return
        key = "prompt.system_file"
        try:
            self.system_text(definition, problems.path)
        except BadDefinition as error:
            at = f"{where}.{key}" if where else key
            problems.add(place_at(node, key), at, error.errors[0].message, error.errors[0].hint)

    def survey(self) -> Survey:
        """Every agent file. Raises BadDefinition only for the project file."""
        project = self.project()
        loaded: list[Loaded] = []
        errors: list[FileError] = []
        for stem in self._stems():
            try:
                check_name(stem)
                loaded.append(self.agent(stem, project))
            except NameRejected as error:
                path = f"{AGENTS}/{stem}{SUFFIX}"
                errors += fail(path, str(error), "rename the file").errors
            except BadDefinition as error:
                errors += error.errors
            except Refused:
                continue  # deleted since it was listed
        return Survey(tuple(loaded), tuple(errors))

    def stamp(self) -> frozenset[tuple[str, int, int]]:
        """Another one than before where an agent file came, went or was written. Cheap: nothing is read."""
        try:
            with os.scandir(self.root / AGENTS) as entries:
                files = [(entry.name, entry.stat()) for entry in entries if entry.name.endswith(SUFFIX)]
        except OSError:
            return frozenset()
        return frozenset((name, found.st_mtime_ns, found.st_size) for name, found in files)

    def _stems(self) -> tuple[str, ...]:
        try:
            found = [entry.name for entry in (self.root / AGENTS).iterdir()]
        except OSError:
            return ()
        return tuple(sorted(name.removesuffix(SUFFIX) for name in found if name.endswith(SUFFIX)))

    def _unknown(self, name: str) -> Refused:
        hint = f"{suggest(name, self.names(), what='agents here')} (each has a file {AGENTS}/<name>{SUFFIX})"
        if _is_name(name) and (self.root / AGENTS / f"{name}.yml").exists():
            hint = f"rename {AGENTS}/{name}.yml to {name}{SUFFIX}"
        return Refused("unknown_agent", f"there is no agent {name[:60]!r}", hint)


def _is_name(text: str) -> bool:
    try:
        check_name(text)
    except NameRejected:
        return False
    return True
