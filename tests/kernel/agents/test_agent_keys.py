"""Keys schedule, needs and of models in agent files and of agents made at run time: what is taken, what is refused."""

from pathlib import Path

import pytest

from kernel.agents.catalog import Catalog, agent_from_request
from kernel.agents.schedule import Cron, Every, ScheduleRejected, parse_wakeup
from kernel.workflows.load import load_workflow
from protocol.agent import Action, AgentDefinition, Prompt, Rule, Schedule, Thinking
from protocol.api.agents import AgentRequest
from protocol.api.document import FileError
from protocol.limits import PlaceNeeds
from protocol.project import ProjectDefinition
from tests.kernel.agents.test_catalog import project
from tests.kernel.refusals import faults

MOCK = "backend: mock\nmock: [{text: x}]\n"


def catalog(root: Path, schedule: str) -> Catalog:
    return project(root, alice=f"{MOCK}schedule: {schedule}\n")


def errors(root: Path, schedule: str) -> tuple[FileError, ...]:
    return faults(catalog(root, schedule).agent, "alice")


def test_a_schedule_is_part_of_the_definition(tmp_path: Path) -> None:
    loaded = catalog(tmp_path, "{wakeup: 0 9 * * 1-5, prompt: Look, workspace: review:pr-1, timezone: Europe/Berlin}")
    assert loaded.agent("alice").definition.schedule == Schedule(
        wakeup="0 9 * * 1-5", prompt="Look", workspace="review:pr-1", timezone="Europe/Berlin"
    )


@pytest.mark.promise("CF13")
@pytest.mark.parametrize(
    ("text", "period_ms"),
    [("1s", 1000), ("5m", 300_000), ("90", 90_000), ("1.5h", 5_400_000), ("30d", 2_592_000_000), (" 5 m ", 300_000)],
)
def test_an_interval_is_a_duration_from_a_second_to_thirty_days(text: str, period_ms: int) -> None:
    assert parse_wakeup(Schedule(wakeup=text), None) == Every(period_ms)


def test_anything_with_five_fields_is_cron() -> None:
    assert isinstance(parse_wakeup(Schedule(wakeup="*/5 * * * *"), "UTC"), Cron)


@pytest.mark.promise("CF13")
@pytest.mark.parametrize("text", ["0s", "999ms", "0", "0.0000001d", "31d", "1000000000d", "99999999999d"])
def test_an_interval_out_of_bounds_is_refused_with_the_bounds(text: str) -> None:
    with pytest.raises(ScheduleRejected, match="must be from 1s to 30d"):
        parse_wakeup(Schedule(wakeup=text), None)


@pytest.mark.promise("CF13")
@pytest.mark.parametrize(
    ("schedule", "where", "message", "hint"),
    [
        ("{wakeup: 0s}", "schedule.wakeup", "must be from 1s to 30d, is 0s", "10m"),
        ("{wakeup: -5m}", "schedule.wakeup", "'-5m' is neither a duration nor a cron expression", "0 9 * * 1-5"),
        ("{wakeup: 1e-9s}", "schedule.wakeup", "'1e-9s' is neither a duration nor a cron expression", "write it as"),
        ("{wakeup: 1000000000d}", "schedule.wakeup", "must be from 1s to 30d", "write it as"),
        ("{wakeup: 61 * * * *}", "schedule.wakeup", "is not a cron expression: Bad minute", "write five fields"),
        ("{wakeup: every morning}", "schedule.wakeup", "it needs 5 fields", "write five fields"),
        ("{wakeup: 0 0 31 2 *}", "schedule.wakeup", "Bad day-of-month", "write five fields"),
        ("{wakeup: 0 9 * * *, timezone: Mars/Olympus}", "schedule.timezone", "is not a known time zone", ""),
        ("{wakeup: 0 9 * * *, timezone: Europe/Berln}", "schedule.timezone", "not a known time zone", "Europe/Berlin"),
        ("{wakeup: 5m, timezone: UTC}", "schedule.timezone", "is only for a cron expression", "remove it"),
        ("{wakeup: 5m, workspace: ../x}", "schedule.workspace", "'../x' is not a name", "review:tag"),
        ("{wakeup: 5m, workspace: 'review:'}", "schedule.workspace", "'' is not a tag", "review:tag"),
        ("{wakeup: 5m, promt: hi}", "schedule.promt", "unknown key 'promt'", "did you mean prompt?"),
        ("{prompt: hi}", "schedule.wakeup", "is missing", "add wakeup:"),
        ("5m", "schedule", "needs keys, has '5m'", "wakeup"),
    ],
)
def test_a_schedule_that_cannot_be_kept_is_refused_at_its_place(
    tmp_path: Path, schedule: str, where: str, message: str, hint: str
) -> None:
    [error, *more] = errors(tmp_path, schedule)
    assert (error.path, error.line, error.where, more) == (".agents/alice.yaml", 3, where, [])
    assert error.column > len("schedule")
    assert message in error.message
    assert hint in (error.hint or "")


