"""Where model calls go, and which key goes with them."""

import pytest

from kernel.agents.definition import check_agent
from kernel.agents.models import ALIASES
from kernel.agents.providers import PROVIDERS, CauseError, ModelRejected, Resolved, resolve
from kernel.agents.trust import demands
from kernel.source.diagnostics import Diagnostics, Location
from kernel.source.yaml_tree import MapNode
from protocol.agent import Action, AgentDefinition, Endpoint, Rule
from protocol.ipc import Provider
from protocol.project import ProjectDefinition, ProviderEntry
from tests.kernel.refusals import raised

EMPTY = ProjectDefinition()
GATEWAY = ProjectDefinition(
    providers={
        "gate": ProviderEntry(base_url="https://gate.example/v1", api_key="$GATE_KEY"),
        "claude-gate": ProviderEntry(base_url="https://gate.example/a", dialect="anthropic"),
        "anthropic": ProviderEntry(base_url="https://proxy.example"),
        "openai": ProviderEntry(api_key="$WORK_KEY"),
    }
)
ENVIRON = {"OPENAI_API_KEY": "sk-o", "ANTHROPIC_API_KEY": "sk-a", "GATE_KEY": "sk-g", "WORK_KEY": "sk-w"}


def agent(model: str, provider: str | Endpoint | None = None) -> AgentDefinition:
    return AgentDefinition(name="alice", model=model, provider=provider)


def found(
    definition: AgentDefinition, project: ProjectDefinition = EMPTY
) -> tuple[str, str, str | None, str | None, str]:
    """Name, dialect, base_url, key and model that come out."""
    resolved = resolve(definition, project, ENVIRON)
    assert resolved.provider is not None
    provider = resolved.provider
    return provider.name, provider.dialect, provider.base_url, provider.api_key, resolved.model


def test_a_prefix_chooses_dialect_and_key() -> None:
    """contracts 1: model."""
    assert found(agent("openai/gpt-5.5")) == ("openai", "openai", None, "sk-o", "gpt-5.5")
    assert found(agent("anthropic/claude-opus-5-5")) == ("anthropic", "anthropic", None, "sk-a", "claude-opus-5-5")


def test_a_model_is_split_once() -> None:
    resolved = resolve(agent("openrouter/anthropic/claude:x"), EMPTY, {"OPENROUTER_API_KEY": "k"})
    assert resolved.model == "anthropic/claude:x"


def test_an_alias_is_a_model_of_a_known_provider() -> None:
    assert found(agent("sonnet"))[1:] == ("anthropic", None, "sk-a", "claude-sonnet-5-5")
    assert all(full.partition("/")[0] in PROVIDERS for full in ALIASES.values())


def test_a_provider_that_needs_no_key_gets_none() -> None:
    assert found(agent("ollama/llama3")) == ("ollama", "openai", "http://127.0.0.1:11434/v1", None, "llama3")


def test_an_endpoint_of_the_project_is_used_by_prefix_or_by_name() -> None:
    """contracts 1: providers."""
    expected = ("gate", "openai", "https://gate.example/v1", "sk-g", "m")
    assert found(agent("gate/m"), GATEWAY) == expected
    assert found(agent("openai/m", "gate"), GATEWAY) == expected


def test_the_prefix_says_how_an_endpoint_is_spoken_to_unless_it_says_so_itself() -> None:
    assert found(agent("anthropic/m", "gate"), GATEWAY)[1] == "anthropic"
    assert found(agent("openai/m", "claude-gate"), GATEWAY)[1] == "anthropic"
    own = Endpoint(name="mine", base_url="http://127.0.0.1:9/v1", api_key="$GATE_KEY")
    assert found(agent("anthropic/m", own)) == ("mine", "anthropic", "http://127.0.0.1:9/v1", "sk-g", "m")
    assert found(agent("mine/m", own))[1] == "openai"


@pytest.mark.promise("P18")
def test_a_key_never_goes_to_an_endpoint_it_was_not_named_for() -> None:
    assert found(agent("anthropic/m"), GATEWAY)[2:4] == ("https://proxy.example", None)
    assert found(agent("openai/m", Endpoint(name="openai", base_url="https://evil.example")))[3] is None


