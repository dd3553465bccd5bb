"""Conversion of a node tree into an agent definition, and the rules between its keys.

Used for ``.agents/<name>.yaml``, inline agents of workflows and agents created over REST; the origin of the tree is not
relevant here. Known but unsupported keys are rejected with a reason and never ignored silently: a missing effect would
go unnoticed. If some keys are invalid, the rules between the others are still checked.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from kernel.agents.cli_extras import acp_faults, extras_faults
from kernel.agents.environment import name_fault
from kernel.agents.mcp_servers import full_servers, name_faults, read_only_faults, server_faults
from kernel.agents.mock_script import check_script, full_exit, full_rules, plain_exit
from kernel.agents.models import each_model, models_of
from kernel.agents.providers import (
    MOCK,
    ModelRejected,
    Route,
    calls_models,
    check_backend,
    check_model_name,
    login_fault,
    route,
)
from kernel.agents.schedule import faults
from kernel.source.convert import Converter, TypeRules, model_of
from kernel.source.diagnostics import Diagnostics, Location
from kernel.source.scalars import show_duration
from kernel.source.yaml_tree import ListNode, MapNode, Node, ScalarNode
from protocol.agent import Action, AgentDefinition, Approval, Backend, Prompt, Rule
from protocol.agent_layout import dir_fault
from protocol.backends import BACKENDS, CLIS, COMMANDED, EXEC
from protocol.limits import MOST_LABELS, label_fault
from protocol.project import ProjectDefinition

EFFORT: Final = "effort"
THINKING: Final = "thinking"
TEMPERATURE: Final = "temperature"
_ALL: Final = frozenset({EFFORT, THINKING, TEMPERATURE})

TAKEN: Final[Mapping[tuple[Backend, str], frozenset[str]]] = {
    ("sdk", "anthropic"): _ALL,
    ("sdk", "openai"): frozenset({EFFORT, TEMPERATURE}),
    ("claude", "anthropic"): frozenset({EFFORT, THINKING}),
    ("codex", "openai"): frozenset({EFFORT}),
    ("opencode", "anthropic"): _ALL,
    ("opencode", "openai"): frozenset({EFFORT, TEMPERATURE}),
}
"""Backend and dialect -> the supported options."""
_TAKES_ALL: Final = frozenset({"exec", "human", "mock"})
"""Backends that receive the options in their start frame, replace any other backend, or call no model. The same applies
to mock models."""
_MOCK: Final = "mock"
MOST_MODELS: Final = 10
_WARMEST: Final[Mapping[str, float]] = {"anthropic": 1.0}
"""Maximum temperature of a dialect if it is not 2."""


class UnsupportedOption(msgspec.Struct, frozen=True):
    """An unsupported key, the reason, and a hint."""

    key: str
    message: str
    hint: str


def unsupported_options(definition: AgentDefinition, way: Route) -> Iterator[UnsupportedOption]:
    """Yield the options of ``definition`` that its backend or the provider of the route ``way`` does not support."""
    if definition.backend in _TAKES_ALL or way.dialect == _MOCK:
        return
    taken = TAKEN.get((definition.backend, way.dialect), frozenset())
    asked = [key for key in (EFFORT, THINKING, TEMPERATURE) if getattr(definition, key) is not None]
    for key in asked:
        if key not in taken:
            able = ", ".join(sorted(taken)) or "none of effort, thinking and temperature"
            who = f"backend {definition.backend} with a model of {way.name}"
            yield UnsupportedOption(key, f"is not supported by {who}", f"remove it; supported: {able}")
    if {THINKING, TEMPERATURE} <= set(asked) <= taken and way.dialect == "anthropic":
        yield UnsupportedOption(TEMPERATURE, "cannot be combined with thinking", "keep one of them")
    warmest = _WARMEST.get(way.dialect)
    if TEMPERATURE in taken and definition.temperature is not None and warmest and definition.temperature > warmest:
        yield UnsupportedOption(TEMPERATURE, f"{definition.temperature:g} is too high: the limit is 1", "lower it")
    if definition.thinking is not None and THINKING in taken:
        tokens = definition.thinking.budget_tokens
        if tokens >= definition.max_tokens:
            text = f"{tokens} must be less than max_tokens ({definition.max_tokens}), which includes it"
            yield UnsupportedOption(f"{THINKING}.budget_tokens", text, "raise max_tokens, or lower it")


_MEANT: Final[Mapping[str, Approval]] = {"never": "auto", "reads": "ask"}
"""never: no call is asked about. reads: read-only calls are allowed without asking."""


def full_approval(node: Node) -> Node:
    """Replace ``never`` and ``reads`` as values of ``approval`` by ``auto`` and ``ask``."""
    if not isinstance(node, ScalarNode) or node.text not in _MEANT:
        return node
    return msgspec.structs.replace(node, text=_MEANT[node.text])


REFUSED_KEYS: Final[Mapping[tuple[type, str], tuple[str, str]]] = {
    (AgentDefinition, "system_prompt"): ("unknown key 'system_prompt'", "write prompt: {system: ...}"),
    (AgentDefinition, "system"): ("unknown key 'system'", "write prompt: {system: ...}"),
    (Prompt, "append"): (
        "append is only valid in a workflow that refers to an agent",
        "write the whole prompt under system or system_file",
    ),
}

REFUSED_VALUES: Final[Mapping[tuple[type, str], Mapping[str, str]]] = {}


AGENT_SHAPES: Final = TypeRules(
    short_forms={
        (AgentDefinition, "approval"): full_approval,
        (AgentDefinition, "mcp_servers"): full_servers,
        (AgentDefinition, "mock"): full_rules,
        (Action, "exit"): full_exit,
    },
    refused=REFUSED_KEYS,
    refused_values=REFUSED_VALUES,
)


class NameSource(msgspec.Struct, frozen=True):
    """The required name of an agent, and its origin: the file name, or a key of a workflow."""

    name: str
    by: str


def convert_agent(
    node: Node, named: NameSource, converter: Converter, problems: Diagnostics, where: str = ""
) -> AgentDefinition | None:
    """Return the agent of ``node``, not yet checked by ``check_agent``; None if it has errors."""
    if not isinstance(node, MapNode) or node.get("name") is None:
        own, rest = None, node
    else:
        own, rest = node.get("name"), node.without({"name"})
    if own is not None and (not isinstance(own, ScalarNode) or own.text != named.name):
        said = repr(own.text[:60]) if isinstance(own, ScalarNode) else "no name"
        hint = f"write name: {named.name}, or remove it"
        problems.add(own.place, _join(where, "name"), f"must be {named.name}, because {named.by}; found {said}", hint)
    definition = converter.struct(rest, AgentDefinition, where, {"name": named.name})
    return None if definition is None else msgspec.structs.replace(definition, mock=plain_rules(definition.mock))


def check_agent(
    definition: AgentDefinition, node: Node, project: ProjectDefinition, problems: Diagnostics, where: str = ""
) -> None:
    """Report violations of the rules between the keys of ``definition``, such as a mock without a script."""
    check = _Check(definition, node, problems, where)
    check.model(project)
    check.prompt()
    check.context()
    check.mock()
    check.env()
    check.tools(project)
    check.command()
    check.login(project)
    check.schedule()
    check.restart()
    check.reuse()
    check.replicas()
    check.needs()
    check.worktree()


def plain_rules(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Return mock rules in their canonical spelling."""
    return tuple(Rule(when=rule.when, do=tuple(plain_exit(action) for action in rule.do)) for rule in rules)


