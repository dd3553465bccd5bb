"""Random rules that create agents, spaces and runs, with kills and reopened stores, held against a plain count.

``python -m tests.kernel.store.creation_histories COUNT [FIRST]`` tries many; a seed says all that happens.
"""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar, get_args

import msgspec

from kernel.policy.creation import DEPTH, MOST, SHARE, WINDOW_MS
from kernel.rule.draft import Draft, MemberSpec, RunSpec
from kernel.store import rules as stored
from kernel.store.database import MEMORY, Database
from kernel.store.idempotency import RequestKey
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import append
from kernel.store.transitions.creations import planned_starts
from kernel.store.transitions.runs import RULES, StartedRun, refuse_start, start_run
from protocol.agent import AgentDefinition, Scope, scopes_of
from protocol.errors import Refused
from protocol.limits import AgentBudget
from protocol.message import USER
from protocol.names import AgentKey, base_space, inline_key, workflow_space
from protocol.rules import RuleSpec
from protocol.workflow import WorkflowDefinition
from tests.kernel.store.busy_workspace import MEMBERS, SPACE, BusyWorkspace
from tests.kernel.store.migrated import open_migrated
from tests.soak import run_seeds, say

T = TypeVar("T")
ALL: Final[tuple[Scope, ...]] = get_args(Scope)
CREATING: Final[tuple[Scope, ...]] = ("agents", "spaces", "workflows")
TOKENS: Final = 1000
STEPS: Final = 24
NEW: Final = "SELECT id, verb, made, depth, root, state, rule, space FROM creations WHERE id > ? ORDER BY id"
NEWEST: Final = "SELECT coalesce(max(id), 0) FROM creations"
RUNS: Final = "SELECT space, budget_tokens, spent_tokens FROM workflows ORDER BY id"
AGENTS: Final = "SELECT key, definition FROM agents ORDER BY key"


class Killed(Exception):
    """The process ends before its commit."""


