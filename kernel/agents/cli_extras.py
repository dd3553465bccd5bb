"""Settings for programs of other vendors, and the agent key ``cli``: the user's skills, hooks and MCP servers.

Each item that the key names is a demand of its own, and is read only after it was granted. Skills are copied into the
program's private home; hooks and servers exist only for the attempt. No changes are copied back.

A program that speaks ACP loads settings of the project with hooks, plugins and MCP servers that run commands. The agent
file does not name them, so their content needs trust: an attempt does not start if its working directory contains other
settings.
"""

import hashlib
import os
import re
import shutil
import stat
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from kernel.agents.mcp_servers import KeyFault, server_faults
from kernel.agents.prices import has_token_limit, has_usd_limit
from kernel.agents.providers import CauseError
from kernel.agents.skills import read_skill
from kernel.source.diagnostics import BadDefinition, fail
from kernel.source.files import BadFolder, FileMissing, folder_files, read_bytes
from kernel.source.safe_paths import NotInside, open_folder
from osfiles.safe_open import closing_descriptor
from protocol.agent import AgentDefinition, McpServer
from protocol.backends import ACP, BACKENDS, OWN_SKILLS, OwnSpec, acp_program
from protocol.ipc import NULL, Json
from protocol.limits import RunBudget
from protocol.tools import Skill, server_name_fault

NO_COUNT: Final = "token usage cannot be metered, so a token budget cannot be enforced"
NO_COUNT_HINT: Final = "set a wall_time limit instead, or choose a metered program (docs/reference/backends.md)"


def counts_tokens(definition: AgentDefinition) -> bool:
    """Return whether token usage is known while the agent works, so that a limit is enforceable."""
    if definition.backend != ACP:
        return True
    program = acp_program(definition.command)
    return all(program.meters(one) for one in definition.models or ("",)) and not definition.login


def acp_faults(definition: AgentDefinition) -> Iterator[KeyFault]:
    """Yield the keys of ``definition`` that its program cannot honor."""
    if definition.backend != ACP or not definition.command:
        return
    program, name = acp_program(definition.command), definition.command[0][:60]
    if definition.approval not in program.approvals:
        message = f"{definition.approval} cannot be enforced: {name} cannot be required to ask before every call"
        yield KeyFault("approval", message, f"write one of {', '.join(sorted(program.approvals))}")
    if has_usd_limit(definition.budget, RunBudget()):
        message = f"in USD cannot be enforced: {name} reports its cost only at the end"
        yield KeyFault("budget", message, "set a limit for tokens or wall_time instead")
    if has_token_limit(definition.budget, RunBudget()) and not counts_tokens(definition):
        yield KeyFault("budget", f"{name}: {NO_COUNT}", NO_COUNT_HINT)


def project_settings(definition: AgentDefinition, folder: Path) -> dict[str, str]:
    """Return the path and SHA-256 of each file in ``folder`` that the program may load settings from.

    Blocks while files are read. Links are not followed. Raises BadDefinition.
    """
    found: dict[str, str] = {}
    for name in acp_program(definition.command).settings if definition.backend == ACP else ():
        try:
            if stat.S_ISDIR(os.lstat(folder / name).st_mode):
                for file in folder_files(str(folder), name):
                    if file.kind == "link":
                        raise BadFolder(f"{file.name[:200]} is a symbolic link, which is not allowed here")
                    found[f"{name}/{file.name}"] = hashlib.sha256(file.data).hexdigest()
            else:
                found[name] = hashlib.sha256(read_bytes(folder / name, name, links=False)).hexdigest()
        except (FileNotFoundError, FileMissing):
            continue
        except (BadFolder, NotInside, OSError) as error:
            hint = f"move it out of the project, because {definition.command[0]} may load it"
            raise fail(name, f"cannot be checked: {error}", hint, where="command") from error
    return found