class _Check:
    def __init__(self, definition: AgentDefinition, node: Node, problems: Diagnostics, where: str) -> None:
        self._agent = definition
        self._node = node
        self._problems = problems
        self._where = where

    def model(self, project: ProjectDefinition) -> None:
        if not calls_models(self._agent):
            if BACKENDS[self._agent.backend].own_models:
                for key in (EFFORT, THINKING, TEMPERATURE, "provider"):
                    if getattr(self._agent, key) is not None:
                        message = f"is not supported by backend {self._agent.backend}"
                        self._bad(key, message, "remove it, and configure it in the program itself")
            # The model is not called, but its name must be valid: it is displayed and passed on.
            for where, one in self._each(project):
                model = one.first_model
                try:
                    check_model_name(model, model.partition("/")[2] or model or MOCK)
                except ModelRejected as error:
                    self._bad(where, error.message, error.hint)
            return
        found = models_of(self._agent, project)
        if not found:
            hint = "add model: provider/name (not needed for backend mock), or models: {default: ...} to the project"
            self._bad("model", "is missing", hint)
        elif len(found) > 1 and self._agent.provider is not None:
            self._bad("provider", "cannot be combined with a list of models", "remove it, or keep one model")
        elif len(found) > MOST_MODELS:
            self._bad("model", f"has {len(found)} models", f"write at most {MOST_MODELS}")
        else:
            # An unsupported option is reported once.
            for where, one in self._each(project):
                if not self._check_model(where, one, project):
                    break

    def _each(self, project: ProjectDefinition) -> Iterator[tuple[str, AgentDefinition]]:
        """Yield each model with its location: models of an alias and of the default have that of the key."""
        written = _get(self._node, "model")
        each = each_model(self._agent, project)
        listed = isinstance(written, ListNode) and len(written.items) == len(each)
        for index, one in enumerate(each):
            yield f"model[{index}]" if listed else "model", one

    def _check_model(self, where: str, one: AgentDefinition, project: ProjectDefinition) -> bool:
        key = where if _get(self._node, "provider") is None else "provider"
        try:
            found = route(one, project)
            key = "backend" if where == "model" else where
            check_backend(one, found)
        except ModelRejected as error:
            self._bad(where if "is not a model" in error.message else key, error.message, error.hint)
            return True
        faults = tuple(unsupported_options(one, found))
        for fault in faults:
            self._bad(fault.key, fault.message, fault.hint)
        return not faults

    def worktree(self) -> None:
        if self._agent.worktree is not None:
            hint = "set it in the workflow, under agents:, with workspace: {git: worktree}"
            self._bad("worktree", "only an agent in a workflow has a working tree", hint)

    def prompt(self) -> None:
        prompt = self._agent.prompt
        if prompt.system is not None and prompt.system_file is not None:
            self._bad("prompt.system_file", "system and system_file cannot be combined", "keep one of them")
        needed = not BACKENDS[self._agent.backend].bare and not self._agent.first_model.startswith(f"{MOCK}/")
        if needed and prompt.system is None and prompt.system_file is None:
            self._bad("prompt", "is missing", "add prompt: with system: or system_file:")

    def context(self) -> None:
        written = _get(_get(self._node, "context"), "dir")
        if not isinstance(written, ScalarNode):
            return
        fault = "is empty" if written.is_null else dir_fault(written.text, self._agent.name)
        if fault is not None:
            hint = f"write a folder relative to the project root, such as team/{self._agent.name}"
            self._bad("context.dir", f"{written.text[:200]!r} {fault}", hint)

    def mock(self) -> None:
        script = _get(self._node, "mock")
        plays = self._agent.backend == MOCK or self._agent.first_model.startswith(f"{MOCK}/")
        if plays and not self._agent.mock:
            self._bad("mock", "is missing: a mock agent needs a script", "for example mock: [{text: done}]")
        if script is not None:
            check_script(self._agent.mock, script, _join(self._where, "mock"), self._problems)

    def env(self) -> None:
        for index, name in enumerate(self._agent.env):
            fault = name_fault(name)
            if fault is not None:
                self._bad("env", fault, None, f"[{index}]")

    def tools(self, project: ProjectDefinition) -> None:
        servers = self._agent.mcp_servers
        named = name_faults(self._agent.tools, project.tools)
        reading = read_only_faults(self._agent.read_only, {*servers, *self._agent.cli.mcp_servers})
        for fault in (*named, *server_faults(servers), *reading, *extras_faults(self._agent), *acp_faults(self._agent)):
            self._bad(fault.key, fault.message, fault.hint)

    def command(self) -> None:
        backend = self._agent.backend
        if backend not in COMMANDED:
            # A workflow may replace a program with a mock script; the file's command then remains.
            if _get(self._node, "command") is not None and self._agent.command:
                able = " and ".join(sorted(COMMANDED))
                message = f"is only for the backends {able}, but the backend is {backend}"
                self._bad("command", message, "remove it, or write backend: exec")
            return
        if not self._agent.command or not self._agent.command[0]:
            example = "[python3, mine.py]" if backend == EXEC else "[gemini, --acp]"
            self._bad("command", f"is missing: backend {backend} runs a program", f"for example command: {example}")
        if backend == EXEC and self._agent.sandbox == "on":
            hint = "run the command in its own sandbox, for example command: [bwrap, ..., python3, mine.py]"
            self._bad("sandbox", "is not supported by backend exec", hint)

    def login(self, project: ProjectDefinition) -> None:
        if not self._agent.login:
            return
        if BACKENDS[self._agent.backend].own_home and self._agent.sandbox == "on":
            self._bad("login", "cannot be combined with sandbox: on, which hides your home", "remove one of the two")
        fault = login_fault(self._agent, project)
        if fault is not None:
            self._bad("login", fault.message, fault.hint)

    def schedule(self) -> None:
        if self._agent.schedule is not None:
            for fault in faults(self._agent.schedule):
                self._bad(f"schedule.{fault.key}", fault.message, fault.hint)

    def restart(self) -> None:
        restart = self._agent.restart
        if restart.delay > restart.max_delay:
            shown = show_duration(restart.max_delay)
            message = f"is longer than max_delay ({shown})"
            self._bad("restart.delay", message, "shorten it, or raise restart.max_delay")

    def reuse(self) -> None:
        if self._agent.reuse in (None, 1, "auto"):
            return
        if self._agent.backend in {*CLIS, EXEC}:
            message = f"is only for the built-in loop; backend {self._agent.backend} starts a program for each attempt"
            self._bad("reuse", message, "remove it, or write backend: sdk")
        elif self._agent.sandbox == "on":
            message = "cannot be combined with sandbox: on, because attempts would share the files in /tmp"
            self._bad("reuse", message, "remove one of the two")

    def replicas(self) -> None:
        if (self._agent.replicas or 1) > 1 and self._agent.backend == "human":
            self._bad("replicas", "is not supported by backend human, which asks one person", "remove it")

    def needs(self) -> None:
        for index, label in enumerate(self._agent.needs.labels):
            fault = label_fault(label)
            if fault is not None:
                self._bad("needs.labels", fault, None, f"[{index}]")
        if len(self._agent.needs.labels) > MOST_LABELS:
            self._bad("needs.labels", f"has more than {MOST_LABELS} labels", "combine them into one label of the node")

    def _bad(self, key: str, message: str, hint: str | None, suffix: str = "") -> None:
        self._problems.add(place_at(self._node, key), _join(self._where, key) + suffix, message, hint)


