"""Tokens of the workspace sections of a prompt, and the time to build a prompt from much memory and history."""

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Final, NamedTuple

import trio

from kernel.agents.catalog import Catalog
from kernel.agents.memory_prompt import Memories
from kernel.agents.personal_context import PersonalContexts
from kernel.agents.workspace_prompt import PromptContext, TreeContext, workspace_sections
from kernel.policy.budget import tokens
from kernel.rule.draft import Draft
from kernel.store.agents import AgentSpec, put_agents
from kernel.store.database import Reader, open_database
from kernel.store.transitions.append import append
from kernel.store.writer import Writer
from kernel.workflows.instruction_prompt import instruction_prompt, known_for
from protocol.names import AgentKey
from scripts.benchmarks.figure import Figure, p99
from scripts.benchmarks.scheduling import START_MS

TREE: Final = TreeContext("/trees/review/r1/alice", "awk/review/r1/alice", "1" * 40, colleagues=(
    ("bob", "awk/review/r1/bob", "2" * 40, 3),
))  # fmt: skip
TEAM: Final = PromptContext("alice", "review:main", ("alice", "bob", "carol", "dave"))
CASES: Final = {
    "alone": (PromptContext("alice", "review:main", alone=True), 90),
    "a team of four": (TEAM, 310),
    "and documents": (
        PromptContext(TEAM.name, TEAM.space, TEAM.members, document="notes.md", document_owner="dave"),
        355,
    ),
    "and a verdict": (PromptContext(TEAM.name, TEAM.space, TEAM.members, verdict="release"), 520),
    "and a working tree": (PromptContext(TEAM.name, TEAM.space, TEAM.members, verdict="release", tree=TREE), 695),
}
"""Workspaces by name, each with the maximum number of tokens of its prompt sections."""


ITEMS: Final = 100_000
"""Number of items in the agent's memory files, which have the kernel's format."""
MESSAGES: Final = 100_000
"""Number of earlier messages in the agent's space."""
ROUNDS: Final = 400
WORDS: Final = 20_000
ALICE: Final = "model: mock/m\nprompt: {system: You are alice.}\nmock: [{text: x}]\n"


HISTORY: Final = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
INSERT INTO messages (kind, space, sender, addressed, text, hops, at_ms)
SELECT 'said', 'dm:alice', iif(i % 2, 'user', 'alice'), '', hex(randomblob(100)), 0, ?2 + i FROM n
"""


class PromptedInstruction(NamedTuple):
    """Instruction for which a prompt is built."""

    instruction: str
    agent: str
    name: str
    space: str
    message_seq: int
    joined: tuple[int, ...] = ()


def measure() -> Iterator[Figure]:
    """Yield the tokens of each case, and the time to build a prompt from much memory and history."""
    yield from workspace_figures()
    with tempfile.TemporaryDirectory(prefix="awk-bench-") as folder:
        yield from trio.run(_assembly, Path(folder))


def workspace_figures() -> Iterator[Figure]:
    """Yield the number of tokens of the workspace sections, for each of CASES."""
    for name, (context, limit) in CASES.items():
        told = "\n\n".join(text for _, text in workspace_sections(context))
        yield Figure(f"told of its workspace: {name}", tokens(told), limit, "tokens")


async def _assembly(root: Path) -> list[Figure]:
    """Return the times to build the first prompt, which reads all memory files, and each further prompt."""
    chance = random.Random(1)
    zipf = list(accumulate(1 / (rank + 1) for rank in range(WORDS)))

    def words(count: int) -> str:
        return " ".join(f"w{number}" for number in chance.choices(range(WORDS), cum_weights=zipf, k=count))

    memory = root / ".agents/alice/memory"
    memory.mkdir(parents=True)
    (root / ".agents/alice.yaml").write_text(ALICE)
    each = 1000
    for number in range(ITEMS // each):
        lines = (f"k{number}-{item}: {words(12)}\n" for item in range(each))
        (memory / f"working-{number + 2}.yaml").write_text("".join(lines))
    (memory / "core.yaml").write_text("".join(f"core-{item}: {words(12)}\n" for item in range(20)))
    reader, asked = await _history(str(root / "store.db"), words)
    catalog = Catalog(root)
    memories = Memories(PersonalContexts(catalog, root / "state"), lambda: START_MS)
    definition = catalog.agent("alice").definition
    cold = 0.0
    taken: list[float] = []
    for number in range(ROUNDS + 1):
        began = time.perf_counter()
        known = await known_for(asked[number], definition, memories, reader)
        made = instruction_prompt(asked[number], definition, catalog, reader, (), known)
        seconds = time.perf_counter() - began
        cold = cold or seconds
        if number:
            taken.append(seconds * 1000)
        assert sum(part.tokens for part in made.parts if part.name in {"memory", "recalled"}) <= 2000
        assert any(part.name == "recalled" and part.kept == "whole" for part in made.parts)
    return [
        Figure(f"a prompt, {ITEMS:,} items and {MESSAGES:,} messages, p99", p99(taken), 50, "ms"),
        Figure("the first one: all files are read", cold, 30, "s"),
    ]


async def _history(path: str, words: Callable[[int], str]) -> tuple[Reader, list[PromptedInstruction]]:
    """Create a store with MESSAGES messages to alice. Return its reader and the instructions to build prompts for."""
    database = open_database(path)
    writer = Writer(database=database, clock_ms=lambda: START_MS, publish=lambda _events: None)
    asked: list[PromptedInstruction] = []
    async with trio.open_nursery() as nursery:
        await nursery.start(writer.run)
        alice = AgentSpec(key=AgentKey("alice"), origin="file", definition=b'{"model":"mock/m"}')
        await writer.commit(put_agents, [alice])
        database.writer().execute(HISTORY, (MESSAGES, START_MS)).fetchall()
        for _ in range(ROUNDS + 1):
            draft = Draft(kind="said", space="dm:alice", sender="user", text=words(10), to=("alice",))
            sent = await writer.commit(append, draft)
            asked.append(PromptedInstruction(sent.instruction_ids[0], "alice", "alice", "dm:alice", sent.seq))
        writer.close()
    return Reader(database=database), asked
