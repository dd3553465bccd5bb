"""The catalog of a project's agents, as currently defined by their files: an edit applies from the next lease.

Agents of the user in ``~/.agents`` are available in every project that has no agent of the same name. They need trust
like the project's agents, because their commands refer to files of the project.

A stale definition could bypass trust: a file is read again unless it is certainly unchanged. An agent created at
run time (``awk agent create --ephemeral``, POST /agents) is checked by the rules of the agent file.
"""

import os
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any, Final

import msgspec

from kernel.agents.definition import AGENT_SHAPES, NameSource, check_agent, check_partial, convert_agent, place_at
from kernel.agents.project import PROJECT_FILES, Parsed, ProjectFileContent, parse_project, place_of, read_project
from kernel.agents.providers import MOCK
from kernel.agents.resources import KEYS, resources_of
from kernel.policy.creation import instance_of
from kernel.source.convert import Converter
from kernel.source.diagnostics import BadDefinition, Diagnostics, fail, suggest
from kernel.source.files import FileMissing, FileStat, StatCache, folder_errors, inside, read_bytes, read_text, tree_of
from kernel.source.yaml_tree import Node
from protocol.agent import AgentDefinition, model_names
from protocol.agent_layout import HOME, default_dir
from protocol.api.agents import AgentRequest
from protocol.api.document import FileError
from protocol.errors import Refused
from protocol.names import NameRejected, check_name, is_name, split_instance
from protocol.project import ProjectDefinition

AGENTS: Final = ".agents"
SUFFIX: Final = ".yaml"
MOST_TOUCHED: Final = 100
"""Changed files from which on reading all of them is faster than finding their agents."""


class LoadedAgent(msgspec.Struct, frozen=True):
    """A definition and its file, relative to the project root."""

    definition: AgentDefinition
    path: str


class AgentScan(msgspec.Struct, frozen=True):
    """Result of reading all agent files: the valid definitions, and the errors of the others."""

    loaded: tuple[LoadedAgent, ...]
    errors: tuple[FileError, ...]
    broken: tuple[tuple[str, tuple[FileError, ...]], ...] = ()
    """``errors`` by the name of the agent that they make unavailable."""
    whole: bool = True
    """False if the time limit was reached before all files were read."""


class _CachedAgent(msgspec.Struct, frozen=True):
    """A cached agent file: its stat before the read, its content, and the parsed agent.

    ``prompt`` is the stat of its ``system_file``, which must be unchanged too; None without one.
    """

    seen: FileStat
    prompt: FileStat | None
    data: bytes
    project: ProjectDefinition
    loaded: LoadedAgent
    linked: bool
    """One of the files is a link, so a change of any file may be its change."""


