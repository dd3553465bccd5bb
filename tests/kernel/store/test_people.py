"""People as agents: what they are asked waits without a process, and what they say is the reply, once."""

import re
from pathlib import Path

import msgspec
import pytest

from kernel.rule.draft import Author, Draft, MemberSpec
from kernel.store import instructions, tasks
from kernel.store.agents import AgentSpec, put_agents
from kernel.store.needs import snapshot
from kernel.store.transitions.append import append
from kernel.store.transitions.clock_correction import HostClock, correct_clock
from kernel.store.transitions.close import answer_for
from kernel.store.transitions.due import apply_due, next_due_ms, reassign
from kernel.store.transitions.lease import lease
from kernel.store.transitions.recovery import recover
from kernel.store.transitions.requeue import Requeue
from kernel.store.transitions.steering import pause_workflow, resume_workflow
from kernel.store.transitions.tasks import plan
from protocol.errors import Refused
from protocol.message import TEXT_LIMIT_BYTES
from protocol.names import AgentKey, InstructionId
from protocol.tasks import TaskSpec
from tests.kernel.store.running_store import Store, open_store, token_hash
from tests.shorthand import present

DAY_MS = 86_400_000
PATIENCE_MS = 10**12
"""No queue is starved in these tests."""


def file(
    name: str, backend: str = "human", answer_seconds: float | None = None, escalate: str | None = None
) -> AgentSpec:
    timeouts = {"answer": answer_seconds, "escalate": escalate}
    definition = {"name": name, "backend": backend, "timeouts": timeouts}
    return AgentSpec(key=AgentKey(name), origin="file", definition=msgspec.json.encode(definition))


def as_member(name: str, backend: str | None = None) -> MemberSpec:
    return MemberSpec(name=name, key=AgentKey(name), origin="file", runs_as=backend)


def questions(store: Store) -> list[str]:
    return [one.id for one in store.reader.now(snapshot, store.clock.now_ms).questions]


def status(store: Store, instruction: str) -> tuple[str, str | None]:
    found = present(store.reader.now(instructions.standing, int(instruction[1:])))
    return found.state, found.waits_for


@pytest.mark.promise("P55")
async def test_a_person_answers_after_a_day_and_two_restarts_and_nobody_held_a_process(tmp_path: Path) -> None:
    """What waits is a row. There never is an attempt, so nothing can have been running for it."""
    place = str(tmp_path / "store.db")
    async with open_store(place) as store:
        await store.writer.commit(put_agents, [file("carol"), file("bob", "mock")])
        await store.workflow(as_member("carol"), as_member("bob"), kickoff="@carol may we ship?")
        assert status(store, "i1") == ("waiting", "person")
        begun = store.clock.now_ms
    for days in (0.5, 1):
        async with open_store(place) as store:
            store.clock.now_ms = begun + int(days * DAY_MS)
            await store.writer.commit(recover)
            await store.writer.commit(apply_due, PATIENCE_MS)
            assert questions(store) == ["i1"]
            assert store.reader.now(instructions.ready, store.clock.now_ms, 10) == ()
            assert await store.writer.commit(lease, "i1", token_hash("i1", 1)) is None
            if days == 1:
                await store.writer.commit(answer_for, "i1", "Yes. @bob ship it")
                assert status(store, "i1") == ("done", None)
                assert questions(store) == []
                assert (await store.take("i2")).text.endswith("@bob ship it")  # a reply as any other: it is routed
                assert store.reader.now(lambda conn: conn.execute("SELECT count(*) FROM attempts").get) == 1


@pytest.mark.promise("P55")
@pytest.mark.parametrize(
    ("instruction", "text", "code", "words"),
    [
        ("i1", "again", "conflict", "i1 has ended: done"),
        ("i2", "I do it for her", "conflict", "i2 of alice does not wait for a person's answer"),
        ("i9", "hello", "not_found", "instruction 'i9' not found"),
        ("i3", "x" * (TEXT_LIMIT_BYTES + 1), "too_large", "answer too large: the limit is"),
    ],
)
async def test_an_answer_is_taken_once_and_only_where_a_person_is_asked(
    store: Store, instruction: str, text: str, code: str, words: str
) -> None:
    await store.agents("alice")
    await store.writer.commit(put_agents, [file("carol")])
    for name in ("carol", "alice", "carol"):
        await store.said(f"dm:{name}", "may we ship?")
    await store.writer.commit(answer_for, "i1", "yes")
    with pytest.raises(Refused) as refused:
        await store.writer.commit(answer_for, instruction, text)
    assert refused.value.code == code
    assert words in refused.value.text
    assert questions(store) == ["i3"]


