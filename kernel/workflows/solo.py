"""The single agent that a team is compared with: it has the prompts and tools of all members. Pure.

It gets only what members had. Of differing permissions, the strictest applies: the sandbox if any member has it, the
most restrictive approval, the lowest limits. Unique settings (a backend with its model and login) are those of most
members, and of the first in the file among equals. All choices and omissions are reported in a note.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal

import msgspec

from kernel.agents.providers import MOCK
from kernel.agents.skills import HOME
from kernel.agents.soul import soul_text
from protocol.agent import AgentDefinition, AgentLimits, Approval, CliExtras, McpServer, Prompt, Timeouts
from protocol.errors import Refused
from protocol.limits import AgentBudget, InstructionBudget, PlaceNeeds
from protocol.names import NAME
from protocol.workflow import WorkflowDefinition, Workspace

NAMED: Final = "solo"
STRICTER: Final[tuple[Approval, ...]] = ("auto", "ask", "all", "deny")
_MOST_STEPS: Final = 10_000
_LONGEST_SECONDS: Final = 2_592_000.0
_CODE: Final = re.compile(r"(```.*?```|~~~.*?~~~|`[^`\n]*`)", re.DOTALL)
_MENTION: Final = re.compile(r"(?<![\w.@/`+-])@([A-Za-z][A-Za-z0-9_-]{0,31}+)(?![\w@/])", re.ASCII)


class SoloMember(msgspec.Struct, frozen=True):
    """A member with the data for the union: ``system`` is its prompt text, ``soul`` its traits."""

    name: str
    definition: AgentDefinition
    system: str
    soul: dict[str, Any]


class Solo(msgspec.Struct, frozen=True):
    """The workflow with the single agent, and notes about choices and omissions."""

    definition: WorkflowDefinition
    agent: AgentDefinition
    notes: tuple[str, ...]


def solo_of(definition: WorkflowDefinition, parts: Sequence[SoloMember], taken: Iterable[str] = ()) -> Solo:
    """Return ``definition`` with one agent for all ``parts``. Raises Refused if impossible."""
    people = [part.name for part in parts if part.definition.backend == "human"]
    if people:
        text = f"{', '.join(people)}: human members cannot be part of a single agent"
        raise Refused("bad_request", text, "compare a workflow whose members are all agents")
    used = {*taken, *(part.name for part in parts)}
    numbered = (NAMED if number == 1 else f"{NAMED}-{number}" for number in range(1, len(used) + 2))
    name = next(name for name in numbered if name not in used)
    assert NAME.fullmatch(name), name
    notes: list[str] = []
    agent = _union(name, parts, notes)
    workspace = definition.workspace
    if isinstance(workspace, Workspace) and workspace.document_owner is not None:
        workspace = msgspec.structs.replace(workspace, document_owner=None)
        notes.append("workspace.document_owner is left out: the agent writes all documents")
    deliver = definition.deliver
    if definition.verdict is not None:
        notes.append("verdict is left out: the workflow has no voters")
        deliver = None if deliver is None else msgspec.structs.replace(deliver, when="done")
    if definition.rules:
        notes.append("rules are left out: they order the work of several members")
    if any(entry.schedule is not None for entry in definition.agents.values()):
        notes.append("schedules are left out")
    solo = msgspec.structs.replace(
        definition,
        agents={name: agent},
        kickoff=None if definition.kickoff is None else addressed(definition.kickoff, used, name),
        tasks=tuple(
            task if task.for_ is None else msgspec.structs.replace(task, for_=name) for task in definition.tasks
        ),
        workspace=workspace,
        deliver=deliver,
        verdict=None,
        rules=(),
    )
    return Solo(solo, agent, tuple(notes))


def addressed(text: str, members: Iterable[str], name: str) -> str:
    """Return ``text`` with ``@name`` in place of mentions of ``members``; code is unchanged."""
    known = frozenset(members)
    pieces = _CODE.split(text)
    pieces[::2] = (
        _MENTION.sub(lambda found: f"@{name}" if found[1].lower() in known else found[0], piece)
        for piece in pieces[::2]
    )
    return "".join(pieces)


def prompt_of(parts: Sequence[SoloMember]) -> str:
    """Return the prompts of all members in the order of the file, each below its member's name, without repetitions."""
    texts: dict[str, list[str]] = {}
    for part in parts:
        append = (part.definition.prompt.append or "").strip()
        soul = soul_text(part.soul).strip() if part.soul else ""
        text = "\n\n".join(filter(None, (part.system.strip(), soul, append)))
        texts.setdefault(text, []).append(part.name)
    told = [f"# The role of {' and '.join(names)}\n\n{text}".strip() for text, names in texts.items()]
    opening = (
        "You work alone and have all the roles of a team, described below. When one role would hand over to another, "
        "continue in the other role yourself."
    )
    return "\n\n".join([opening, *told])