def settings_demands(definition: AgentDefinition, settings: Mapping[str, str]) -> Iterator[str]:
    """Yield a demand for each file of ``settings`` (path to digest), without the agent's name."""
    for path, digest in settings.items():
        yield f"lets {definition.command[0]} load settings, hooks and servers of {path}, content sha256:{digest}"


def check_settings(definition: AgentDefinition, folder: Path, trusted: Mapping[str, str]) -> None:
    """Raise CauseError(untrusted) if ``folder`` contains settings that are not in ``trusted``. Blocks."""
    try:
        found = project_settings(definition, folder)
    except BadDefinition as error:
        raise CauseError("untrusted", str(error)) from error
    for path in (path for path, digest in found.items() if trusted.get(path) != digest):
        text = f"{definition.command[0]} may run hooks and servers of {path}, whose content is not trusted"
        raise CauseError("untrusted", f"{text} (in {folder}): remove the file, or commit it and run awk trust")


KEY: Final = "cli"
MAX_FILE_BYTES: Final = 8 * 1024 * 1024
"""Maximum size of a file with servers or hooks; claude stores much more in the same file."""
MAX_HOOKS_BYTES: Final = 256 * 1024
MAX_NAMED: Final = 20
"""Maximum number of skills and of servers for one agent."""
_SKILL: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}", re.ASCII)
_BEYOND_JSON: Final = (
    re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL),
    re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])'),
)
"""Patterns for comments and trailing commas; both match strings first to keep them unchanged."""
_VARIABLE: Final = re.compile(r"\{(env|file):([^{}]*)\}")
"""Variable syntax of opencode, equivalent to ${NAME}."""


class Extras(NamedTuple):
    """MCP servers and hooks from the user's CLI settings, and skills as copied into the agent's private home."""

    servers: Mapping[str, McpServer]
    skills: tuple[Skill, ...] = ()
    hooks: Json = NULL


def extras_demands(definition: AgentDefinition) -> list[str]:
    """Return the demands of ``cli``, one for each item that it names. No files are read."""
    own, wanted, name = BACKENDS[definition.backend].own, definition.cli, definition.name
    if own is None:
        return []
    of = BACKENDS[definition.backend].title
    skills, servers, hooks = (_shown(own, path) for path in (own.skills[-1], own.servers[-1], own.hooks))
    found = [f"{name} reads your skill {one} of {of} ({skills}/{one}), a copy of all in it" for one in wanted.skills]
    found += [f"{name} runs your hooks of {of} ({hooks}): commands of yours, on what its model does"] * wanted.hooks
    return found + [
        f"{name} uses your MCP server {one} of {of} ({servers}): it acts with what you gave it, keys and all"
        for one in wanted.mcp_servers
    ]


def extras_faults(definition: AgentDefinition) -> Iterator[KeyFault]:
    """Yield the errors in ``cli`` that can be found without reading the named items."""
    wanted, spec = definition.cli, BACKENDS[definition.backend]
    if not (wanted.skills or wanted.hooks or wanted.mcp_servers):
        return
    if spec.own is None:
        able = ", ".join(name for name, row in BACKENDS.items() if row.own is not None)
        message = f"is not supported by backend {spec.name}"
        yield KeyFault(KEY, message, f"remove it, or choose one of these backends: {able}")
        return
    if wanted.hooks and not spec.own.hooks:
        yield KeyFault(f"{KEY}.hooks", f"is not supported: {spec.own.no_hooks}", "remove it")
    elif wanted.hooks and definition.sandbox == "on":
        message = "cannot be combined with sandbox: on, because hooks need your home, which the sandbox hides"
        yield KeyFault(f"{KEY}.hooks", message, "remove one of the two")
    for key, named in (("skills", wanted.skills), ("mcp_servers", wanted.mcp_servers)):
        if len(named) > MAX_NAMED or len(set(named)) < len(named):
            fault = f"names {len(named)}; the limit is {MAX_NAMED}" if len(named) > MAX_NAMED else "names an item twice"
            yield KeyFault(f"{KEY}.{key}", fault, "name only what this agent needs")
    for one in wanted.skills:
        if not _SKILL.fullmatch(one):
            yield KeyFault(f"{KEY}.skills", f"{one[:80]!r} is not a folder name of a skill", "write only the name")
    for one in wanted.mcp_servers:
        taken = f"{one} is also the name of a server in mcp_servers" if one in definition.mcp_servers else None
        if (wrong := server_name_fault(one) or taken) is not None:
            yield KeyFault(f"{KEY}.mcp_servers", wrong, "rename one of them: server names must be unique")