@pytest.mark.promise("P55")
async def test_whoever_asked_a_person_goes_on_with_the_answer(store: Store) -> None:
    await store.agents("alice")
    await store.writer.commit(put_agents, [file("carol")])
    space = await store.workflow(as_member("alice"), as_member("carol"), kickoff="@alice ask carol")
    await store.take("i1")
    question = Draft(
        kind="said", space=space, sender="alice", text="may we ship?", to=("carol",),
        author=Author(InstructionId("i1"), 1), asks=True,
    )  # fmt: skip
    await store.writer.commit(append, question)
    await store.requeue("i1", 1, Requeue(status="queued", outcome="yielded"))
    stands = store.reader.now(instructions.of, ["i1"], store.clock.now_ms)[InstructionId("i1")]
    assert (stands.kind, stands.reason) == ("person", "person")
    await store.writer.commit(answer_for, "i2", "not today")
    assert status(store, "i1") == ("queued", None)


@pytest.mark.promise("P55")
async def test_what_a_person_has_not_answered_in_time_is_incomplete(store: Store) -> None:
    await store.writer.commit(put_agents, [file("carol", answer_seconds=60)])
    machine = HostClock("boot", 0)
    await store.writer.commit(recover, machine=machine)
    await store.said("dm:carol", "may we ship?")
    assert store.reader.now(next_due_ms, PATIENCE_MS) == store.clock.now_ms + 60_000
    store.clock.now_ms += DAY_MS
    await store.writer.commit(correct_clock, HostClock("boot", DAY_MS))
    await store.writer.commit(apply_due, PATIENCE_MS)
    assert status(store, "i1") == ("waiting", "person")
    store.clock.now_ms += 60_000
    await store.writer.commit(apply_due, PATIENCE_MS)
    assert status(store, "i1") == ("incomplete", None)
    assert store.reader.now(next_due_ms, PATIENCE_MS) is None
    with pytest.raises(Refused, match=r"i1 has ended: incomplete \(total_timeout\)"):
        await store.writer.commit(answer_for, "i1", "too late")


@pytest.mark.promise("P55")
async def test_what_a_person_was_asked_is_given_to_another_who_asked_goes_on_with_that_answer(store: Store) -> None:
    await store.agents("alice")
    await store.writer.commit(put_agents, [file("carol"), file("dave")])
    members = (as_member("alice"), as_member("carol"), as_member("dave"))
    space = await store.workflow(*members, kickoff="@alice ask carol")
    await store.take("i1")
    question = Draft(
        kind="said", space=space, sender="alice", text="may we ship?", to=("carol",),
        author=Author(InstructionId("i1"), 1), asks=True,
    )  # fmt: skip
    await store.writer.commit(append, question)
    await store.requeue("i1", 1, Requeue(status="queued", outcome="yielded"))
    await store.writer.commit(plan, space, (TaskSpec(title="Look at it", for_="carol"),))
    for instruction in ("i2", "i3"):
        await store.writer.commit(reassign, instruction, "dave")
    assert questions(store) == ["i2", "i3"]
    with pytest.raises(Refused, match="alice waits for the result of i2"):
        await store.writer.commit(reassign, "i2", "alice")
    (task,) = store.reader.now(tasks.of_instruction, 3)
    assert task.for_name == "dave"
    told = store.reader.now(lambda conn: list(conn.execute("SELECT text FROM messages WHERE text LIKE '[MOVED]%'")))
    assert told[0] == ("[MOVED] the user assigned i2 of carol to dave",)
    with pytest.raises(Refused, match="i2 belongs to agent dave, not to carol") as refused:
        await store.writer.commit(answer_for, "i2", "yes", "carol")
    assert refused.value.code == "conflict"
    await store.writer.commit(answer_for, "i2", "not today", "dave")
    assert status(store, "i1") == ("queued", None)
    with pytest.raises(Refused, match="i2 of dave has ended: done"):
        await store.writer.commit(reassign, "i2", "carol")


