"""What every world stands on, made once: a project with its agents, and a store in which their team has begun."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

from kernel.agents.catalog import Catalog
from kernel.rule.draft import Draft, MemberSpec, WorkflowStarted
from kernel.store.commits.append import append
from kernel.store.commits.roster import AgentSpec, put_agents
from kernel.store.database import MEMORY, Database, open_database
from kernel.store.transaction import Transaction
from protocol.message import SYSTEM
from protocol.names import AgentKey
from protocol.workflow import Ref, WorkflowDefinition
from tests.sim.plan import AGENTS, PROVIDER_OF, TEAM

FILE: Final = """\
model: {provider}/small
prompt: {{system: You do jobs.}}
timeouts: {{startup: 30s, idle: 60s, tool: 2m, total: 20m, approval: 60s}}
"""
ENVIRON: Final = {"ANTHROPIC_API_KEY": "key-a", "OPENAI_API_KEY": "key-o"}
MADE_MS: Final = 1_789_999_000_000


@dataclass(frozen=True)
class Ground:
    """A project folder, what its environment holds, and a store to copy."""

    root: Path
    agents: tuple[str, ...]
    catalog: Catalog
    template: Database
    environ: Mapping[str, str]

    def fresh(self) -> Database:
        """A store of its own, as the template is: copied, since migrating takes longer than many a world lives."""
        return _Copy(self.template)


class _Copy(Database):
    """A database in memory whose schema is there from the beginning."""

    def __init__(self, template: Database) -> None:
        self._template = template
        super().__init__(MEMORY)

    def _connect(self, flags: int, pragmas: str) -> apsw.Connection:
        first = not hasattr(self, "_writer")
        connection = super()._connect(flags, pragmas)
        if first:
            with connection.backup("main", self._template.writer(), "main") as copy:
                copy.step(-1)
        return connection


def lay(root: Path, agents: Mapping[str, str] | None = None) -> Ground:
    """Make the project in ``root`` and the template. ``agents``: files by name, the usual ones where it is None."""
    files = agents or {name: FILE.format(provider=PROVIDER_OF[name]) for name in AGENTS}
    (root / ".agents").mkdir(parents=True)
    for name, text in files.items():
        (root / ".agents" / f"{name}.yaml").write_text(text)
    template = open_database(MEMORY)
    catalog = Catalog(root)
    transaction = Transaction(template.writer(), MADE_MS)
    template.writer().execute("BEGIN IMMEDIATE")
    put_agents(transaction, [_spec(name) for name in files])
    append(transaction, _team(tuple(files)))
    template.writer().execute("COMMIT")
    return Ground(root, tuple(files), catalog, template, ENVIRON)


def _spec(name: str) -> AgentSpec:
    return AgentSpec(key=AgentKey(name), origin="file", file=f".agents/{name}.yaml")


def _team(names: tuple[str, ...]) -> Draft:
    return beginning(WorkflowDefinition(name=TEAM.partition(":")[0], agents={name: Ref(ref=name) for name in names}))


def beginning(definition: WorkflowDefinition, **more: Any) -> Draft:
    """What starts a workflow of agents that are there. ``more`` is what the payload says besides."""
    name = definition.name
    started = WorkflowStarted(
        name=name,
        tag="main",
        mode="start",
        file=f".workflows/{name}.yaml",
        definition=msgspec.json.encode(definition),
        members=tuple(MemberSpec(name=one, key=AgentKey(one), origin="file") for one in definition.agents),
    )
    payload = msgspec.structs.replace(started, **more)
    return Draft(kind="status", space=f"{name}:main", sender=SYSTEM, text=f"{name}:main started", payload=payload)