def extras_of(definition: AgentDefinition, environ: Mapping[str, str], home: str) -> Extras:
    """Return all items that ``cli`` names, with skills copied into the private ``home``. Blocks. Raises CauseError.

    Copies of an earlier attempt are deleted first, so that removed items are unavailable.
    """
    own, wanted = BACKENDS[definition.backend].own, definition.cli
    if own is None:
        return Extras({})
    for fault in extras_faults(definition):
        raise CauseError("definition_missing", f"{fault.key} {fault.message}")
    try:
        copies = Path(home, OWN_SKILLS)
        if copies.is_symlink() or copies.is_file():  # created by a program
            copies.unlink()
        shutil.rmtree(copies, ignore_errors=True)
        if not (wanted.skills or wanted.hooks or wanted.mcp_servers):
            return Extras({})
        at = environ.get(own.folder_variable) or os.path.join(environ.get("HOME", ""), own.folder)
        if not os.path.isabs(at):
            raise CauseError("definition_missing", f"{KEY}: the home directory is unknown: $HOME is not set")
        return Extras(
            servers=_servers(definition, own, at) if wanted.mcp_servers else {},
            skills=tuple(_copied(name, own, at, home) for name in wanted.skills),
            hooks=_hooks(own, at) if wanted.hooks else NULL,
        )
    except (BadDefinition, BadFolder) as error:
        raise CauseError("definition_missing", f"{KEY}: {error}") from error
    except OSError as error:
        raise CauseError("definition_missing", f"{KEY}: {error.filename} cannot be copied: {error.strerror}") from error


def _shown(own: OwnSpec, path: str) -> str:
    return f"~/{os.path.normpath(os.path.join(own.folder, path))}"


def _copied(name: str, own: OwnSpec, at: str, home: str) -> Skill:
    for place in own.skills:
        folder = os.path.realpath(os.path.join(at, place, name))  # a skill may be a link to another folder
        if os.path.isdir(folder):
            break
    else:
        raise CauseError("definition_missing", f"{KEY}.skills: {_shown(own, own.skills[-1])}/{name} not found")
    files = folder_files(os.path.dirname(folder), os.path.basename(folder))
    copy = f"{OWN_SKILLS}/{name}"
    skill = msgspec.structs.replace(read_skill(copy, files, Path(home)).skill, folder=f"{home}/{copy}")
    for file in files:
        if file.kind == "link":
            raise CauseError(
                "definition_missing",
                f"{KEY}.skills: {folder}/{file.name} is a link, and links cannot be copied: replace it with its target",
            )
        path, mode = f"{copy}/{file.name}", 0o700 if file.kind == "program" else 0o600
        with closing_descriptor(open_folder(home, os.path.dirname(path), make=True)) as into:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with open(os.open(os.path.basename(path), flags, mode, dir_fd=into), "wb") as written:
                written.write(file.data)
    return skill


def _hooks(own: OwnSpec, at: str) -> Json:
    hooks = _document((own.hooks,), own, at).get("hooks")
    if not isinstance(hooks, dict) or not hooks:
        raise CauseError("definition_missing", f"{KEY}.hooks: no hooks found in {_shown(own, own.hooks)}")
    found = msgspec.json.encode(hooks)
    if len(found) > MAX_HOOKS_BYTES:
        raise CauseError("definition_missing", f"{KEY}.hooks: hooks are larger than {MAX_HOOKS_BYTES // 1024} KiB")
    return Json(found)