def test_a_named_variable_replaces_the_usual_one() -> None:
    """contracts 1: api_key $ENV."""
    assert found(agent("openai/m"), GATEWAY)[3] == "sk-w"
    assert found(agent("openai/m", Endpoint(name="openai", api_key="$GATE_KEY")))[3] == "sk-g"


def test_the_users_environment_may_point_a_provider_elsewhere() -> None:
    environ = {**ENVIRON, "ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}
    resolved = resolve(agent("anthropic/m"), EMPTY, environ)
    assert resolved.provider is not None
    assert resolved.provider.base_url == "http://127.0.0.1:1"


def test_a_missing_key_is_a_cause() -> None:
    error = raised(CauseError, resolve, agent("google/gemini"), EMPTY, {})
    assert error.cause == "auth"
    assert "set GEMINI_API_KEY or GOOGLE_API_KEY" in error.text


def test_an_empty_key_is_a_missing_one() -> None:
    with pytest.raises(CauseError):
        resolve(agent("openai/m"), EMPTY, {"OPENAI_API_KEY": ""})


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("claude-sonnet-4-5", "anthropic"),
        ("gpt-5.5-mini", "openai"),
        ("o3", "openai"),
        ("o4-mini", "openai"),
        ("gemini-3-pro", "google"),
        ("grok-5", "xai"),
    ],
)
def test_a_name_that_a_provider_gave_needs_no_provider(model: str, provider: str) -> None:
    environ = {**ENVIRON, "GEMINI_API_KEY": "k", "XAI_API_KEY": "k"}
    resolved = resolve(agent(model), EMPTY, environ)
    assert resolved.provider is not None
    assert (resolved.provider.name, resolved.model) == (provider, model)


@pytest.mark.parametrize(
    "name", ["qwen2.5:7b", "@cf/meta/llama", "accounts/f/models/x", "sonnet[1m]", "/m/x.gguf", "~x"]
)
def test_ids_of_many_servers_are_models(name: str) -> None:
    assert found(agent(f"gate/{name}"), GATEWAY)[4] == name


NO_MODELS = ["--dangerously-skip-permissions", "-p", "a b", "a\nb", "a'b", "$(x)", "x" * 201, "ü"]


@pytest.mark.parametrize("name", NO_MODELS)
@pytest.mark.parametrize("backend", ["sdk", "claude", "mock"])
def test_a_model_is_never_an_option_of_a_command_line(name: str, backend: str) -> None:
    problems = Diagnostics("x.yaml")
    model = f"anthropic/{name}"
    definition = AgentDefinition(name="alice", model=model, backend=backend, mock=(Rule(do=(Action(text="x"),)),))  # type: ignore[arg-type]
    check_agent(definition, MapNode((), Location(1, 1)), EMPTY, problems)
    assert any("is not a model" in error.message for error in problems.errors)


@pytest.mark.parametrize("model", ["", "gpt", "/x", "openai/", "nope/x", "llama3"])
def test_what_is_no_model_is_rejected(model: str) -> None:
    with pytest.raises(ModelRejected):
        resolve(agent(model), EMPTY, ENVIRON)


def test_the_mock_backend_has_no_provider_and_the_mock_model_has_one() -> None:
    """contracts 1: Mock."""
    assert resolve(AgentDefinition(name="a", backend="mock"), EMPTY, {}) == Resolved(None, "mock")
    assert resolve(agent("mock/script"), EMPTY, {}) == Resolved(Provider(name="mock", dialect="mock"), "script")


@pytest.mark.promise("CF20", "P19")
def test_only_what_a_project_could_abuse_needs_trust() -> None:
    script = (Rule(do=(Action(text="x"), Action(shell="rm -rf  build"))),)
    assert demands(agent("openai/m"), EMPTY) == ()
    assert demands(agent("openai/m"), GATEWAY) == ("alice sends $WORK_KEY to openai",)
    assert demands(agent("gate/m"), GATEWAY) == ("alice sends its prompts and $GATE_KEY to https://gate.example/v1",)
    assert demands(AgentDefinition(name="bob", backend="mock", mock=script), EMPTY) == ("bob runs: rm -rf  build",)
    assert demands(AgentDefinition(name="bob", model="openai/m", mock=script), EMPTY) == ()