class Catalog:
    """The definitions of the project at ``root``, and of the user if ``home`` is given. Reads block briefly."""

    def __init__(self, root: Path, home: Path | None = None) -> None:
        self.root, self._root = root, str(root)
        self._home = root if home is None else home
        self._has_home = os.path.realpath(self._home) != os.path.realpath(root)
        self._glances = StatCache()
        self._project_paths = tuple(str(root / file) for file in PROJECT_FILES)
        self._project_seen: tuple[FileStat, ...] = ()
        self._project: tuple[ProjectFileContent | None, Parsed] = (None, Parsed(ProjectDefinition()))
        self._agents: dict[str, _CachedAgent] = {}

    def project(self) -> ProjectDefinition:
        """Return the definition in the project file, or the defaults without one; invalid agents are left out.

        Raises BadDefinition.
        """
        seen = tuple(map(self._glances.at, self._project_paths))
        if seen != self._project_seen or not all(one.settled for one in seen):
            file = read_project(self.root)
            if file != self._project[0]:
                self._project = (file, Parsed(ProjectDefinition()) if file is None else parse_project(file))
            self._project_seen = seen
        return self._project[1].definition

    def names(self) -> tuple[str, ...]:
        """Return the sorted names of all agents, valid or not."""
        declared = {*self.kept_project().agents, *self._project[1].broken}
        return tuple(sorted(name for name in {*self._stems(), *declared} if is_name(name)))

    def defines(self, name: str) -> bool:
        """Return whether an agent ``name`` is defined, valid or not, without reading other agents."""
        project = self.kept_project()
        group, number = split_instance(name)
        if number:  # the number of instances of a file that was never valid is unknown
            inline, kept = project.agents.get(group), self._agents.get(group)
            known = inline if kept is None else kept.loaded.definition
            most = known.replicas or 1 if isinstance(known, AgentDefinition) else number + 1
            return self.defines(group) and number <= most > 1
        declared = name in project.agents or name in self._project[1].broken
        return is_name(name) and (declared or os.path.lexists(self.place(self._path(name, project))))

    def place(self, path: str) -> str:
        """Return the absolute path of a file displayed as ``path``; links are not followed."""
        return f"{self._home}/{path.removeprefix(HOME)}" if path.startswith(HOME) else f"{self._root}/{path}"

    def users_folder(self) -> Path | None:
        """Return the folder of the user's agents; None if the project is the user's home."""
        return self._home / AGENTS if self._has_home else None

    def kept_project(self) -> ProjectDefinition:
        """Return the definition of the project; if the file is invalid now, the last valid one."""
        with suppress(BadDefinition):
            self.project()
        return self._project[1].definition

    def file_of(self, name: str) -> str:
        """Return the file that defines the agent ``name``, valid or not."""
        return self._path(name, self.kept_project())

    def agent(self, name: str, project: ProjectDefinition | None = None) -> LoadedAgent:
        """Return the current definition of the agent ``name``.

        Raises Refused(unknown_agent) if there is no file, BadDefinition if it is invalid.
        """
        if not is_name(name):
            return self._instance(name, project)
        project = project or self.project()
        if name in self._project[1].broken:
            raise BadDefinition(self._project[1].broken[name])
        own = f"{AGENTS}/{name}{SUFFIX}"
        seen = FileStat(None, True) if name in project.agents else self._glances.at(self.place(own))
        path = self._path(name, project) if seen.signature is None else own
        # Raise BadDefinition if both the project file and a file of its own define the agent (CF09).
        if path != own and os.path.lexists(self.root / own):
            message = f"{name} is defined twice: in {path} and in {own}"
            raise self._bad_entry(name, message, "keep one of them, or choose another name")
        inline = project.agents.get(name)
        if isinstance(inline, AgentDefinition):
            self.system_text(inline, path)
            return LoadedAgent(inline, path)
        if inline is not None or path != own:
            seen = self._glances.at(self.place(path))
        kept = self._agents.get(name)
        if kept is not None and (kept.project is not project or kept.loaded.path != path):
            kept = None
        if kept is not None and seen.settled and kept.seen == seen and self._prompt_settled(kept):
            return kept.loaded
        try:
            users = path.startswith(HOME)
            file = inside(self._home if users else self.root, path.removeprefix(HOME), path)
            data = read_bytes(file, path)
        except FileMissing:
            self._agents.pop(name, None)
            if inline is not None:
                raise self._bad_entry(name, f"file {path} not found", "correct the path, or remove the entry") from None
            raise self._unknown(name) from None
        loaded = None
        if kept is not None and kept.data == data:
            with suppress(BadDefinition):  # reported with its location when the file is parsed
                self.system_text(kept.loaded.definition, path)
                loaded = kept.loaded
        if loaded is None:
            loaded = LoadedAgent(self.parse(name, path, data, project), path)
        prompt_file = loaded.definition.prompt.system_file
        # A stat after the read is safe: it counts as settled only if the file has not changed for a while before.
        prompt = None if prompt_file is None else self._glances.at(f"{self.root}/{prompt_file}")
        linked = any(map(os.path.islink, (self.place(path), f"{self._root}/{prompt_file or ''}")))
        self._agents[name] = _CachedAgent(seen, prompt, data, project, loaded, linked)
        return loaded

    def _instance(self, name: str, project: ProjectDefinition | None) -> LoadedAgent:
        group, number = split_instance(name)
        found = instances_of(self.agent(group, project))[number - 1 : number] if number else ()
        if not found:
            raise self._unknown(name)
        return found[0]

    def _prompt_settled(self, kept: _CachedAgent) -> bool:
        if kept.prompt is None:
            return True
        seen = self._glances.at(f"{self.root}/{kept.loaded.definition.prompt.system_file}")
        return seen.settled and seen == kept.prompt

    def parse(self, name: str, path: str, data: bytes, project: ProjectDefinition) -> AgentDefinition:
        """Parse ``data`` as the file ``path`` of the agent ``name``. Raises BadDefinition."""
        node, problems = tree_of(data, path)
        own = PurePath(path).stem == name
        named = NameSource(name, f"the file is named {name}{SUFFIX}" if own else "the project file names it so")
        definition = convert_agent(node, named, Converter(problems, AGENT_SHAPES), problems)
        elsewhere: tuple[FileError, ...] = ()
        if definition is None:
            check_partial(node, named, project, problems)
        else:
            check_agent(definition, node, project, problems)
            self.check_system_file(definition, node, problems)
            elsewhere = self.check_resources(definition, node, project, problems)
        problems.check()
        if elsewhere:
            raise BadDefinition(elsewhere)
        assert definition is not None
        return definition

    def system_text(self, definition: AgentDefinition, path: str = "") -> str:
        """Return the system prompt of ``definition`` or of its ``system_file``. Raises BadDefinition.

        ``path`` is the file to name in an error.
        """
        prompt = definition.prompt
        if prompt.system_file is None:
            return prompt.system or ""
        shown = path or self.file_of(definition.name)
        where = "prompt.system_file"
        try:
            return read_text(inside(self.root, prompt.system_file, shown, where), shown, where)
        except FileMissing:
            raise fail(shown, f"file {prompt.system_file[:200]} not found", where=where) from None

    def check_system_file(
        self, definition: AgentDefinition, node: Node, problems: Diagnostics, where: str = ""
    ) -> None:
        """Report in ``problems`` why the ``system_file`` of ``definition`` cannot be read, if it cannot."""
        if definition.prompt.system_file is None or definition.prompt.system is not None:
            return
        key = "prompt.system_file"
        try:
            self.system_text(definition, problems.path)
        except BadDefinition as error:
            at = f"{where}.{key}" if where else key
            problems.add(place_at(node, key), at, error.errors[0].message, error.errors[0].hint)

    def check_resources(
        self,
        definition: AgentDefinition,
        node: Node,
        project: ProjectDefinition,
        problems: Diagnostics,
        where: str = "",
    ) -> tuple[FileError, ...]:
        """Report in ``problems`` the keys of ``definition`` that name missing files.

        Returns the errors inside of the files that exist.
        """
        try:
            resources_of(definition, project, self.root)
        except BadDefinition as error:
            for fault in error.errors:
                if fault.where in KEYS:
                    at = f"{where}.{fault.where}" if where else fault.where
                    problems.add(place_at(node, fault.where), at, fault.message, fault.hint)
            return tuple(fault for fault in error.errors if fault.where not in KEYS)
        return ()

    def survey(self, seconds: float | None = None, *, names: Collection[str] | None = None) -> AgentScan:
        """Read every agent file, or as many as possible in ``seconds``. Raises BadDefinition only for the project file.

        An unchanged file costs one stat; none if only the files of ``names`` have changed since the last survey.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        project = self.project()
        loaded: list[LoadedAgent] = []
        contexts: dict[str, str] = {}
        broken = dict(self._project[1].broken)
        whole = True
        for stem in sorted({*self._stems(), *project.agents} - broken.keys()):
            if deadline is not None and time.monotonic() > deadline:
                whole = False
                break
            try:
                check_name(stem)
                kept = None if names is None or stem in names else self._agents.get(stem)
                same = kept is not None and kept.project is project and stem not in project.agents
                one = kept.loaded if kept is not None and same else self.agent(stem, project)
                group = (one, *instances_of(one))
                for own, member in ((context_dir(each.definition), each) for each in group):
                    other = contexts.setdefault(own, member.definition.name)
                    if other != member.definition.name:
                        message = f"{own[:200]!r} is also the context folder of agent {other}"
                        raise fail(one.path, message, "give each agent its own folder", where="context.dir")
                loaded += group
            except NameRejected as error:
                path = self._path(stem, project)
                broken[stem] = fail(path, str(error), "rename the file").errors
            except BadDefinition as error:
                broken[stem] = error.errors
            except Refused:
                continue  # deleted since it was listed
        by_agent = tuple(sorted(broken.items()))
        each = tuple(error for _, errors in by_agent for error in errors)
        return AgentScan(tuple(loaded), (*folder_errors(self.root, AGENTS), *each), by_agent, whole)

    def outside_contexts(self) -> tuple[str, ...]:
        """Return the context folders outside of ``.agents``, relative to the root. Blocks as long as a survey."""
        with suppress(BadDefinition):
            self.survey()
        own = {context_dir(kept.loaded.definition) for kept in self._agents.values()}
        return tuple(sorted(folder for folder in own if not folder.startswith(f"{AGENTS}/")))

    def stamp(self) -> frozenset[tuple[str, int, int]]:
        """Return a value that changes when an agent file or a prompt file is created, deleted or written.

        No agent is read. Blocks for one stat of each file.
        """
        files: list[tuple[str, os.stat_result]] = []
        with suppress(OSError), os.scandir(self.root / AGENTS) as entries:
            files += [(entry.name, entry.stat()) for entry in entries if entry.name.endswith(SUFFIX)]
        declared = (path for path in self._project[1].definition.agents.values() if isinstance(path, str))
        users = (f"{HOME}{AGENTS}/{stem}{SUFFIX}" for stem in self._users_stems())
        for path in (*PROJECT_FILES, *declared, *users, *self.prompt_files()):
            with suppress(OSError):
                files.append((path, os.stat(self.place(path))))
        return frozenset((name, found.st_mtime_ns, found.st_size) for name, found in files)

    def touched(self, paths: Collection[str], others: Collection[str]) -> frozenset[str] | None:
        """Return the agents that the files at ``paths`` define; None if all files have to be read.

        ``others`` are files and folders of the project that define more than an agent.
        """
        project, cached = self.kept_project(), tuple(self._agents.items())
        own = (f"{self._root}/{AGENTS}", f"{self._home}/{AGENTS}")
        uses = [(name, kept.loaded.definition.prompt.system_file) for name, kept in cached]
        uses += [(name, path) for name, path in project.agents.items() if isinstance(path, str)]
        uses += [("", path) for path in (*PROJECT_FILES, *others)]
        files = [(name, os.path.normpath(self.place(path))) for name, path in uses if path is not None]
        found = {name for name, kept in cached if kept.linked}
        for path in map(os.path.normpath, paths if len(paths) <= MOST_TOUCHED else ("",)):
            folder, file = os.path.split(path)
            if path in (".", *own):
                return None
            found |= {name for name, used in files if f"{path}/".startswith(f"{used}/") or used.startswith(f"{path}/")}
            found |= {file.removesuffix(SUFFIX)} if folder in own and file.endswith(SUFFIX) else set()
        return None if "" in found else frozenset(found)

    def prompt_files(self) -> frozenset[str]:
        """Return the ``system_file`` paths of all agents that have been read."""
        files = (kept.loaded.definition.prompt.system_file for kept in tuple(self._agents.values()))
        return frozenset(file for file in files if file is not None)

    def _path(self, name: str, project: ProjectDefinition) -> str:
        entry = project.agents.get(name)
        if isinstance(entry, AgentDefinition) or name in self._project[1].broken:
            return self._project_file()
        if entry is not None:
            return entry
        own = f"{AGENTS}/{name}{SUFFIX}"
        users = self._has_home and not os.path.lexists(f"{self._root}/{own}") and os.path.lexists(f"{self._home}/{own}")
        return f"{HOME}{own}" if users else own

    def _project_file(self) -> str:
        return PROJECT_FILES[0] if self._project[0] is None else self._project[0].name

    def _bad_entry(self, name: str, message: str, hint: str) -> BadDefinition:
        file = self._project[0]
        node, problems = tree_of(b"{}" if file is None else file.data, self._project_file())
        problems.add(place_of(node, name), f"agents.{name}", message, hint)
        return BadDefinition(problems.errors)

    def _stems(self) -> tuple[str, ...]:
        return tuple(sorted({*_stems_in(self.root / AGENTS), *self._users_stems()}))

    def _users_stems(self) -> Iterator[str]:
        folder = self.users_folder()
        return iter(()) if folder is None else _stems_in(folder)

    def _unknown(self, name: str) -> Refused:
        hint = f"{suggest(name, self.names(), what='available agents')} (defined in {AGENTS}/<name>{SUFFIX})"
        if is_name(name) and (self.root / AGENTS / f"{name}.yml").exists():
            hint = f"rename {AGENTS}/{name}.yml to {name}{SUFFIX}"
        return Refused("unknown_agent", f"agent {name[:60]!r} not found", hint)


def instances_of(loaded: LoadedAgent) -> tuple[LoadedAgent, ...]:
    """Return the instances of ``loaded`` if it is a group."""
    replicas = loaded.definition.replicas or 1
    numbers = range(1, replicas + 1) if replicas > 1 else ()
    return tuple(LoadedAgent(instance_of(loaded.definition, number), loaded.path) for number in numbers)


def _stems_in(folder: Path) -> Iterator[str]:
    with suppress(OSError):
        yield from (name.removesuffix(SUFFIX) for name in os.listdir(folder) if name.endswith(SUFFIX))


def context_dir(definition: AgentDefinition) -> str:
    """Return the normalized folder of the agent's own context, relative to the root."""
    return os.path.normpath(definition.context.dir or default_dir(definition.name))


_SHOWN: Final = "request"


def agent_from_request(request: AgentRequest, name: str, project: ProjectDefinition) -> AgentDefinition:
    """Return the definition for the agent ``name`` as requested. Raises BadDefinition."""
    scripted = request.backend == MOCK or any(one.startswith(f"{MOCK}/") for one in model_names(request.model))
    if request.system is None and request.mock is None and not scripted:
        raise fail(_SHOWN, "is missing", "use awk agent create -s TEXT, or set system in the request", where="prompt")
    prompt = None if request.system is None else {"system": request.system}
    given = {"backend": request.backend, "provider": request.provider, "prompt": prompt, "mock": request.mock}
    keys: dict[str, Any] = {"model": request.model, **{key: one for key, one in given.items() if one is not None}}
    node, problems = tree_of(msgspec.json.format(msgspec.json.encode(keys)), _SHOWN)
    definition = convert_agent(node, NameSource(name, "requested"), Converter(problems, AGENT_SHAPES), problems)
    if definition is not None:
        check_agent(definition, node, project, problems)
    problems.check()
    assert definition is not None
    return definition