def test_words_that_no_message_could_hold_are_refused(tmp_path: Path) -> None:
    [error] = errors(tmp_path, "{wakeup: 5m, prompt: " + "x" * 262_145 + "}")
    assert (error.where, error.hint) == ("schedule.prompt", "put the text into a file")


WORKFLOW = "agents:\n  critic:\n    ref: alice\n    schedule: {schedule}\n"


def test_a_workflow_may_give_a_ref_another_schedule(tmp_path: Path) -> None:
    """contracts 1: a ref may override schedule."""
    files = catalog(tmp_path, "{wakeup: 5m}")
    (tmp_path / "review.yaml").write_text(WORKFLOW.replace("{schedule}", "{wakeup: 1h}"))
    [member] = load_workflow(files, "./review.yaml").members
    assert member.definition.schedule == Schedule(wakeup="1h")


@pytest.mark.promise("CF13", "CF10")
@pytest.mark.parametrize(
    ("schedule", "where", "message"),
    [
        ("{wakeup: 0s}", "agents.critic.schedule.wakeup", "must be from 1s"),
        ("{wakeup: 1h, workspace: review}", "agents.critic.schedule.workspace", "wakes the agent in that workflow"),
    ],
)
def test_a_workflows_schedule_is_checked_where_it_stands(
    tmp_path: Path, schedule: str, where: str, message: str
) -> None:
    files = catalog(tmp_path, "{wakeup: 5m}")
    (tmp_path / "review.yaml").write_text(WORKFLOW.replace("{schedule}", schedule))
    [error] = faults(load_workflow, files, "./review.yaml")
    assert (error.path, error.line, error.where) == ("review.yaml", 4, where)
    assert message in error.message


def test_it_is_read_with_its_units(tmp_path: Path) -> None:
    found = project(tmp_path, alice=f"{MOCK}needs: {{labels: [gpu, zone/a], memory: 8GB, gpus: 2}}\n", bob=MOCK)
    assert found.agent("alice").definition.needs == PlaceNeeds(labels=("gpu", "zone/a"), memory=8_000_000_000, gpus=2)
    assert not found.agent("bob").definition.needs


@pytest.mark.parametrize(
    ("needs", "where", "message"),
    [
        ("{labels: ['a b']}", "needs.labels[0]", "is not a valid label"),
        ("{labels: [gpu, '-x']}", "needs.labels[1]", "is not a valid label"),
        (f"{{labels: [{', '.join(f'l{n}' for n in range(17))}]}}", "needs.labels", "more than 16"),
        ("{labels: gpu}", "needs.labels", "needs a list"),
        ("{memory: 1MiB}", "needs.memory", "at least 64MiB"),
        ("{memory: 8gigs}", "needs.memory", "8gigs"),
        ("{gpus: -1}", "needs.gpus", "at least 0"),
        ("{gpus: 2000}", "needs.gpus", "at most 1024"),
        ("{cpus: 2}", "needs.cpus", "unknown key"),
    ],
)
def test_what_is_wrong_in_it_is_told_at_its_place(tmp_path: Path, needs: str, where: str, message: str) -> None:
    found = faults(project(tmp_path, alice=f"{MOCK}needs: {needs}\n").agent, "alice")
    assert [(error.where, message in error.message) for error in found] == [(where, True)]


