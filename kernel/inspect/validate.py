"""``validate``: all errors of all files at once, and warnings.

A warning is about a valid file that would be refused on this machine, or have no effect.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import which
from types import MappingProxyType
from typing import Final

from kernel.agents.catalog import AGENTS, SUFFIX, AgentScan, Catalog, context_dir
from kernel.agents.definition import place_at
from kernel.agents.env_file import env_file_units, with_env_file
from kernel.agents.environment import find_bubblewrap, home_fault, worker_environment
from kernel.agents.mcp_servers import Servers, left_out, servers_of
from kernel.agents.project import PROJECT_FILES, ProjectFileContent, parse_project
from kernel.agents.providers import CauseError, ModelRejected, resolve
from kernel.agents.trust import GrantSource, ProjectTrust, TrustStore, missing_grants, schedule_units
from kernel.inspect.agents import PartialCatalog
from kernel.inspect.resolve import SUFFIXES, is_path, kind_of, place_kind, shown
from kernel.source.diagnostics import BadDefinition, Diagnostics, Location, fail, suggest
from kernel.source.files import FileMissing, folder_errors, read_bytes, read_tree
from kernel.source.yaml_tree import decode_utf8
from kernel.workflows.find import WORKFLOWS, workflow_names
from kernel.workflows.load import LoadedWorkflow, load_workflow
from kernel.workflows.prepare import kickoff_names
from kernel.workflows.templates import variables
from kernel.workflows.workspace import wants_worktrees
from protocol.agent import AgentDefinition
from protocol.agent_layout import HOME, MEMORY
from protocol.api.document import FileError
from protocol.errors import Refused
from protocol.inspection import CheckedFile, Kind, Validation
from protocol.memory_files import parse
from protocol.names import NameRejected, check_name, check_workflow_name
from protocol.project import ProjectDefinition
from protocol.remote_ref import is_remote
from protocol.text import shown_name
from protocol.tools import BUILT_IN, CONTEXT_TOOLS, SERVER_PREFIX


def agent_warnings(
    definition: AgentDefinition, project: ProjectDefinition, root: Path, environ: Mapping[str, str], where: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield key and text of a warning for each requirement that this machine lacks."""
    try:
        resolve(definition, project, environ)
    except CauseError as error:
        if definition.login:
            yield _key(where, "login"), error.text
        else:
            yield _key(where, "model"), f"{error.text} (checked in the environment of this shell)"
    except ModelRejected:
        pass  # reported as an error of the file
    path = worker_environment(environ)["PATH"]
    yield from ((_key(where, key), message) for key, message in _server_warnings(definition.mcp_servers, root, path))
    if definition.sandbox == "on":
        missing = "bubblewrap (bwrap) is not installed here" if find_bubblewrap(environ) is None else None
        fault = missing or home_fault(root, environ)
        if fault is not None:
            message = f"{fault.removeprefix('sandbox: on, but ')}: all work of this agent will be refused"
            yield _key(where, "sandbox"), message
    yield from ((_key(where, key), message) for key, message in _unknown_tools(definition, project))
    prompt = definition.prompt
    file = prompt.system_file and Catalog(root, Path.home()).system_text(definition, prompt.system_file)
    texts = {"prompt.system": prompt.system, "prompt.system_file": file, "prompt.append": prompt.append}
    yield from ((_key(where, key), message) for key, message in _unreplaced(texts))
    wakes_in = ((definition.schedule and definition.schedule.workspace) or "").partition(":")[0]
    if wakes_in and wakes_in not in workflow_names(Catalog(root, Path.home()), project):
        message = f"workflow {wakes_in} not found: without a run of it, the agent wakes in its personal space"
        yield _key(where, "schedule.workspace"), message


def _unknown_tools(definition: AgentDefinition, project: ProjectDefinition) -> Iterator[tuple[str, str]]:
    called = {action.tool for rule in definition.mock or () for action in rule.do if action.tool is not None}
    called = {name for name in called if not name.startswith(SERVER_PREFIX)} - BUILT_IN.keys() - project.tools.keys()
    known = (*BUILT_IN, *project.tools, *CONTEXT_TOOLS)
    for name in sorted(called - CONTEXT_TOOLS):
        yield "mock", f"tool {name[:60]!r} not found, so the call will fail; {suggest(name, known, what='available')}"