class History:
    """One history. The plain count beside the store: what each space of a person has created, and when."""

    def __init__(self, database: Database, seed: int, path: Path | None) -> None:
        self.chance, self.path, self.work = random.Random(seed), path, BusyWorkspace(database)
        self.work.begin()
        self.rules: list[tuple[str, str, frozenset[Scope] | None, list[str]]] = []
        """Space, name, scopes of the author, and the verbs of each."""
        self.spaces: dict[str, tuple[str, int]] = {SPACE: (SPACE, 0)}
        """Root and depth of each space that exists."""
        self.authors: dict[str, tuple[str, int]] = {}
        """The same of each agent that a rule created."""
        self.bounds: dict[Any, frozenset[Scope] | None] = {}
        """Scopes of all authors above each creation, by its number and by what it made."""
        self.at: dict[tuple[str, str], list[int]] = {}
        self.made: Counter[str] = Counter()
        self.scopes: dict[str, frozenset[Scope]] = {}
        for name in MEMBERS:
            self._put(inline_key(name, SPACE), name, frozenset(self.chance.sample(ALL, 9)))
        body = msgspec.json.encode(WorkflowDefinition(name="review", agents={}))
        database.writer().execute("UPDATE workflows SET definition = ?, budget_tokens = ?", (body, TOKENS))

    def _put(self, key: str, name: str, scopes: frozenset[Scope]) -> None:
        definition = AgentDefinition(name=name, scopes=tuple(sorted(scopes)), budget=AgentBudget(tokens=80))
        self._rows("UPDATE agents SET definition = ? WHERE key = ?", msgspec.json.encode(definition), key)
        self.scopes[key] = scopes

    def _rows(self, question: str, *values: Any) -> list[Any]:
        return list(self.work.database.writer().execute(question, values))

    def _commit(self, job: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Commit a job, which a kill may undo first; it is then done again, as by the next kernel."""

        def killed(tx: Transaction) -> None:
            job(tx, *args, **kwargs)
            raise Killed

        if self.chance.random() < 0.3:
            before = self._rows(NEWEST), self._rows(RUNS), self._rows(AGENTS)
            try:
                self.work.commit(killed)
            except (Killed, Refused):
                assert (self._rows(NEWEST), self._rows(RUNS), self._rows(AGENTS)) == before, "a kill leaves nothing"
            if self.path is not None:
                self.work.database.close()
                self.work.database = open_migrated(str(self.path))
        return self.work.commit(job, *args, **kwargs)

    def define(self) -> None:
        """A rule of a person or a member, at any depth; a member of few scopes may try what it may not."""
        space = self.chance.choice(list(self.spaces))
        members = [str(name) for (name,) in self._rows("SELECT name FROM members WHERE space = ? ORDER BY name", space)]
        keys = dict(self._rows("SELECT name, agent FROM members WHERE space = ?", space))
        author = self.chance.choice((USER, *members))
        key, name = keys.get(author), f"r{len(self.rules)}"
        scopes = None if key is None else self.scopes[str(key)]
        then = [self._action(members, author) for _ in range(self.chance.randint(1, 3))]
        spec = msgspec.convert({"name": name, "when": {"said": {"matches": f"^{name}$"}}, "then": then}, RuleSpec)
        given = () if scopes is None else (*scopes, "rules")
        self._commit(stored.define, space, spec, author, key and AgentKey(str(key)), given)
        self.rules.append((space, name, scopes, [next(iter(one)) for one in then]))

    def _action(self, members: list[str], author: str) -> dict[str, Any]:
        number = self.chance.randint(0, 40)
        like = {"like": self.chance.choice(members)} if author == USER else {}
        return self.chance.choice(
            (
                {"create_agent": {"name": f"a{number}", "prompt": "work", **like}},
                {"open_space": {"name": f"s{number}", "members": [self.chance.choice(members)]}},
                {"start_workflow": {"workflow": "other"}},
            )
        )

    def fire(self) -> None:
        if not self.rules:
            return
        space, name, scopes, verbs = self.chance.choice(self.rules)
        before, sites = int(self._rows(NEWEST)[0][0]), {key for (key, _) in self._rows(AGENTS)}
        self._commit(append, Draft(kind="said", space=space, sender=USER, text=name))
        rows = self._rows(NEW, before)
        assert len(rows) <= len(verbs), "no action takes effect twice"
        needed = dict(zip(("create_agent", "open_space", "start_workflow"), CREATING, strict=True))
        author = self._rows("SELECT author_key FROM rules WHERE space = ? AND name = ?", space, name)[0][0]
        own: frozenset[Scope] | None = None if scopes is None else frozenset((*scopes, "rules"))
        above = (own, *(self.bounds.get(one) for one in (space, base_space(space), author)))
        known = [one for one in above if one is not None]
        bound = frozenset.intersection(*known) if known else None
        for number, verb, made, depth, root, state, rule, where in rows:
            self.bounds[made or number] = bound
            assert (rule, where, state) == (name, space, "done" if made else "planned")
            assert scopes is None or needed[verb] in scopes, "a rule may do what its author may"
            origin = max(self.spaces[space], self.authors.get(author, (SPACE, 0)), key=lambda one: one[1])
            assert (root, depth) == (origin[0], origin[1] + 1)
            assert depth <= DEPTH
            self._count(root, verb)
            if verb == "create_agent":
                self.authors[made] = (root, depth)
                self._check_agent(made, bound)
            elif made:
                self.spaces[made] = (root, depth)
        agents = {key for (key, _) in self._rows(AGENTS)} - sites
        assert agents == {row[2] for row in rows if row[1] == "create_agent"}, "what was refused left nothing"

    def _check_agent(self, key: str, author: frozenset[Scope] | None) -> None:
        (body,) = self._rows("SELECT definition FROM agents WHERE key = ?", key)[0]
        definition = msgspec.json.decode(body, type=AgentDefinition)
        self.scopes[key] = scopes_of(definition.scopes)
        assert author is None or self.scopes[key] <= author, "no scope that its author lacks"
        assert definition.budget.tokens is not None
        assert definition.budget.tokens <= 80 // MOST["create_agent"]

    def _count(self, root: str, verb: str) -> None:
        times = self.at.setdefault((root, verb), [])
        times.append(self.work.now_ms)
        self.made[verb] += 1
        assert sum(one > self.work.now_ms - WINDOW_MS for one in times) <= MOST[verb]

    def start(self) -> None:
        """The planned starts are carried out; a kernel that dies in between begins again."""
        for one in planned_starts(self.work.database.writer()):
            scopes = frozenset(self.chance.sample(ALL, self.chance.choice((2, 5, len(ALL)))))
            body = msgspec.json.encode(
                AgentDefinition(name="x", scopes=tuple(sorted(scopes)), budget=AgentBudget(tokens=80))
            )
            place, request = workflow_space("other", f"t{one.number}"), RequestKey(RULES, str(one.number), b"")
            spec = RunSpec(
                name="other",
                tag=f"t{one.number}",
                mode="start",
                file="x.yaml",
                definition=msgspec.json.encode(WorkflowDefinition(name="other", agents={})),
                members=(MemberSpec(name="x", key=inline_key("x", place), origin="inline", definition=body),),
            )
            draft, before = Draft(kind="status", space=place, sender="system", payload=spec), len(self._rows(RUNS))
            begun, again = (self._begin(draft, request) for _ in range(2))
            if isinstance(begun, Refused) or isinstance(again, Refused):
                assert str(begun) == str(again)
                self._commit(refuse_start, one, str(begun))
                assert len(self._rows(RUNS)) == before
                continue
            assert again.run == begun.run, "once"
            assert len(self._rows(RUNS)) == before + 1
            bound = self.bounds[begun.space] = self.bounds[one.number]
            assert bound is None or scopes <= bound, "no agent has a scope that an author above it lacks"
            self.scopes[inline_key("x", begun.space)] = scopes
            row = self._rows("SELECT root, depth FROM creations WHERE id = ? AND made = ?", one.number, begun.space)
            self.spaces[begun.space] = row[0]
        self._check_budgets()

    def _begin(self, draft: Draft, request: RequestKey) -> StartedRun | Refused:
        try:
            return self._commit(start_run, draft, request)
        except Refused as refused:
            return refused

    def _check_budgets(self) -> None:
        runs = {space: (budget, spent) for space, budget, spent in self._rows(RUNS)}
        given = Counter[str]()
        for space, made in self._rows(
            "SELECT space, made FROM creations WHERE state = 'done' AND verb = 'start_workflow'"
        ):
            given[base_space(space)] += runs[made][0]
        for space, (budget, spent) in runs.items():
            assert given[space] == spent <= budget, "what runs get counts as spent by their parent"
            assert space == SPACE or budget <= TOKENS // SHARE
        assert sum(budget - spent for budget, spent in runs.values()) <= TOKENS, "together no more than the first"

    def wait(self) -> None:
        self.work.now_ms += self.chance.randint(1, WINDOW_MS // 3)


def trial(seed: int) -> int:
    """One history. Returns how many creations it has."""
    with TemporaryDirectory(prefix="awk-creations-") as folder:
        path = Path(folder) / "store.db" if seed % 16 == 0 else None
        one = History(open_migrated(MEMORY if path is None else str(path)), seed, path)
        try:
            steps = (one.define, one.define, one.fire, one.fire, one.fire, one.fire, one.start, one.wait)
            for _ in range(STEPS):
                one.chance.choice(steps)()
            one.start()
            return one.made.total()
        finally:
            one.work.database.close()


def main() -> None:
    count, first, (made,) = run_seeds(lambda seed: (trial(seed),))
    say(f"{count:,} histories from seed {first}, {made:,} creations of rules: within their limits, each once")


if __name__ == "__main__":
    main()
