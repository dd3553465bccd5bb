"""Conversion of the files of Claude Code, Codex, opencode and Gemini to agents, skills and a workflow.

The files are untrusted: links are not followed, sizes and numbers are limited, and nothing is run. Names are checked,
and texts become texts of prompts. A converted agent that the loader would refuse loses the refused keys.
"""

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from interface import offline
from interface.claude_file import parts_of, translated
from interface.failure import Failure
from interface.safe_dir import SafeDir
from interface.skill_folder import path_of
from protocol.agent_layout import agent_file
from protocol.inspection import AdoptedFile, Adoption, NotAdopted
from protocol.names import NameRejected, check_name
from protocol.text import shown_name
from protocol.yaml_writer import Value, document

MOST_FILES: Final = 100
"""Maximum number of files of one folder."""
_MOST_BYTES: Final = 1024 * 1024 - 1024
"""Maximum size of a converted text, without its header."""
WORKFLOW: Final = ".workflows/adopted.yaml"
_MODELS: Final = {"claude": "sonnet", "codex": "openai/gpt-5.1-codex", "opencode": "anthropic/claude-sonnet-4-5"}
"""Model of an agent whose files name none."""
_TOOLS: Final = ("bash", "files", "skills")
_OF_OPENCODE: Final = {"bash": ("*", "bash"), "files": ("*", "edit", "write", "patch")}
"""Names of the abilities of a tool in the settings of opencode."""
_ALONE: Final[Mapping[str, Value]] = {"approval": "auto", "sandbox": "on"}
"""Keys of agents whose program cannot ask for approvals: they work in a sandbox."""
_PROMPT: Final = {"system": "You work on this project, and coordinate the work of your colleagues."}
_SKILL: Final = re.compile(r"(?=.{1,64}$)[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)
_PLACEHOLDER: Final = re.compile(r"\$(?:ARGUMENTS|[1-9])")
_COMMENT: Final = re.compile(r"^[^\S\n]*//.*$", re.MULTILINE)
_MOST_DOTS: Final = 100
"""Maximum number of dots in a line of TOML: the parser needs the square of the parts of a key."""
_REASONS: Final = {
    "allow": "decide on a real call: awk approve ID --always PATTERN",
    "ask": "approval: ask asks about every call that changes something",
    "deny": "not enforced: approval: ask asks before each change, and awk deny refuses it",
    "hooks": "hooks are not run; use rules, or checks of tasks",
    "env": "set the variables where the kernel starts, and name them in env",
    "instructions": "put the text into AGENTS.md",
    "profiles": "create an agent for each profile",
}
Table = Mapping[str, Any]
Keys = dict[str, Value]
T = TypeVar("T")


class Adopter:
    """Reader of the project at ``root``: the files found, agents and skills, and the parts without a counterpart."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._found: list[str] = []
        self._lost: list[NotAdopted] = []
        self._agents: dict[str, tuple[Keys, tuple[str, ...]]] = {}
        self._skills: dict[str, tuple[str, str]] = {}
        """Source and text of each new skill, by its folder."""

    def plan(self, header: Callable[[str], str]) -> Adoption:
        """Return the files to write: skills, agents, and a workflow of all agents. ``header``: first line of a file."""
        for program in (self._claude, self._opencode, self._gemini, self._codex):
            try:
                program()
            except (ValueError, RecursionError) as error:
                self._lose(program.__name__.strip("_"), f"has a value that cannot be read: {error}")
        members = [name for name, (keys, _) in self._agents.items() if self._is_sound(name, keys)]
        files = [self._file(f"{folder}/SKILL.md", text, path) for folder, (path, text) in self._skills.items()]
        for name in members:
            keys, sources = self._agents[name]
            text = header(agent_file(name)) + document(keys) if keys else ""
            files.append(self._file(agent_file(name), text, *sources))
        if members:
            flow: Keys = {
                "params": [{"name": "task", "required": True, "description": f"Task for {members[0]}"}],
                "agents": {name: {"ref": name} for name in members},
                "kickoff": f"@{members[0]} ${{{{ params.task }}}}",
            }
            files.append(self._file(WORKFLOW, header(WORKFLOW) + document(flow), *map(agent_file, members)))
        found, lost = tuple(dict.fromkeys(self._found)), tuple(dict.fromkeys(self._lost))
        return Adoption(found=found, files=tuple(files), not_adopted=lost)

    def _file(self, path: str, text: str, *sources: str) -> AdoptedFile:
        kept = not text or os.path.lexists(os.path.join(self._root, path))
        return AdoptedFile(path=path, state="kept" if kept else "new", sources=sources, text="" if kept else text)

    def _is_sound(self, name: str, keys: Keys) -> bool:
        """Remove the keys that the loader refuses, and all keys of an agent that is already defined.

        Returns whether an agent is left.
        """
        source = self._agents[name][1][0]
        if len(document(keys).encode("utf-8", "surrogatepass")) > _MOST_BYTES:
            self._lose(source, "is too large for an agent file")
            return False
        for _ in range(MOST_FILES):
            there = [one for one in cast("list[str]", keys.get("skills", [])) if one not in self._skills]
            text = document({**keys, "skills": there})
            try:
                errors = offline.agents.check_agent_text(Path(self._root), name, text, new=True).errors
            except Failure as failure:
                if failure.code != "already_exists":  # the project file is invalid
                    raise
                keys.clear()
                errors = ()
            if not errors:
                return True
            top, _, below = errors[0].where.partition(".")
            self._lose(source, f"{errors[0].where}: {errors[0].message}")
            inner, rest = keys.get(top), below.partition(".")[0]
            if isinstance(inner, Mapping) and rest in inner and top == "mcp_servers":
                keys[top] = {one: value for one, value in inner.items() if one != rest}
            elif keys.pop(top, None) is None or top in {"backend", "prompt"}:
                return False
        return False

    def _lose(self, source: str, reason: str) -> None:
        self._lost.append(NotAdopted(source=shown_name(source), reason=shown_name(reason[:300])))

    def _read(self, folder: str, shown: str, ask: Callable[[SafeDir], T]) -> T | None:
        """Return what ``ask`` reads in ``folder``; None if it does not exist or cannot be used."""
        try:
            with SafeDir.within(self._root, folder) as place:
                return ask(place)
        except FileNotFoundError:
            pass
        except OSError as error:
            self._lose(shown, f"cannot be read: {error}")
        return None

    def _text(self, path: str) -> str | None:
        folder, name = os.path.split(path)
        text = self._read(folder, path, lambda place: place.read(name))
        self._found += [] if text is None else [path]
        return text

    def _names(self, folder: str, suffix: str) -> list[str]:
        names = self._read(folder, folder, lambda place: place.names(suffix)) or []
        if len(names) > MOST_FILES:
            self._lose(folder, f"only the first {MOST_FILES} of {len(names)} files are used")
        return names[:MOST_FILES]

    def _files(self, folder: str, *, bare: bool = False) -> Iterator[tuple[str, str, Table, str]]:
        """Yield the stem, path, front matter and prompt of the Markdown files in ``folder``."""
        for path in (f"{folder}/{name}" for name in self._names(folder, ".md")):
            try:
                if (text := self._text(path)) is not None:
                    yield os.path.basename(path).removesuffix(".md"), path, *parts_of(text, path, bare=bare)
            except Failure as failure:
                self._lose(path, failure.text)

    def _data(self, path: str, parse: Callable[[str], object] = json.loads) -> Table | None:
        """Return the content of a settings file; None if it does not exist or cannot be used."""
        text = self._text(path)
        try:
            return None if text is None else _table(parse(text))
        except (ValueError, RecursionError) as error:
            self._lose(path, f"is invalid: {error}")
            return {}

    def _rest(self, path: str, data: Table, *taken: str) -> None:
        for key in data:
            if key not in (*taken, "$schema"):
                self._lose(path, f"{key}: {_REASONS.get(key, 'has no counterpart')}")

    def _has(self, name: str) -> bool:
        """Return whether the project has this file, which may be a link inside the project."""
        root, path = os.path.realpath(self._root), os.path.realpath(os.path.join(self._root, name))
        if there := os.path.isfile(path) and os.path.commonpath([path, root]) == root:
            self._found.append(name)
        elif os.path.lexists(os.path.join(root, name)):
            self._lose(name, "leads outside the project, or is not a file")
        return there

    def _add(self, name: str, keys: Keys, sources: Sequence[str]) -> None:
        """Add an agent; without a prompt it is the agent that stands for the program itself."""
        try:
            check_name(name)
        except NameRejected as error:
            return self._lose(sources[0], str(error))
        if name in self._agents:
            return self._lose(sources[0], f"another agent is named {name}")
        rules = {"project_rules": True} if self._has("CLAUDE.md") | self._has("AGENTS.md") else {}
        self._agents[name] = ({"prompt": _PROMPT, **keys, **rules}, tuple(dict.fromkeys(map(shown_name, sources))))
        return None

    def _of_front(self, name: str, path: str, front: Table, prompt: str, more: Keys) -> None:
        """Add the agent of a Markdown file of Claude Code or opencode, or of an entry of opencode.json."""
        own, lost = translated(front, prompt, name)
        for reason in lost:
            if not reason.startswith("model: inherit"):
                self._lose(path, reason)
        tools = cast("list[str]", own.pop("tools", []))
        if more["backend"] == "claude" and front.get("tools"):
            own["tools"] = [tool for tool in cast("Sequence[str]", more["tools"]) if tool in (*tools, "skills")]
        elif more["backend"] == "opencode":
            own["tools"] = [tool for tool in _unrestricted(front) if tool in cast("Sequence[str]", more["tools"])]
        self._add(name, {**more, **own}, [path])

    def _as_skills(self, folder: str) -> list[str]:
        """Convert prompts (slash commands) to skills. Returns the folders of the skills."""
        made: list[str] = []
        for stem, path, front, text in self._files(folder, bare=True):
            name, body, given = stem.lower().replace("_", "-"), text.strip(), str(front.get("description") or "")
            place = path_of(name)
            skills = [*self._skills, *(os.path.dirname(one) for one in self._found if one.endswith("/SKILL.md"))]
            is_new = _SKILL.fullmatch(name) and not {place, f".claude/skills/{name}"}.intersection(skills)
            fits = 0 < len(body.encode()) < _MOST_BYTES and "\0" not in body + given and len(skills) < MOST_FILES
            if not is_new or not fits:
                self._lose(path, "is empty, invalid or one too many, or its name is not the name of a new skill")
                continue
            if _PLACEHOLDER.search(body):
                self._lose(path, "placeholders such as $ARGUMENTS are not filled in; the model reads them as text")
            about = given or body.partition("\n")[0]
            head = document({"name": name, "description": " ".join(about.split())[:200] or name})
            self._skills[place] = (shown_name(path), f"---\n{head}---\n{body}\n")
            made.append(place)
        return made

    def _claude(self) -> None:
        path = ".claude/settings.json"
        settings = self._data(path) or {}
        rules, skills = _table(settings.get("permissions")), list[str]()
        more: Keys = {**_model("claude", settings.get("model")), "backend": "claude"}
        more |= {"mcp_servers": ".mcp.json"} if _table((self._data(".mcp.json") or {}).get("mcpServers")) else {}
        for folder in (f".claude/skills/{name}" for name in self._names(".claude/skills", "")):
            try:
                offline.agents.check_skill(Path(self._root), folder)
            except Failure as failure:
                self._lose(folder, failure.text)
            else:
                skills.append(folder)
                self._found.append(f"{folder}/SKILL.md")
        skills += self._as_skills(".claude/commands")
        more |= {"approval": "deny"} if rules.get("defaultMode") == "plan" else {}
        more["tools"] = _TOOLS[1:] if "Bash" in _list(rules.get("deny")) else _TOOLS
        more |= {"skills": skills} if skills else {}
        self._has("CLAUDE.md")
        sources, agents = list(self._found), list(self._files(".claude/agents"))
        if sources or agents:
            self._add("claude", more, sources or [".claude/agents"])
        for one in agents:
            self._of_front(*one, more)
        for kind in ("allow", "ask", "deny"):
            for rule in (rule for rule in _list(rules.get(kind)) if (kind, rule) != ("deny", "Bash")):
                self._lose(path, f"permissions.{kind}: {rule}: {_REASONS[kind]}")
        if rules.get("defaultMode") not in (None, "default", "plan"):
            self._lose(path, f"permissions.defaultMode: {rules['defaultMode']}: approval stays ask")
        self._rest(path, rules, "allow", "ask", "deny", "defaultMode")
        for event in _table(settings.get("hooks")):
            self._lose(path, f"hooks.{event}: {_REASONS['hooks']}")
        self._rest(path, settings, "hooks", "permissions", "model")

    def _codex(self) -> None:
        path = ".codex/config.toml"
        config = self._data(path, _toml) or {}
        self._as_skills(".codex/prompts")
        sources = [one for one in self._found if one.startswith(".codex/")]
        if not sources and (self._agents or not self._has("AGENTS.md")):
            return
        more: Keys = {"backend": "codex", "tools": _TOOLS, **self._servers(path, config.get("mcp_servers"))}
        more |= {"effort": str(config["model_reasoning_effort"])} if "model_reasoning_effort" in config else {}
        more |= {} if config.get("sandbox_mode") == "read-only" else _ALONE
        model, provider = config.get("model"), config.get("model_provider", "openai")
        if model is not None and provider != "openai":
            self._lose(path, f"model: {model} of {provider}: add the endpoint to providers")
        chosen = f"openai/{model}" if model is not None and provider == "openai" else _MODELS["codex"]
        self._add("codex", {"model": chosen, **more}, sources or ["AGENTS.md"])
        self._rest(path, config, "model", "model_reasoning_effort", "approval_policy", "sandbox_mode", "mcp_servers")

    def _opencode(self) -> None:
        path, before = "opencode.json", len(self._agents)
        config = self._data(path, lambda text: json.loads(_COMMENT.sub("", text)))
        settings = config or {}
        more: Keys = {**_model("opencode", settings.get("model")), "backend": "opencode"}
        more |= {"tools": _unrestricted(settings), **_ALONE, **self._servers(path, settings.get("mcp"))}
        for one in (*self._files(".opencode/agent"), *self._files(".opencode/agents")):
            self._of_front(*one, more)
        for name, own in ((name, _table(entry)) for name, entry in _table(settings.get("agent")).items()):
            prompt = own.get("prompt")
            if isinstance(prompt, str) and not prompt.startswith("{file:"):
                self._of_front(name, path, {key: own[key] for key in own if key != "prompt"}, prompt, more)
            else:
                self._lose(path, f"agent.{name}: has no prompt here")
        if config is not None or len(self._agents) > before:
            self._add("opencode", more, [path])
        self._rest(path, settings, "model", "agent", "mcp")

    def _gemini(self) -> None:
        path = ".gemini/settings.json"
        settings = self._data(path)
        if rules := self._has("GEMINI.md"):
            self._lose("GEMINI.md", "project_rules reads AGENTS.md and CLAUDE.md: rename it, or link one to it")
        if settings is not None or rules:
            servers = self._servers(path, _table(settings).get("mcpServers"))
            keys: Keys = {"backend": "acp", "command": ["gemini", "--acp"], **servers}
            self._add("gemini", keys, [one for one in self._found if one in (path, "GEMINI.md")])
            self._rest(path, _table(settings), "mcpServers")

    def _servers(self, path: str, entries: object) -> Keys:
        """Return the MCP servers of a settings file as ``mcp_servers``."""
        found: Keys = {}
        for name, own in ((name, _table(entry)) for name, entry in _table(entries).items()):
            command, url = own.get("command"), own.get("url", own.get("httpUrl"))
            words = [command] if isinstance(command, str) else _list(command)
            headers, token = _texts(own.get("headers", own.get("http_headers"))), own.get("bearer_token_env_var")
            headers |= {"Authorization": f"Bearer ${{{token}}}"} if isinstance(token, str) else {}
            server: Keys = {"url": url, "headers": headers} if isinstance(url, str) else {}
            if words:
                env = _texts(own.get("env", own.get("environment")))
                server = {"command": words[0], "args": [*words[1:], *_list(own.get("args"))], "env": env}
            if server and own.get("enabled") is not False:
                found[name] = {key: value for key, value in server.items() if value}
            else:
                self._lose(path, f"MCP server {name}: is disabled, or has neither command nor url")
        return {"mcp_servers": found} if found else {}


def _table(value: object) -> Table:
    return cast("Table", value) if isinstance(value, dict) else {}


def _model(backend: str, model: object) -> Keys:
    return {"model": model if isinstance(model, str) and model else _MODELS[backend]}


def _toml(text: str) -> Table:
    if any(line.count(".") > _MOST_DOTS for line in text.split("\n")):
        raise ValueError(f"a line has more than {_MOST_DOTS} dots")
    return tomllib.loads(text)


def _unrestricted(own: Table) -> list[str]:
    """Return the tools that the settings of opencode, or of one of its agents, neither disable nor restrict."""
    rules = own.get("permission", {})
    given = (*_table(own.get("tools")).items(), *(rules if isinstance(rules, dict) else {"*": rules}).items())
    off = {name for name, value in given if value not in (True, "true", "allow")}
    return [tool for tool in _TOOLS if off.isdisjoint(_OF_OPENCODE.get(tool, ()))]


def _list(value: object) -> list[str]:
    return [item for item in cast("list[object]", value) if isinstance(item, str)] if isinstance(value, list) else []


def _texts(value: object) -> Keys:
    return {name: item for name, item in _table(value).items() if isinstance(item, str)}