def _union(name: str, parts: Sequence[SoloMember], notes: list[str]) -> AgentDefinition:
    definitions = [part.definition for part in parts]
    engines = [(one.backend, one.model, one.provider, one.login, one.command) for one in definitions]
    engine = max(engines, key=engines.count)
    lead = definitions[engines.index(engine)]
    others = [part for part, its in zip(parts, engines, strict=True) if its != engine]
    if others:
        shown = ", ".join(f"{one.name} uses {_engine(one.definition)}" for one in others)
        notes.append(f"the agent uses {_engine(lead)}, like most or the first of the members; {shown}")
    extras = [one.cli for one in definitions if one.backend == lead.backend]
    # The folder of the project is the default, so it is not listed alone.
    folders = _distinct(one.skills or (HOME,) for one in definitions if "skills" in one.tools or one.skills)
    is_mock = MOCK in (lead.backend, lead.first_model.partition("/")[0])
    approval: Approval = STRICTER[max(STRICTER.index(one.approval) for one in definitions)]
    _tell(notes, "approval", parts, lambda one: one.approval, approval)
    sandbox: Literal["off", "on"] = "on" if any(one.sandbox == "on" for one in definitions) else "off"
    _tell(notes, "sandbox", parts, lambda one: one.sandbox, sandbox)
    if sandbox == "on" and lead.backend == "exec":
        raise Refused("bad_request", "one member has a sandbox, which exec lacks", "set the same sandbox: for all")
    if any(one.context.dir is not None for one in definitions) or any(one.memory != lead.memory for one in definitions):
        notes.append("memories, notes and todos of the members are left out: the agent starts without any")
    return AgentDefinition(
        name=name,
        model=lead.model,
        backend=lead.backend,
        provider=lead.provider,
        prompt=Prompt(system=prompt_of(parts)),
        context=msgspec.structs.replace(lead.context, dir=None),
        memory=lead.memory,
        max_steps=min(sum(one.max_steps for one in definitions), _MOST_STEPS),
        max_tokens=max(one.max_tokens for one, its in zip(definitions, engines, strict=True) if its == engine),
        effort=lead.effort,
        thinking=lead.thinking,
        temperature=lead.temperature,
        timeouts=_timeouts([one.timeouts for one in definitions]),
        retry=lead.retry,
        restart=lead.restart,
        budget=_budget([one.budget for one in definitions]),
        tools=_distinct(one.tools for one in definitions),
        scopes=_distinct(one.scopes for one in definitions),
        mcp_servers=_servers(parts),
        skills=() if folders == (HOME,) else folders,
        read_only=tuple(
            word
            for word in _distinct(one.read_only for one in definitions)
            if all(
                word in one.read_only
                for one in definitions
                if word.removeprefix("mcp__").partition("__")[0] in one.mcp_servers
            )
        ),
        approval=approval,
        sandbox=sandbox,
        limits=_limits([one.limits for one in definitions]),
        needs=_place([one.needs for one in definitions]),
        login=lead.login,
        cli=CliExtras(
            skills=_distinct(one.skills for one in extras),
            hooks=any(one.hooks for one in extras),
            mcp_servers=_distinct(one.mcp_servers for one in extras),
        ),
        project_rules=any(one.project_rules for one in definitions),
        command=lead.command,
        env=_distinct(one.env for one in definitions),
        mock=tuple(rule for one in definitions for rule in one.mock) if is_mock else (),
    )


def _engine(definition: AgentDefinition) -> str:
    login = " with your login" if definition.login else ""
    return f"{definition.backend} {', '.join(definition.models)}".strip() + login


def _tell(
    notes: list[str], key: str, parts: Sequence[SoloMember], value: Callable[[AgentDefinition], object], chosen: object
) -> None:
    others = [part.name for part in parts if value(part.definition) != chosen]
    if others:
        notes.append(f"{key}: {chosen}, the strictest setting; {', '.join(others)} had a weaker one")


def _distinct(lists: Iterable[Iterable[Any]]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(item for one in lists for item in one))


def _servers(parts: Sequence[SoloMember]) -> dict[str, McpServer]:
    found: dict[str, McpServer] = {}
    whose: dict[str, str] = {}
    for part in parts:
        for name, server in part.definition.mcp_servers.items():
            if found.setdefault(name, server) != server:
                text = f"{whose[name]} and {part.name} use different MCP servers named {name!r}"
                raise Refused("bad_request", text, "give each a unique name, so that one agent can use both")
            whose.setdefault(name, part.name)
    return found


def _limits(all_: Sequence[AgentLimits]) -> AgentLimits:
    least: dict[str, Any] = {}
    for field in AgentLimits.__struct_fields__:
        values = [value for one in all_ if (value := getattr(one, field)) is not None]
        least[field] = min(values, default=None)
    return AgentLimits(**least)


def _place(all_: Sequence[PlaceNeeds]) -> PlaceNeeds:
    return PlaceNeeds(
        labels=tuple(dict.fromkeys(label for one in all_ for label in one.labels)),
        memory=max((one.memory for one in all_ if one.memory is not None), default=None),
        gpus=max(one.gpus for one in all_),
    )


def _timeouts(all_: Sequence[Timeouts]) -> Timeouts:
    return Timeouts(
        startup=max(one.startup for one in all_),
        idle=max(one.idle for one in all_),
        tool=max(one.tool for one in all_),
        # One agent does the work of all.
        total=min(sum(one.total for one in all_), _LONGEST_SECONDS),
        approval=max(one.approval for one in all_),
    )


def _budget(all_: Sequence[AgentBudget]) -> AgentBudget:
    """Add the members' limits; for different windows, use the lowest limit and longest window."""
    windows = {one.window for one in all_}
    whole = sum if len(windows) == 1 else min
    return AgentBudget(
        **{key: _whole(all_, key, whole) for key in ("tokens", "usd", "wall_time")},
        window=max(windows),
        instruction=InstructionBudget(
            **{key: _whole([one.instruction for one in all_], key, sum) for key in InstructionBudget.__struct_fields__}
        ),
    )


def _whole(all_: Sequence[msgspec.Struct], key: str, whole: Callable[[Iterable[Any]], Any]) -> Any:
    values = [getattr(one, key) for one in all_]
    return None if None in values else whole(values)  # None: a member without a limit
