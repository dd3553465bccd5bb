"""The one agent that a team is compared with: all prompts and tools, the strictest of what members may."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.agents.catalog import Catalog
from kernel.agents.trust import demands
from kernel.inspect.preview import solo_workflow
from kernel.workflows.load import load_workflow
from kernel.workflows.solo import STRICTER, SoloMember, addressed, solo_of
from protocol.agent import AgentDefinition, AgentLimits, McpServer, Prompt
from protocol.errors import Refused
from protocol.limits import AgentBudget
from protocol.project import ProjectDefinition
from protocol.workflow import WorkflowDefinition


def part(name: str, **said: Any) -> SoloMember:
    given: dict[str, Any] = {"model": "anthropic/opus", "prompt": Prompt(system=f"be {name}"), **said}
    return SoloMember(name, AgentDefinition(name=name, **given), given["prompt"].system or "", {})


def union(*parts: SoloMember, **workflow: Any) -> Any:
    entries = {one.name: one.definition for one in parts}
    return solo_of(WorkflowDefinition(name="w", agents=dict(entries), **workflow), parts)


def test_prompts_and_tools_are_put_together_in_the_order_of_the_file() -> None:
    solo = union(
        part("coder", tools=("bash", "files"), env=("A",), scopes=("default",)),
        part("tester", tools=("files", "skills"), env=("B", "A"), scopes=("default", "rules")),
        part("other", prompt=Prompt(system="be coder")),
    )
    assert (solo.agent.tools, solo.agent.env) == (("bash", "files", "skills"), ("A", "B"))
    assert solo.agent.scopes == ("default", "rules")
    prompt = solo.agent.prompt.system
    assert prompt.index("# The role of coder and other\n\nbe coder") < prompt.index("# The role of tester\n\nbe tester")
    assert prompt.count("be coder") == 1
    assert list(solo.definition.agents) == ["solo"]
    assert (solo.agent.max_steps, solo.agent.timeouts.total) == (300, 21600.0)
    assert solo.notes == ()


def test_what_there_is_one_of_is_that_of_most_members_and_told() -> None:
    solo = union(part("a", model="x/one"), part("b", model="x/two"), part("c", model="x/two"))
    assert (solo.agent.model, solo.notes) == (
        "x/two",
        ("the agent uses sdk x/two, like most or the first of the members; a uses sdk x/one",),
    )
    assert union(part("a", model="x/one"), part("b", backend="claude")).agent.backend == "sdk"


def test_the_strictest_of_what_members_may_counts() -> None:
    docs = {"docs": McpServer(command="docs")}
    solo = union(
        part("a", sandbox="on", approval="auto", limits=AgentLimits(memory=2**30, messages=9), mcp_servers=docs,
             read_only=("mcp__docs__search", "mcp__docs__get"), budget=AgentBudget(usd=2.0)),
        part("b", approval="all", limits=AgentLimits(processes=7), mcp_servers=docs, read_only=("mcp__docs__get",),
             budget=AgentBudget(usd=1.0, tokens=5)),
    )  # fmt: skip
    agent = solo.agent
    assert (agent.sandbox, agent.approval, agent.read_only) == ("on", "all", ("mcp__docs__get",))
    assert (agent.limits.memory, agent.limits.processes, agent.limits.messages) == (2**30, 7, 9)
    assert (agent.budget.usd, agent.budget.tokens) == (3.0, None)
    assert solo.notes == (
        "approval: all, the strictest setting; a had a weaker one",
        "sandbox: on, the strictest setting; b had a weaker one",
    )


def test_what_cannot_be_put_together_is_refused() -> None:
    for wrong, said in (
        ([part("carol", backend="human")], "human members"),
        ([part("a", mcp_servers={"d": McpServer(command="x")}), part("b", mcp_servers={"d": McpServer(command="y")})],
         "different MCP servers named 'd'"),
        ([part("a", backend="exec", command=("x",)), part("b", sandbox="on", backend="exec", command=("x",))],
         "exec lacks"),
    ):  # fmt: skip
        with pytest.raises(Refused, match=said):
            union(*wrong)


def test_the_kickoff_is_addressed_to_it_and_code_is_not_touched() -> None:
    text = "@coder please, then @Reviewer. Mail a@coder.org; `@coder` and\n```\n@coder.route\n```\n@nobody"
    told = addressed(text, ["coder", "reviewer"], "solo")
    assert told == "@solo please, then @solo. Mail a@coder.org; `@coder` and\n```\n@coder.route\n```\n@nobody"
    solo = solo_of(WorkflowDefinition(name="w", agents={}, kickoff="@a go"), [part("a"), part("solo")], ["solo-2"])
    assert (solo.agent.name, solo.definition.kickoff) == ("solo-3", "@solo-3 go")


PARTS: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.builds(
        dict,
        approval=st.sampled_from(STRICTER),
        sandbox=st.sampled_from(["off", "on"]),
        tools=st.lists(st.sampled_from(["bash", "files", "skills"]), max_size=2).map(tuple),
        env=st.lists(st.sampled_from(["A", "B", "C"]), max_size=2).map(tuple),
        scopes=st.lists(st.sampled_from(["default", "auth", "rules", "memory"]), max_size=2).map(tuple),
        limits=st.builds(AgentLimits, memory=st.sampled_from([None, 2**30, 2**31]), messages=st.integers(0, 9)),
        project_rules=st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.promise("P75")
@given(PARTS)
def test_nothing_is_had_that_no_member_had(said: list[dict[str, Any]]) -> None:
    parts = [part(f"m{number}", **one) for number, one in enumerate(said)]
    agent = union(*parts).agent
    for key in ("tools", "env", "scopes"):
        assert {*getattr(agent, key)} == {word for one in parts for word in getattr(one.definition, key)}
    for one in parts:
        assert STRICTER.index(agent.approval) >= STRICTER.index(one.definition.approval)
        assert agent.sandbox >= one.definition.sandbox
        assert agent.limits.messages <= one.definition.limits.messages
        assert one.definition.limits.memory is None or agent.limits.memory <= one.definition.limits.memory
    theirs = {
        text.replace(one.name, agent.name) for one in parts for text in demands(one.definition, ProjectDefinition())
    }
    assert {*demands(agent, ProjectDefinition())} <= theirs


def test_the_text_is_a_workflow_that_loads_as_it_was_meant(tmp_path: Path) -> None:
    (tmp_path / ".agents").mkdir()
    (tmp_path / ".workflows").mkdir()
    (tmp_path / "coder.md").write_text("Write code.\nNo tests.\n")
    (tmp_path / ".agents/coder.yaml").write_text(
        "backend: mock\nsoul: {role: coder}\nprompt: {system_file: coder.md}\ntools: [bash]\n"
        "mock:\n- when: 'x: \\d+'\n  do: [{shell: 'echo a'}, {text: '@tester done'}]\n"
    )
    (tmp_path / ".workflows/w.yaml").write_text(
        "agents:\n  coder: {ref: coder, prompt: {append: Be quick.}, timeouts: {idle: 10m}}\n"
        "  tester: {backend: mock, prompt: {system: Test it.}, mock: [{text: fine}]}\n"
        "workspace: {git: worktree, document_owner: coder}\nverdict: {id: go, electors: [tester]}\n"
        "deliver: {when: verdict, check: make}\nbudget: {usd: 2}\nparams: [{name: n, type: int, default: 3}]\n"
        "setup: [{shell: 'echo 1', as: one}]\nkickoff: '@coder write ${{ params.n }}, ${{ one }}'\n"
        "tasks: [{key: a, title: do it, for: tester, check: 'true'}]\n"
    )
    told = solo_workflow(tmp_path, "w")
    assert (told.path, told.members, told.agent, told.trees, told.cost_usd) == (
        ".workflows/w.yaml", ("coder", "tester"), "solo", True, 2.0,
    )  # fmt: skip
    (tmp_path / ".workflows/w.yaml").write_text(told.text)
    loaded = load_workflow(Catalog(tmp_path), "w")
    definition, [agent] = loaded.definition, loaded.definition.agents.values()
    assert isinstance(agent, AgentDefinition)
    assert agent.prompt.system is not None
    assert "Write code.\nNo tests.\n\nrole: coder\n\nBe quick." in agent.prompt.system
    assert [len(rule.do) for rule in agent.mock] == [2, 1]
    assert (agent.timeouts.idle, agent.tools, definition.kickoff) == (
        600.0, ("bash",), "@solo write ${{ params.n }}, ${{ one }}",
    )  # fmt: skip
    assert (definition.verdict, definition.deliver and definition.deliver.when) == (None, "done")
    assert [task.for_ for task in definition.tasks] == ["solo"]
    assert len(told.notes) == 2
    assert msgspec.json.decode(msgspec.json.encode(told))["schema"] == "awk/solo/1"