PROMPT = "prompt: {system: x}\n"
ANTHROPIC = "model: anthropic/claude-opus-5-5\nmax_tokens: 8192\n" + PROMPT
OPENAI = "model: openai/gpt-5.5\n" + PROMPT


@pytest.mark.parametrize(
    "text",
    [
        ANTHROPIC + "effort: max\nthinking: {budget_tokens: 2048}",
        ANTHROPIC + "temperature: 1",
        OPENAI + "effort: low\ntemperature: 2",
        ANTHROPIC + "backend: claude\neffort: high\nthinking: {budget_tokens: 1024}",
        OPENAI + "backend: codex\neffort: medium",
        ANTHROPIC + "backend: opencode\ntemperature: 0.5",
        "backend: mock\nmock: [{text: x}]\neffort: high\ntemperature: 1\nthinking: {budget_tokens: 2048}",
    ],
)
def test_what_is_taken_is_kept(tmp_path: Path, text: str) -> None:
    definition = project(tmp_path, alice=text).agent("alice").definition
    assert (definition.effort, definition.thinking, definition.temperature) != (None, None, None)


def test_thinking_is_counted_in_tokens(tmp_path: Path) -> None:
    definition = project(tmp_path, alice=ANTHROPIC + "thinking: {budget_tokens: 2048}").agent("alice").definition
    assert definition.thinking == Thinking(budget_tokens=2048)


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        (OPENAI + "thinking: {budget_tokens: 2048}", "thinking", "backend sdk with a model of openai"),
        (ANTHROPIC + "backend: claude\ntemperature: 0.5", "temperature", "is not supported by backend claude"),
        (OPENAI + "backend: codex\ntemperature: 0.5", "temperature", "is not supported by backend codex"),
        ("backend: cursor\nmodel: cursor/auto\neffort: low\n" + PROMPT, "effort", "is not supported by backend cursor"),
        (ANTHROPIC + "temperature: 1.5", "temperature", "1.5 is too high"),
        (ANTHROPIC + "temperature: 1\nthinking: {budget_tokens: 2048}", "temperature", "combined with thinking"),
        (ANTHROPIC + "thinking: {budget_tokens: 8192}", "thinking.budget_tokens", "must be less than max_tokens"),
        (ANTHROPIC + "thinking: {budget_tokens: 1023}", "thinking.budget_tokens", "1024"),
        (ANTHROPIC + "temperature: 2.1", "temperature", "2"),
        (ANTHROPIC + "effort: hard", "effort", "'hard' is not allowed"),
    ],
)
def test_what_is_not_taken_is_refused_at_its_place(tmp_path: Path, text: str, where: str, message: str) -> None:
    found = faults(project(tmp_path, alice=text).agent, "alice")
    assert [(error.where, message in error.message, error.line is not None) for error in found] == [(where, True, True)]


def made(request: AgentRequest) -> AgentDefinition:
    return agent_from_request(request, "helper", ProjectDefinition())


def test_a_request_becomes_a_definition() -> None:
    """contracts 4: POST /agents."""
    request = AgentRequest(model="mock/x", system='say "no: 1"\n\u2028', mock=[{"text": "hi"}, {"exit": 3}])
    definition = made(request)
    assert (definition.name, definition.model, definition.prompt) == ("helper", "mock/x", Prompt(system=request.system))
    assert definition.mock[0] == Rule(do=(Action(text="hi"), definition.mock[0].do[1]))


@pytest.mark.parametrize(
    ("request_", "where"),
    [
        (AgentRequest(model="x", system="s"), "model"),
        (AgentRequest(model="openai/x"), "prompt"),
        (AgentRequest(model="mock/x", mock=[{"txt": "hi"}]), "mock[0].do[0].txt"),
        (AgentRequest(model="openai/x", system="s", backend="claude"), "backend"),
        (AgentRequest(model="openai/x", system="s", provider={"name": "x", "base_url": 1}), "provider"),
    ],
)
def test_what_the_file_may_not_say_a_request_may_not_either(request_: AgentRequest, where: str) -> None:
    assert [error.where for error in faults(made, request_)] == [where]