def schedule_warnings(definition: AgentDefinition, kept: GrantSource | None) -> Iterator[tuple[str, str]]:
    """Yield key and text of a warning if ``kept`` lacks the schedule's grant. None: no check."""
    if kept is not None and missing_grants(schedule_units(definition), kept):
        yield "schedule", f"does not run until you trust it (review and grant it: awk trust {definition.name})"


def _unreplaced(texts: Mapping[str, str | None]) -> Iterator[tuple[str, str]]:
    """Yield key and text of a warning for each prompt with variables: none is replaced."""
    for key, text in texts.items():
        named = next((one.written for one in variables(text or "") if one.is_name), None)
        if named is not None:
            yield key, f"{named[:60]} is sent to the model unchanged: prompts have no variables"


def _server_warnings(servers: Servers, root: Path, path: str) -> Iterator[tuple[str, str]]:
    for name, server in servers.items():
        words = (server.command or "").split()
        if len(words) > 1 and not os.path.exists(root / str(server.command)):
            args = ", ".join(json.dumps(word) for word in (*words[1:], *server.args))
            message = f"is the name of one program, including spaces: write command: {words[0]}, args: [{args}]"
            yield f"mcp_servers.{name}.command", message
    with suppress(BadDefinition):  # reported as an error of that file
        for name, server in servers_of(servers, root).items():
            program = server.command or ""
            if " " in program or server.url is not None:
                continue
            if which(str(root / program) if os.sep in program else program, path=path) is None:
                where = f"in {root}" if os.sep in program else f"on the PATH of workers ({path})"
                message = f"program {program[:100]!r} not found {where}: all work of this agent will fail"
                yield f"mcp_servers.{name}.command", message
    yield from (("mcp_servers", message) for message in left_out(servers, root))