def place_at(node: Node, path: str) -> Location:
    """Return the location of the last part of ``path`` (``prompt.system_file``, ``rules[0].then``) that exists."""
    place, current = node.place, node
    for step in path.replace("[", ".[").split("."):
        if step.startswith("["):
            index = int(step[1:-1])
            if not isinstance(current, ListNode) or index >= len(current.items):
                break
            current = current.items[index]
            place = current.place
        else:
            below = current.get(step) if isinstance(current, MapNode) else None
            if not isinstance(current, MapNode) or below is None:
                break
            place, current = current.place_of(step), below
    return place


def _get(node: Node | None, key: str) -> Node | None:
    return node.get(key) if isinstance(node, MapNode) else None


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


_DECIDING: Final = frozenset({"backend", "model"})
_MISSING: Final = "is missing"


def check_partial(
    node: Node, named: NameSource, project: ProjectDefinition, problems: Diagnostics, where: str = ""
) -> None:
    """Check the keys of ``node`` that have no errors in ``problems``, after a failed conversion."""
    if not isinstance(node, MapNode) or problems.full:
        return
    wrong = {_key(error.where, where) for error in problems.errors}
    sound = node.without(wrong | {"name"})
    definition = Converter(Diagnostics(problems.path), AGENT_SHAPES).struct(
        sound, AgentDefinition, where, {"name": named.name}
    )
    if definition is None:
        return
    found = Diagnostics(problems.path, problems.text)
    definition = msgspec.structs.replace(definition, mock=plain_rules(definition.mock))
    check_agent(definition, sound, project, found, where)
    # An unknown key may be a misspelling of a missing one, and a wrong backend leaves its requirements unknown.
    unsure = bool(wrong - model_of(AgentDefinition).by_key.keys() or wrong & _DECIDING)
    for error in found.errors:
        follows = _key(error.where, where) in wrong or (unsure and error.message.startswith(_MISSING))
        if not follows:
            problems.add(Location(error.line, error.column), error.where, error.message, error.hint)


def _key(where: str, above: str) -> str:
    if above and not where.startswith(f"{above}."):
        return ""
    return where[len(above) :].removeprefix(".").partition(".")[0].partition("[")[0]
