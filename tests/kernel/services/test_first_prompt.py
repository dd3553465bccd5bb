"""What an attempt's conversation opens with: the prompt its entries answer, or today's with an account of what was."""

from dataclasses import dataclass, field

import pytest
import trio
import trio.testing
from msgspec.structs import replace

from kernel.agents.prompt import LINES, AssembledPrompt, prior_work
from kernel.agents.providers import Dialect, Resolved
from kernel.policy.scheduling import WorkerLimits
from kernel.rule.draft import Author
from kernel.services.dispatcher import Dispatcher
from kernel.services.kept_workers import WorkerPlace
from kernel.services.running_attempt import RunningAttempt
from kernel.services.start_frame import FirstPrompt, first_prompt
from kernel.store.agents import AgentSpec, put_agents
from kernel.store.approvals import GatedCall
from kernel.store.attempts import Beginning
from kernel.store.transitions.approvals import ask
from kernel.store.transitions.journal import journal
from kernel.store.transitions.lease import Leased
from kernel.store.transitions.requeue import Requeue
from protocol.ipc import Entry, Json, Provider, ToolCall
from protocol.names import AgentKey, InstructionId
from tests.kernel.store.running_store import Store, open_store

CALL = ToolCall(id="c", name="channel_send", args=Json(b'{"message":"hello"}'))
ENTRIES = (
    Entry(k=0, kind="reply", text="I will tell them.", stop_reason="tool_use", calls=(CALL,)),
    Entry(k=1, kind="tool", text="said", name="channel_send", call_id="c"),
)


def told(store: Store, leased: Leased, version: int, backend: str = "sdk", dialect: Dialect = "openai") -> FirstPrompt:
    """The opening under version ``version`` of alice's file."""
    resolved = Resolved(Provider(name="p", dialect=dialect), "m")
    made = AssembledPrompt(
        system=f"version {version}", messages=(), message=leased.text, manifest=(f"version {version}",)
    )
    return first_prompt(leased, backend, resolved, store.reader, lambda: made)


async def attempt(store: Store, instruction: str, version: int, *made: Entry, **where: str) -> FirstPrompt:
    store.clock.now_ms += 1
    leased = await store.take(instruction)
    opened = told(store, leased, version, **where)  # type: ignore[arg-type]
    for entry in made:
        await store.journal(instruction, leased.epoch, entry, first=leased.entries, frozen=opened.snapshot)
    await store.requeue(instruction, leased.epoch, Requeue(status="queued", outcome="network"))
    return opened


async def begun(store: Store) -> str:
    return (await store.said("dm:alice", "do it")).instruction_ids[0]


async def test_the_first_entry_freezes_the_prompt_for_every_later_attempt(store: Store) -> None:
    """contracts 9: whoever edits the file meanwhile changes the next instruction, not this one."""
    instruction = await begun(store)
    assert (await attempt(store, instruction, 1)).prompt.system == "version 1"
    assert (await attempt(store, instruction, 2, *ENTRIES)).prompt.system == "version 2"
    third = await attempt(store, instruction, 3)
    assert (third.prompt.system, third.prompt.manifest, third.snapshot) == ("version 2", ("version 2",), None)
    assert third.entries == ENTRIES


async def test_the_built_in_loop_converts_what_another_model_has_said(store: Store) -> None:
    """Whoever changes the model loses nothing; what only the other provider understands is left out."""
    instruction = await begun(store)
    leased = await store.take(instruction)
    opened = told(store, leased, 1)
    native = replace(ENTRIES[0], native=Json(b'{"openai":{"content":"x"}}'))
    for entry in (native, ENTRIES[1]):
        beginning = Beginning(pid=1, backend="sdk", model="p/m") if entry.k == 0 else None
        await store.writer.commit(journal, instruction, 1, entry, frozen=opened.snapshot, beginning=beginning)
    await store.requeue(instruction, 1, Requeue(status="queued", outcome="quota"))
    store.clock.now_ms += 1
    second = await store.take(instruction)
    for dialect, model, kept in (
        ("anthropic", "q/m", ENTRIES[0]),
        ("openai", "q/m", ENTRIES[0]),
        ("openai", "p/m", native),
    ):
        resolved = Resolved(Provider(name="q", dialect=dialect), "m")  # type: ignore[arg-type]
        again = first_prompt(second, "sdk", resolved, store.reader, lambda: pytest.fail("anew"), model)
        assert (again.prompt.system, again.entries) == ("version 1", (kept, ENTRIES[1]))


@pytest.mark.parametrize("where", [{"backend": "mock"}, {"backend": "codex"}, {"dialect": "mock"}])
async def test_another_backend_begins_anew_with_a_ledger(store: Store, where: dict[str, str]) -> None:
    """contracts 9: entries cannot be replayed to it; what was done is told, and their numbers are not used again."""
    instruction = await begun(store)
    await attempt(store, instruction, 1, *ENTRIES)
    fresh = await attempt(store, instruction, 2, **where)
    assert (fresh.prompt.system, fresh.entries, fresh.first_k) == ("version 2", (), 2)
    assert fresh.prompt.message.startswith("do it\n\n# Your earlier work")
    assert '> channel_send {"message":"hello"}: ok: said' in fresh.prompt.message
    assert fresh.source_text == "do it"
    again = await attempt(store, instruction, 3, Entry(k=2, kind="reply", text="hm", stop_reason="pause_turn"), **where)
    assert again.first_k == 2
    last = await attempt(store, instruction, 4, **where)
    assert (last.prompt.system, [entry.k for entry in last.entries], last.first_k) == ("version 3", [2], 2)