@pytest.mark.promise("P55")
async def test_a_model_takes_up_what_a_person_was_asked(store: Store) -> None:
    await store.agents("bob")
    await store.writer.commit(put_agents, [file("carol")])
    await store.workflow(as_member("carol"), as_member("bob"), kickoff="@carol may we ship?")
    await store.writer.commit(reassign, "i1", "bob")
    taken = await store.take("i1")
    assert (taken.name, taken.text.count("may we ship?")) == ("bob", 1)


@pytest.mark.parametrize(
    ("instruction", "to", "code", "words"),
    [
        ("i1", "nobody", "not_a_participant", "agent 'nobody' is not a member of review:main"),
        ("i1", "carol", "conflict", "i1 is already assigned to carol"),
        ("i2", "bob", "not_a_participant", "i2 was sent only to carol"),
        ("i3", "carol", "conflict", "i3 of bob does not wait for a person's answer"),
        ("i9", "bob", "not_found", "instruction 'i9' not found"),
    ],
)
async def test_only_what_waits_for_a_person_is_given_to_another_member(
    store: Store, instruction: str, to: str, code: str, words: str
) -> None:
    await store.agents("bob")
    await store.writer.commit(put_agents, [file("carol")])
    space = await store.workflow(as_member("carol"), as_member("bob"), kickoff="@carol may we ship?")
    await store.said("dm:carol", "may we ship?")
    await store.said(space, "@bob look at it")
    with pytest.raises(Refused, match=re.escape(words)) as refused:
        await store.writer.commit(reassign, instruction, to)
    assert refused.value.code == code


@pytest.mark.promise("P55")
async def test_what_nobody_answers_in_time_goes_to_whom_its_file_says_and_never_in_a_circle(store: Store) -> None:
    people = [file("carol", answer_seconds=60, escalate="dave"), file("dave", answer_seconds=600, escalate="carol")]
    await store.writer.commit(put_agents, people)
    await store.workflow(as_member("carol"), as_member("dave"), kickoff="@carol may we ship?")
    store.clock.now_ms += 60_000
    await store.writer.commit(apply_due, PATIENCE_MS)
    assert status(store, "i1") == ("waiting", "person")
    assert [one.name for one in store.reader.now(snapshot, store.clock.now_ms).questions] == ["dave"]
    assert store.reader.now(next_due_ms, PATIENCE_MS) == store.clock.now_ms + 600_000
    store.clock.now_ms += 600_000
    await store.writer.commit(apply_due, PATIENCE_MS)
    assert status(store, "i1") == ("incomplete", None)


@pytest.mark.parametrize(
    ("file_says", "workflow_says", "waits"), [("human", None, True), ("human", "mock", False), ("mock", "human", True)]
)
async def test_a_workflow_may_have_a_script_in_a_persons_place_or_a_person_in_a_scripts(
    store: Store, file_says: str, workflow_says: str | None, waits: bool
) -> None:
    await store.writer.commit(put_agents, [file("carol", file_says)])
    await store.workflow(as_member("carol", workflow_says), kickoff="@carol may we ship?")
    await store.said("dm:carol", "may we ship?")
    expected = {True: ("waiting", "person"), False: ("queued", None)}
    assert status(store, "i1") == expected[waits]
    assert status(store, "i2") == expected[file_says == "human"]


async def test_what_waits_follows_the_file_when_a_person_takes_over_or_leaves(store: Store) -> None:
    await store.writer.commit(put_agents, [file("carol", "mock")])
    await store.said("dm:carol", "may we ship?")
    await store.writer.commit(put_agents, [file("carol")])
    assert status(store, "i1") == ("waiting", "person")
    await store.writer.commit(put_agents, [file("carol", "mock")])
    assert status(store, "i1") == ("queued", None)
    await store.take("i1")
    await store.writer.commit(put_agents, [file("carol")])
    await store.requeue("i1", 1, Requeue(status="queued", outcome="yielded"))
    assert questions(store) == ["i1"]


async def test_a_person_in_a_paused_workflow_is_asked_once_it_goes_on(store: Store) -> None:
    await store.writer.commit(put_agents, [file("carol")])
    space = await store.workflow(as_member("carol"))
    await store.writer.commit(pause_workflow, space)
    await store.said(space, "@carol may we ship?")
    assert status(store, "i1") == ("waiting", "paused")
    await store.writer.commit(resume_workflow, space)
    assert status(store, "i1") == ("waiting", "person")