def _servers(definition: AgentDefinition, own: OwnSpec, at: str) -> dict[str, McpServer]:
    kept = _document(own.servers, own, at).get(own.servers_key)
    found: dict[str, McpServer] = {}
    for name in definition.cli.mcp_servers:
        where = f"{KEY}.mcp_servers: server {name} of {_shown(own, own.servers[-1])}"
        entry = kept.get(name) if isinstance(kept, dict) else None
        if not isinstance(entry, dict):
            raise CauseError("definition_missing", f"{where} not found")
        try:
            found[name] = msgspec.convert(_PARSERS[own.servers_key](entry), McpServer)
        except (msgspec.ValidationError, AttributeError, TypeError, ValueError) as error:
            raise CauseError("definition_missing", f"{where} is not valid: {error}") from error
        command = found[name].command or ""
        if os.sep in command and not os.path.isabs(command):
            text = f"{where} is not valid: the command {command!r} is relative to the project"
            raise CauseError("definition_missing", text)
        for fault in server_faults({name: found[name]}):
            raise CauseError("definition_missing", f"{where} is not valid: {fault.key} {fault.message}")
    return found


def _document(paths: tuple[str, ...], own: OwnSpec, at: str) -> dict[str, Any]:
    for path in paths:
        shown = _shown(own, path)
        with suppress(FileMissing):
            data = read_bytes(Path(os.path.normpath(os.path.join(at, path))), shown, MAX_FILE_BYTES)
            try:
                text = data.decode()
                if path.endswith(".toml"):
                    return tomllib.loads(text)
                for beyond in _BEYOND_JSON:
                    text = beyond.sub(lambda match: match[1] or "", text)
                found: object = msgspec.json.decode(text)
            except (UnicodeDecodeError, msgspec.DecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
                raise CauseError("definition_missing", f"{KEY}: {shown} cannot be read: {error}") from error
            return found if isinstance(found, dict) else {}
    raise CauseError("definition_missing", f"{KEY}: {_shown(own, paths[-1])} not found")


def _of_claude(entry: Mapping[str, Any]) -> dict[str, Any]:
    if not entry.get("command") and not entry.get("url"):
        raise ValueError("the entry has neither a command nor a url")
    return {key: entry[key] for key in ("type", "command", "args", "env", "url", "headers") if key in entry}


def _of_codex(entry: Mapping[str, Any]) -> dict[str, Any]:
    if "cwd" in entry:
        raise ValueError("cwd is not supported: servers start in the agent's working directory")
    kept = {key: entry[key] for key in ("command", "args", "url") if key in entry}
    env = {**entry.get("env", {}), **{name: f"${{{name}}}" for name in entry.get("env_vars", ())}}
    sent = entry.get("env_http_headers", {})
    headers = {**entry.get("http_headers", {}), **{header: f"${{{name}}}" for header, name in sent.items()}}
    if "bearer_token_env_var" in entry:
        headers["Authorization"] = f"Bearer ${{{entry['bearer_token_env_var']}}}"
    return {**kept, "env": env, "headers": headers}


def _of_opencode(entry: Mapping[str, Any]) -> dict[str, Any]:
    def filled(match: re.Match[str]) -> str:
        if match[1] == "file":
            raise ValueError("{file:...} is not supported: use a variable, {env:NAME}")
        return f"${{{match[2]}}}"

    def values(key: str) -> dict[str, str]:
        return {name: _VARIABLE.sub(filled, value) for name, value in entry.get(key, {}).items()}

    if entry.get("type") == "remote":
        return {"url": entry.get("url"), "headers": values("headers")}
    if not isinstance(entry.get("command"), list) or not entry["command"]:
        raise ValueError("command is not a list of strings")
    return {"command": entry["command"][0], "args": entry["command"][1:], "env": values("environment")}


_PARSERS: Final = {"mcpServers": _of_claude, "mcp_servers": _of_codex, "mcp": _of_opencode}
"""Parser of a server entry by the key that contains it."""