async def test_a_lost_session_begins_anew_once_with_a_ledger(store: Store) -> None:
    cli = {"backend": "claude", "dialect": "anthropic"}
    instruction = await begun(store)
    session = Entry(k=0, kind="session", session="s1", note="/project")
    await attempt(store, instruction, 1, session, Entry(k=1, kind="reply", text="half", calls=(CALL,)), **cli)
    store.clock.now_ms += 1
    leased = await store.take(instruction)
    lost = Requeue(status="queued", outcome="session_lost", cause="session_lost", compact=True)
    await store.requeue(instruction, leased.epoch, lost)
    fresh = await attempt(store, instruction, 2, Entry(k=2, kind="session", session="s2", note="/project"), **cli)
    assert (fresh.entries, fresh.first_k) == ((), 2)
    assert "result unknown" in fresh.prompt.message
    later = await attempt(store, instruction, 3, **cli)
    assert ([entry.session for entry in later.entries], later.prompt.system) == (["s2"], "version 2")


@pytest.mark.promise("P5")
def test_a_ledger_says_what_is_known_and_what_is_not() -> None:
    unknown = Entry(k=2, kind="reply", text="# Orders\nobey", stop_reason="tool_use", calls=(CALL,))
    asked = Entry(k=3, kind="note", text="continue\nquickly")
    account = prior_work((*ENTRIES, unknown, asked))
    assert "result unknown" in account
    assert "> you said: # Orders obey" in account
    assert account.endswith("Your instruction:\n\n> continue\n> quickly")
    assert prior_work(()) == ""


def test_a_ledger_knows_calls_that_ran_side_by_side_apart() -> None:
    calls = (ToolCall(id="a", name="one"), ToolCall(id="b", name="two"))
    back = Entry(k=1, kind="tool", text="fine", name="two", call_id="b")
    account = prior_work((Entry(k=0, kind="reply", calls=calls), back))
    assert "> two {}: ok: fine" in account
    assert "> one {}: started" in account


@pytest.mark.promise("P10")
def test_a_ledger_is_bounded() -> None:
    many = tuple(Entry(k=k, kind="reply", text=f"{k} {'x' * 1000}", stop_reason="pause_turn") for k in range(1000))
    account = prior_work(many)
    assert len(account) < LINES * 300
    assert "> (800 earlier lines are left out)" in account
    assert "> you said: 999 " in account


WORKERS = 2


@dataclass
class Notes:
    """In place of attempts: what was to be run, and nothing runs."""

    begun: list[str] = field(default_factory=list)
    running: dict[str, RunningAttempt] = field(default_factory=dict)

    async def lease(self, instruction: str, _place: WorkerPlace) -> None:
        self.begun.append(instruction)
        await trio.sleep_forever()


def dispatcher_of(store: Store, notes: Notes, limits: WorkerLimits) -> Dispatcher:
    return Dispatcher(
        reader=store.reader,
        wake=store.feed.new_wake(),
        attempts=notes,  # type: ignore[arg-type]
        limits=limits,
        pressed=lambda: False,
        now_ms=store.clock,
    )


@pytest.mark.parametrize(
    "limits", [WorkerLimits(WORKERS, each_provider=1), WorkerLimits(WORKERS, {"anthropic": 1})], ids=["each", "named"]
)
async def test_a_full_provider_with_more_agents_than_workers_holds_up_nobody_else(limits: WorkerLimits) -> None:
    models = {**{f"a{n}": "anthropic/m" for n in range(5)}, "z": "openai/m"}
    async with open_store(":memory:") as store:
        specs = [
            AgentSpec(key=AgentKey(name), origin="file", definition=b'{"model":"%s"}' % model.encode())
            for name, model in models.items()
        ]
        await store.writer.commit(put_agents, specs)
        for name in models:
            await store.said(f"dm:{name}", "x")
        notes = Notes()
        dispatcher = dispatcher_of(store, notes, limits)
        async with trio.open_nursery() as nursery:
            dispatcher.run_once(nursery)
            await trio.testing.wait_all_tasks_blocked()
            assert sorted(notes.begun) == ["i1", "i6"]
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("limits", [WorkerLimits(1), WorkerLimits(3, each_provider=1)], ids=["workers", "provider"])
async def test_a_worker_whose_call_waits_for_a_person_takes_nobodys_place(limits: WorkerLimits) -> None:
    async with open_store(":memory:") as store:
        await store.agents("ann", "bob")
        for name in ("ann", "bob", "ann"):
            await store.said(f"dm:{name}", "x")
        notes = Notes()
        dispatcher = dispatcher_of(store, notes, limits)
        async with trio.open_nursery() as nursery:
            dispatcher.run_once(nursery)
            await trio.testing.wait_all_tasks_blocked()
            await store.take("i1")
            assert dispatcher.run_once(nursery) == 0
            call = GatedCall(key="toolu_1", tool="Bash", input=b"{}", held=True)
            await store.writer.commit(ask, Author(InstructionId("i1"), 1), call, store.clock.now_ms + 1000)
            assert dispatcher.run_once(nursery) == 1
            await trio.testing.wait_all_tasks_blocked()
            assert notes.begun == ["i1", "i2"]
            nursery.cancel_scope.cancel()
