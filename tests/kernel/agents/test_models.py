"""Lists of models, aliases and the default of a project: what they stand for, and errors at their places."""

from pathlib import Path

import pytest

from kernel.agents.catalog import Catalog
from kernel.agents.models import each_model, models_of
from kernel.agents.providers import resolve, sdks_for
from kernel.agents.trust import demands
from kernel.source.diagnostics import BadDefinition
from protocol.agent import AgentDefinition, Endpoint
from protocol.project import ProjectDefinition, ProjectModels, ProviderEntry

CLAUDE, GPT = "anthropic/claude-opus-4-5", "openai/gpt-5.2"


def models(model: str | tuple[str, ...], project: ProjectModels | None = None, **keys: object) -> tuple[str, ...]:
    definition = AgentDefinition(name="a", model=model, **keys)  # type: ignore[arg-type]
    return models_of(definition, ProjectDefinition(models=project or ProjectModels()))


def test_a_list_an_alias_and_a_default_stand_for_models() -> None:
    project = ProjectModels(default="careful", aliases={"careful": (CLAUDE, GPT), "opus": "openai/o9", "one": "haiku"})
    assert models((CLAUDE, GPT)) == (CLAUDE, GPT)
    assert models("careful", project) == models("", project) == (CLAUDE, GPT)
    assert models("opus") == ("opus",), "a single name is shown as it is written"
    assert models("opus", project) == ("openai/o9",), "the project's alias wins"
    assert models(("gpt-5.2", "haiku", GPT), project) == (GPT, "anthropic/claude-haiku-5-5")
    assert models(("careful", "x/y"), project) == (CLAUDE, GPT, "x/y")
    assert models("", project, backend="mock") == models("", project, backend="human") == ()
    assert models("", project, backend="exec") == (CLAUDE, GPT)
    assert models((), project) == ()


def test_every_model_of_a_list_is_prepared_and_trusted() -> None:
    project = ProjectDefinition(providers={"own": ProviderEntry(base_url="http://x/v1", api_key="$OWN")})
    definition = AgentDefinition(name="a", model=(CLAUDE, "own/m"))
    assert sdks_for((definition,), project) == {"anthropic", "openai"}
    assert demands(definition, project) == ("a sends its prompts and $OWN to http://x/v1",)
    keys = {"ANTHROPIC_API_KEY": "1", "OWN": "2"}
    found = [resolve(one, project, keys).provider for one in each_model(definition, project)]
    assert [one.name for one in found if one is not None] == ["anthropic", "own"]


def faults(root: Path, agent: str, project: str = "") -> list[tuple[str, int, str, str]]:
    (root / ".agents").mkdir(exist_ok=True)
    (root / ".agents/a.yaml").write_text(f"prompt: {{system: x}}\n{agent}\n")
    if project:
        (root / ".agents.yaml").write_text(project)
    with pytest.raises(BadDefinition) as caught:
        Catalog(root).agent("a")
    return [(one.path, one.line, one.where, one.message) for one in caught.value.errors]


@pytest.mark.parametrize(
    ("agent", "line", "where", "message"),
    [
        (f"model: [{CLAUDE}, nope/m]", 2, "model[1]", "unknown provider 'nope'"),
        (f"model:\n  - {CLAUDE}\n  - what\n", 4, "model[1]", "'what' is not a model"),
        (f"backend: claude\nmodel: [{CLAUDE}, {GPT}]", 3, "model[1]", "backend claude supports anthropic"),
        (f"model: [{CLAUDE}, {GPT}]\nprovider: openai", 3, "provider", "cannot be combined with a list of models"),
        (f"model: [{CLAUDE}, {GPT}]\nthinking: {{budget_tokens: 2000}}", 3, "thinking", "is not supported"),
        (f"model: [{', '.join(f'openai/m{n}' for n in range(11))}]", 2, "model", "has 11 models"),
        ("model: []", 2, "model", "is missing"),
        (f"model: [{CLAUDE}, '']", 2, "model[1]", "'' is not a model"),
        ("model: {a: b}", 2, "model", "needs a text"),
        (f"model: [{CLAUDE}]\nfallback_after: 31d", 3, "fallback_after", "must be at most 30d"),
    ],
)
def test_an_error_in_a_list_has_a_place(tmp_path: Path, agent: str, line: int, where: str, message: str) -> None:
    [found] = faults(tmp_path, agent)
    assert found[:3] == (".agents/a.yaml", line, where)
    assert message in found[3]


@pytest.mark.parametrize(
    ("models", "where", "message"),
    [
        ("{default: nope/m}", "models.default", "unknown provider 'nope'"),
        ("{default: [small, what]}", "models.default[0]", "'small' is not a model"),
        (f"{{aliases: {{one: [{GPT}, x/y]}}}}", "models.aliases.one[1]", "unknown provider 'x'"),
        (f"{{aliases: {{one: {GPT}, two: one}}}}", "models.aliases.two", "one is an alias"),
        ("{default: []}", "models.default", "is an empty list"),
        ("{aliases: {one: []}}", "models.aliases.one", "is an empty list"),
        ("{fallback: 1m}", "models.fallback", "unknown key 'fallback'"),
    ],
)
def test_an_error_in_the_projects_models_has_a_place(tmp_path: Path, models: str, where: str, message: str) -> None:
    first = faults(tmp_path, f"model: {CLAUDE}", f"models: {models}\n")[0]
    assert first[:3] == (".agents.yaml", 1, where)
    assert message in first[3]


def test_an_endpoint_of_an_agent_goes_with_one_model() -> None:
    own = Endpoint(name="own", base_url="http://x/v1", dialect="openai")
    assert models("own/m", provider=own) == ("own/m",)
