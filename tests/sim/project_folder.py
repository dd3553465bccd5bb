"""What every world stands on, made once: a project with its agents, and a store in which their team has begun."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

from kernel.agents.catalog import Catalog
from kernel.rule.draft import Draft, MemberSpec, RunSpec
from kernel.store.agents import AgentSpec, put_agents
from kernel.store.database import MEMORY, C, Database, open_database
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import append
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
TABLES: Final = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name = 'sqlite_sequence', name"
"""The numbers given out come last: each row that is put in may change them."""


@dataclass(frozen=True)
class ProjectFolder:
    """A project folder, what its environment holds, and a store to copy."""

    root: Path
    agents: tuple[str, ...]
    catalog: Catalog
    template: Database
    environ: Mapping[str, str]
    spare: list["_Copy"] = field(default_factory=list)
    """Stores whose world is over."""

    def fresh(self) -> Database:
        """A store as the template is: copied, since migrating takes longer than many a world lives.

        One that served a world before is emptied and filled anew: half the time of a short world goes into
        statements that its connections have not prepared yet.
        """
        if not self.spare:
            return _Copy(self)
        copy = self.spare.pop()
        copy.fill_anew()
        return copy


class _Copy(Database):
    """A database in memory whose schema is there from the beginning. Closed, it waits for another world."""

    def __init__(self, project_folder: ProjectFolder) -> None:
        self._ground = project_folder
        self._unused: list[apsw.Connection] = []
        super().__init__(MEMORY)

    def _connect(self, flags: int, pragmas: str, kind: type[C]) -> C:
        first = not hasattr(self, "_writer")
        connection = super()._connect(flags, pragmas, kind)
        if first:
            with connection.backup("main", self._ground.template.writer(), "main") as copy:
                copy.step(-1)
        return connection

    def reader(self) -> apsw.Connection:
        """One that a kernel of another world had, or a new one."""
        return self._unused.pop() if self._unused else super().reader()

    def close(self) -> None:
        """Keep the connections, unless a transaction was left open in one."""
        if any(one.in_transaction for one in (self._writer, *self._readers)):
            super().close()
        else:
            self._ground.spare.append(self)

    def fill_anew(self) -> None:
        """Make every table what it is in the template, row by row and the numbers given out included."""
        self._writer.execute("BEGIN IMMEDIATE")
        for (table,) in self._writer.execute(TABLES).fetchall():
            self._writer.execute(f"DELETE FROM {table}")
            for row in self._ground.template.writer().execute(f"SELECT * FROM {table}"):
                self._writer.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        self._writer.execute("COMMIT")
        self._unused = list(self._readers)


def lay(root: Path, agents: Mapping[str, str] | None = None) -> ProjectFolder:
    """Make the project in ``root`` and the template. ``agents``: files by name, the usual ones where it is None."""
    files = agents or {name: FILE.format(provider=PROVIDER_OF[name]) for name in AGENTS}
    (root / ".agents").mkdir(parents=True)
    for name, text in files.items():
        (root / ".agents" / f"{name}.yaml").write_text(text)
    template = open_database(MEMORY)
    catalog = Catalog(root)
    transaction = Transaction(template.writer(), MADE_MS)
    template.writer().execute("BEGIN IMMEDIATE")
    names = tuple(one.definition.name for one in catalog.survey().loaded)  # with instances
    put_agents(transaction, [_spec(name) for name in names])
    append(transaction, _team(names))
    template.writer().execute("COMMIT")
    return ProjectFolder(root, tuple(files), catalog, template, ENVIRON)


def _spec(name: str) -> AgentSpec:
    return AgentSpec(key=AgentKey(name), origin="file", file=f".agents/{name}.yaml")


def _team(names: tuple[str, ...]) -> Draft:
    return beginning(WorkflowDefinition(name=TEAM.partition(":")[0], agents={name: Ref(ref=name) for name in names}))


def beginning(definition: WorkflowDefinition, **more: Any) -> Draft:
    """What starts a workflow of agents that are there. ``more`` is what the payload says besides."""
    name = definition.name
    started = RunSpec(
        name=name,
        tag="main",
        mode="start",
        file=f".workflows/{name}.yaml",
        definition=msgspec.json.encode(definition),
        members=tuple(MemberSpec(name=one, key=AgentKey(one), origin="file") for one in definition.agents),
    )
    payload = msgspec.structs.replace(started, **more)
    return Draft(kind="status", space=f"{name}:main", sender=SYSTEM, text=f"{name}:main started", payload=payload)