def _key(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def workflow_warnings(loaded: LoadedWorkflow, root: Path, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the warnings for a workflow and its inline agents."""
    if wants_worktrees(loaded.definition) and not any((folder / ".git").exists() for folder in (root, *root.parents)):
        yield "workspace.git", "this project is not in a git repository: runs will be refused"
    if loaded.definition.kickoff and loaded.definition.workspace is not False and not kickoff_names(loaded.definition):
        yield "kickoff", "mentions no agent, so no agent starts: runs will be refused"
    names = [member.name for member in loaded.members]
    for member in loaded.members:
        to = member.definition.timeouts.escalate
        if to is not None and to not in names:
            message = f"escalates to {to}, which is not a member: unanswered work ends as incomplete"
            yield f"agents.{member.name}" + (".timeouts.escalate" if member.ref is None else ""), message
        if member.ref is None:
            yield from agent_warnings(member.definition, loaded.project, root, environ, f"agents.{member.name}")
        elif member.ref.prompt is not None:
            yield from _unreplaced({f"agents.{member.name}.prompt.append": member.ref.prompt.append})


_FINDING: Final = re.compile(r"(?i)(file|path)\W{0,3}:\W{0,3}line\b")
NO_FINDINGS: Final = (
    "no prompt requests findings, so awk run --report github or sarif has none: ask for file:line: severity: text"
)


def asks_for_findings(loaded: LoadedWorkflow, catalog: Catalog) -> bool:
    """Return whether a prompt or the kickoff names the form of a finding, or an output has a schema."""
    if loaded.definition.output_schema is not None:
        return True
    texts = [loaded.definition.kickoff or ""]
    for member in loaded.members:
        prompt, append = member.definition.prompt, member.ref.prompt if member.ref is not None else None
        file = prompt.system_file and catalog.system_text(member.definition, prompt.system_file)
        texts += [prompt.system or "", file or "", prompt.append or "", (append and append.append) or ""]
    return any(map(_FINDING.search, texts))


def located(file: Path, path: str, warnings: Iterable[tuple[str, str]]) -> tuple[FileError, ...]:
    """Return ``warnings`` with their locations in the valid file ``path``."""
    noted = tuple(warnings)
    if not noted:
        return ()
    node, problems = read_tree(file, path)
    for where, message in noted:
        problems.add(place_at(node, where), where, message)
    return problems.errors


def project_grants(root: Path, state: Path, environ: Mapping[str, str]) -> GrantSource | None:
    """Return the user's grants; None if ``environ`` trusts everything."""
    return None if environ.get("AGENT_WORKER_TRUST") == "1" else TrustStore(str(state), str(root))


def validate(
    root: Path,
    cwd: Path,
    asked: Sequence[str],
    environ: Mapping[str, str] = MappingProxyType({}),
    kept: GrantSource | None = None,
    *,
    reports: bool = False,
) -> Validation:
    """Return the errors in the files ``asked`` (paths relative to ``cwd``), or in the whole project.

    With ``environ`` also warnings about this machine, and about schedules without a grant in ``kept``; with
    ``reports`` also about workflows whose reports would contain no findings.
    """
    checking = _Checking(root, environ, kept, reports=reports)
    if asked:
        for path in asked:
            checking.file(_found(Catalog(root, Path.home()), cwd, path))
    else:
        checking.everything()
    return Validation(files=tuple(checking.files()))


def _found(catalog: Catalog, cwd: Path, asked: str) -> str:
    """Return the displayed path of a requested file, agent or workflow. Raises Refused (bad_request) for others."""
    root = catalog.root
    if is_remote(asked):
        load_workflow(catalog, asked)
    if not is_path(asked) and not (cwd / asked).exists():
        for folder in (AGENTS, WORKFLOWS):
            if (root / folder / f"{asked}{SUFFIX}").exists():
                return f"{folder}/{asked}{SUFFIX}"
        if catalog.defines(asked) and catalog.file_of(asked).startswith(HOME):
            return catalog.file_of(asked)
    return shown(root, cwd / asked)


class _Checking:
    """Files checked so far. An error belongs to its own file, even if others refer to it."""

    def __init__(self, root: Path, environ: Mapping[str, str], kept: GrantSource | None, *, reports: bool) -> None:
        self._kept = kept
        self._reports = reports
        self._root = root
        self._environ = environ
        self._workflows: dict[str, LoadedWorkflow] = {}
        self._survey: AgentScan | None = None
        self._catalog = PartialCatalog(root, Path.home())
        self._found: dict[str, list[FileError]] = {}
        self._kinds: dict[str, Kind] = {}
        self._by_kind: Mapping[Kind, Callable[[str], None]] = {
            "agent": self._agent,
            "workflow": self._workflow,
            "project": self._project,
            "memory": self._memory,
        }

    def files(self) -> Iterable[CheckedFile]:
        """Return each file once: the project file, agents, workflows, by name."""
        self._note(self._catalog.broken)
        order: Sequence[Kind] = ("project", "agent", "workflow", "memory")
        agents: dict[str, list[AgentDefinition]] = {}
        for one in self._agents().loaded if self._environ else ():
            agents.setdefault(one.path, []).append(one.definition)
        for path in sorted(self._found, key=lambda one: (order.index(self._kind(one)), one)):
            told = tuple(sorted(self._found[path], key=lambda error: (error.line, error.column)))
            warnings = () if told else self._warnings(path, agents.get(path, ()))
            yield CheckedFile(path=path, kind=self._kind(path), ok=not told, errors=told, warnings=warnings)

    def _agents(self) -> AgentScan:
        if self._survey is None:
            self._survey = self._catalog.survey()
        return self._survey

    def _warnings(self, path: str, loaded: Sequence[AgentDefinition]) -> tuple[FileError, ...]:
        if not self._environ:
            return ()
        workflow = self._workflows.get(path)
        project = self._catalog.project()
        trust = ProjectTrust(self._kept is None, self._kept or tuple)
        environ = with_env_file(self._environ, project, self._root, trust)
        own = () if workflow is None else tuple(workflow_warnings(workflow, self._root, environ))
        if workflow is not None and self._reports and not asks_for_findings(workflow, self._catalog):
            own = (*own, ("agents", NO_FINDINGS))
        agents = (
            warning
            for one in loaded
            for warning in (*agent_warnings(one, project, self._root, environ), *schedule_warnings(one, self._kept))
        )
        return located(Path(self._catalog.place(path)), path, (*own, *agents))

    def file(self, name: str) -> None:
        kind = self._kind(name)
        shown = shown_name(name)  # displayed as in its errors
        self._kinds[shown] = kind
        self._found.setdefault(shown, [])
        check = self._by_kind[kind]
        try:
            check(name)
        except BadDefinition as error:
            self._note(error.errors)
        except FileMissing:
            self._note(fail(name, "file not found").errors)
        except Refused as error:
            self._note(fail(name, error.text, error.hint).errors)

    def everything(self) -> None:
        """Check all files that the kernel would load."""
        for name in PROJECT_FILES:
            if (self._root / name).exists():
                self.file(name)
        survey = self._agents()
        for loaded in survey.loaded:
            self._found.setdefault(loaded.path, [])
            folder = f"{context_dir(loaded.definition)}/{MEMORY}"
            for name in (one for one in _listed(self._root, folder) if one.endswith(SUFFIX)):
                self._kinds[name] = "memory"
                self.file(name)
        self._note(survey.errors)
        self._note(folder_errors(self._root, WORKFLOWS))
        for name in _listed(self._root, AGENTS):
            if not name.endswith(SUFFIX):
                self.file(name)
        for name in _listed(self._root, WORKFLOWS):
            self.file(name)

    def _agent(self, name: str) -> None:
        path = self._root / name
        declared = next((one for one in self._catalog.names() if self._catalog.file_of(one) == name), None)
        if declared is not None:
            self._catalog.agent(declared)
            return
        if place_kind(name) != "agent":
            # An agent file in another place is checked like the others.
            _named(check_name, path.stem, name)
            self._catalog.parse(path.stem, name, read_bytes(path, name), self._catalog.project())
            return
        if not name.endswith(SUFFIX):
            raise fail(name, "is not read", f"rename it to {path.stem}{SUFFIX}")
        _named(check_name, path.stem, name)
        read_bytes(path, name)
        self._catalog.agent(path.stem)

    def _memory(self, name: str) -> None:
        path = self._root / name
        text = decode_utf8(read_bytes(path, name, links=False), problems := Diagnostics(name))
        problems.check()
        problems.text = text
        for one in parse(text, path.name).skipped:
            problems.add(Location(max(one.line, 1), 1), "", one.why, "the agent does not receive this entry")
        problems.check()

    def _workflow(self, name: str) -> None:
        path = self._root / name
        if place_kind(name) == "workflow" and name.endswith(SUFFIXES[0]):
            _named(check_workflow_name, path.stem, name)
            read_bytes(path, name)
            by_name = self._catalog.project().workflows.get(path.stem, name) == name
            self._workflows[name] = load_workflow(self._catalog, path.stem if by_name else name, self._root)
        else:
            self._workflows[name] = load_workflow(self._catalog, name, self._root)

    def _project(self, name: str) -> None:
        definition, broken = parse_project(ProjectFileContent(name, read_bytes(self._root / name, name)))
        env_file_units(definition, self._root)
        self._catalog.project()
        for errors in broken.values():
            self._note(errors)
        for agent, entry in definition.agents.items():
            try:
                declared_path = self._catalog.agent(agent).path
            except BadDefinition as error:
                declared_path = error.errors[0].path
                self._note(error.errors)
            if declared_path == entry:
                self._found.setdefault(declared_path, [])
                self._kinds[declared_path] = "agent"
        node, problems = read_tree(self._root / name, name)
        for workflow, path in definition.workflows.items():
            where = f"workflows.{workflow}"
            try:
                load_workflow(self._catalog, workflow)
            except BadDefinition as error:
                self._note(error.errors)
            except Refused as error:
                text = f"file {path} not found" if error.code == "unknown_workflow" else error.text
                problems.add(place_at(node, where), where, text)
            else:
                self._found.setdefault(path, [])
                self._kinds[path] = "workflow"
        problems.check()

    def _note(self, errors: Iterable[FileError]) -> None:
        noted = tuple(errors)
        meant = self._catalog.meant(noted)
        for error in noted:
            known = self._found.setdefault(error.path, [])
            if error in meant and error not in known:
                known.append(error)

    def _kind(self, name: str) -> Kind:
        if name not in self._kinds:
            self._kinds[name] = kind_of(self._root, name)
        return self._kinds[name]


def _named(check: Callable[[str], object], stem: str, name: str) -> None:
    try:
        check(stem)
    except NameRejected as error:
        raise fail(name, str(error), "rename the file") from error


def _listed(root: Path, folder: str) -> list[str]:
    try:
        return sorted(f"{folder}/{entry.name}" for entry in (root / folder).iterdir() if entry.suffix in SUFFIXES)
    except OSError:
        return []
