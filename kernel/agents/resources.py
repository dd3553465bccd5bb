"""Resources of an agent in project files: its program, skills, MCP servers and tools; and the trust they demand.

Read once for every attempt: the checked content is the content that is used.
"""

import hashlib
import os
import shlex
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from kernel.agents.cli_extras import project_settings, settings_demands
from kernel.agents.mcp_servers import filled, servers_of
from kernel.agents.providers import ModelRejected, calls_models, route
from kernel.agents.skills import KEY as RULES_KEY
from kernel.agents.skills import RulesFile, home_skills, nested_rules, rules_of, skills_of
from kernel.source.diagnostics import BadDefinition
from kernel.source.files import FileMissing, read_bytes
from protocol.agent import AgentDefinition, McpServer
from protocol.backends import COMMANDED
from protocol.errors import Refused
from protocol.names import split_instance
from protocol.project import ProjectDefinition
from protocol.redaction import named_secrets
from protocol.tools import ProjectTool, Skill, placeholders

SKILLS: Final = "skills"
FILES: Final = "files"
"""Values of ``tools:``."""
MAX_PROGRAM_BYTES: Final = 64 * 1024 * 1024
MAX_VALUE: Final = 140
"""Displayed characters of a variable's value."""
SHORT: Final = 16
"""Displayed characters of a digest."""


class AgentResources(NamedTuple):
    """The resources of an agent. ``demands`` are the texts of what needs trust.

    ``pinned`` maps each project file in a command, as written there, to the SHA-256 of its content; ABSENT for a word
    that may name a file that does not exist: a file created later is not trusted. ``nested_rules`` maps the rule files
    in project folders to their SHA-256; None if the agent does not follow any.
    """

    servers: Mapping[str, McpServer] = MappingProxyType({})
    tools: Mapping[str, ProjectTool] = MappingProxyType({})
    skills: tuple[Skill, ...] = ()
    rules: tuple[RulesFile, ...] = ()
    nested_rules: Mapping[str, str] | None = None
    demands: tuple[str, ...] = ()
    pinned: Mapping[str, str] = MappingProxyType({})


ABSENT: Final = ""
KEYS: Final = frozenset({"skills", "mcp_servers", RULES_KEY})
"""Keys that name files. An error in a listed file belongs to the key; any other error belongs to the file."""
NOTHING: Final = AgentResources()


def has_resources(definition: AgentDefinition, project: ProjectDefinition) -> bool:
    """Return whether the agent has any resources. Reads no files."""
    program = definition.backend in COMMANDED and definition.command
    if program or definition.mcp_servers or definition.skills or definition.project_rules:
        return True
    if SKILLS in definition.tools:
        return True
    return any(name in project.tools for name in definition.tools)


def resources_of(definition: AgentDefinition, project: ProjectDefinition, root: Path) -> AgentResources:
    """Return the current resources of ``definition``. Blocks while files are read; may be called in a thread.

    Raises BadDefinition for an invalid or missing file.
    """
    if not has_resources(definition, project):
        return NOTHING
    tools = {name: project.tools[name] for name in definition.tools if name in project.tools}
    program = definition.command if definition.backend in COMMANDED else ()
    servers = servers_of(definition.mcp_servers, root)
    skills = skills_of(definition.skills, root) if definition.skills else ()
    if SKILLS in definition.tools and not definition.skills:
        skills = home_skills(root)
    rules = rules_of(root) if definition.project_rules else ()
    # Our file tools report nested rules; a program that reads files itself only gets the nearest ones.
    nested = nested_rules(root) if definition.project_rules and FILES in definition.tools else None
    commands = [tool.command for tool in tools.values() if tool.mock is None and tool.command]
    commands += [(server.command or "", *server.args) for server in servers.values()]
    commands += [program] if program else []
    pinned: dict[str, str] = {}
    for first, *arguments in commands:
        digest = _digest_of_file(first, root)
        if digest or (digest == ABSENT and os.sep in first):  # else it is looked for on the PATH
            pinned[first] = digest
        digests = ((word, _digest_of_file(word, root)) for word in arguments)
        pinned |= {word: digest for word, digest in digests if digest is not None}
    found = [f"is run by: {_shown(program, pinned)}"] if program else []
    settings = project_settings(definition, root)
    found += settings_demands(definition, settings)
    pinned |= settings
    for name, tool in tools.items():
        if tool.mock is None:
            unasked = ", always unasked" if tool.read_only else ""
            found.append(f"runs, as its tool {name}{unasked}: {_shown(tool.command, pinned)}")
    for name, server in servers.items():
        if server.url is None:
            words = (server.command or "", *server.args)
            found.append(f"runs the MCP server {name}: {_shown(words, pinned)}{_with(server.env, _value)}")
        else:
            sent = _with(server.headers, _secret)
            found.append(f"sends what it likes to the MCP server {name} at {server.url}{sent}")
    found += [f"reads the skill {one.skill.name} in {one.path}, content sha256:{one.digest}" for one in skills]
    found += [f"follows the rules of the project in {one.path}, content sha256:{one.digest}" for one in rules]
    found += [
        f"follows the rules of the project in {path}, content sha256:{sha}" for path, sha in (nested or {}).items()
    ]
    return AgentResources(
        servers=servers,
        tools=tools,
        skills=tuple(one.skill for one in skills),
        rules=rules,
        nested_rules=nested,
        demands=tuple(f"{split_instance(definition.name)[0]} {demand}" for demand in found),
        pinned=pinned,
    )


def secrets_of(
    definition: AgentDefinition, project: ProjectDefinition, environ: Mapping[str, str], root: Path
) -> dict[str, str]:
    """Return the secrets of a worker of ``definition``, each with its displayed replacement.

    Unreadable files and unset variables are skipped. Blocks while files are read.
    """
    given: list[str] = []
    with suppress(BadDefinition):
        for name, server in servers_of(definition.mcp_servers, root).items():
            with suppress(Refused):  # unset values are not passed
                whole = filled({name: server}, environ)[name]
                given += (*whole.env.values(), *whole.headers.values())
    found = named_secrets({name: environ[name] for name in definition.env if name in environ}, given)
    if calls_models(definition):
        with suppress(ModelRejected):
            found |= {environ[name]: "[key]" for name in route(definition, project).keys if environ.get(name)}
    return found


def matches_digest(path: Path, digest: str) -> bool:
    """Return whether ``path`` has the content of ``digest``; for ABSENT, whether it does not exist.

    Blocks while the file is read.
    """
    if digest == ABSENT:
        return not os.path.lexists(path)
    try:
        return _sha256(read_bytes(path, path.name, MAX_PROGRAM_BYTES)) == digest
    except (BadDefinition, FileMissing, OSError):
        return False


def _with(values: Mapping[str, str], show: Callable[[str], str]) -> str:
    said = [f"{name}={value if '${' in value else show(value)}" for name, value in values.items()]
    return f", with {', '.join(said)}" if said else ""


def _value(value: str) -> str:
    cut = "" if len(value) <= MAX_VALUE else f"... ({_secret(value)})"
    return f"{shlex.quote(value[:MAX_VALUE])}{cut}"


def _secret(value: str) -> str:
    return _short(_sha256(value.encode()))


def command_demand(words: Iterable[str], named: Iterable[str], root: Path) -> str:
    """Return a command line with the digests of project files among ``named``, a part of ``words``.

    Blocks while files are read. Raises BadDefinition for an unreadable file.
    """
    return _shown(words, {word: _digest_of_file(word, root) or ABSENT for word in named})


def _shown(words: Iterable[str], pinned: Mapping[str, str]) -> str:
    given = tuple(words)
    files = "".join(f" ({word}: {_short(pinned[word])})" for word in given if pinned.get(word))
    return f"{shlex.join(given)}{files}"


def _digest_of_file(word: str, root: Path) -> str | None:
    """Return the digest of the project file ``word``; ABSENT if it is missing; None if ``word`` is no such name."""
    if not word or word.startswith(("-", "~")) or "\0" in word or placeholders((word,)):
        return None
    real_root = os.path.realpath(root)
    real = os.path.realpath(os.path.join(real_root, word))
    if os.path.commonpath([real_root, real]) != real_root:
        return None  # outside of the project
    try:
        found = os.stat(real)
        if not stat.S_ISREG(found.st_mode):
            return None
        return _content(real, word, (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino))
    except (FileNotFoundError, NotADirectoryError, FileMissing):
        return ABSENT
    except OSError:
        return None  # not a file name: most such words are shell commands


@lru_cache(maxsize=256)
def _content(path: str, shown: str, _signature: tuple[int, ...]) -> str:
    return _sha256(read_bytes(Path(path), shown, MAX_PROGRAM_BYTES))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _short(digest: str) -> str:
    return f"sha256:{digest[:SHORT]}"
