"""config: every value of a definition, and where it came from."""

from pathlib import Path

import pytest

from kernel.inspect.resolve import resolution
from protocol.errors import Refused
from tests.kernel.inspect.files import MOCK, review, write


def test_values_of_the_file_name_their_line_and_the_others_are_defaults(tmp_path: Path) -> None:
    """A user never has to wonder what the kernel made of a file."""
    review(tmp_path)
    found = resolution(tmp_path, tmp_path, "alice")
    assert found.definition["timeouts"] == {
        "startup": "2m", "idle": "5m", "tool": "30m", "quiet": "5m", "total": "1h", "approval": "1h", "answer": None,
        "escalate": None,
    }  # fmt: skip
    assert found.origins["timeouts.idle"] == ".agents/alice.yaml:3"
    assert found.origins["timeouts.tool"] == "default"


def test_an_alias_is_followed_to_model_endpoint_and_key(tmp_path: Path) -> None:
    review(tmp_path)
    found = resolution(tmp_path, tmp_path, ".agents/alice.yaml")
    assert found.definition["model"].startswith("anthropic/")
    assert found.origins["model"] == ".agents/alice.yaml:1, alias sonnet"
    assert found.definition["endpoint"]["api_key"] == ["$ANTHROPIC_API_KEY"]
    assert found.origins["endpoint.base_url"] == "built in"


def test_a_member_is_its_file_with_what_the_workflow_overrides(tmp_path: Path) -> None:
    review(tmp_path)
    found = resolution(tmp_path, tmp_path, "alice@review:pr-1")
    assert found.definition["prompt"] == {"system": "You are Alice.", "system_file": None, "append": "Be brief."}
    assert found.origins["prompt.system"] == ".agents/alice.yaml:2"
    assert found.origins["prompt.append"] == ".workflows/review.yaml:4 (override)"
    assert found.definition["timeouts"] == {
        "startup": "2m", "idle": "10m", "tool": "1m", "quiet": "5m", "total": "2h", "approval": "1h", "answer": None,
        "escalate": None,
    }  # fmt: skip
    assert found.origins["timeouts.tool"] == ".workflows/review.yaml:5 (override)"
    assert found.origins["timeouts.idle"] == "default"


def test_a_provider_of_the_project_file_is_where_the_endpoint_came_from(tmp_path: Path) -> None:
    review(tmp_path)
    found = resolution(tmp_path, tmp_path, "review")
    assert found.definition["agents"]["bob"]["endpoint"]["base_url"] == "https://acme.example/v1"
    assert found.origins["agents.bob.endpoint.base_url"] == "moniro.yaml:3"
    assert found.origins["agents.bob.endpoint.api_key"] == "moniro.yaml:4"
    assert found.definition["setup"][0]["timeout"] == "90s"
    assert found.origins["setup[0].timeout"] == ".workflows/review.yaml:14"
    assert found.origins["limits.hops"] == "default"


def test_nothing_asked_is_the_project(tmp_path: Path) -> None:
    assert set(resolution(tmp_path, tmp_path, None).origins.values()) == {"default"}
    review(tmp_path)
    found = resolution(tmp_path, tmp_path, None)
    assert (found.path, found.origins["providers.acme.base_url"]) == ("moniro.yaml", "moniro.yaml:3")


def test_a_name_that_means_two_things_is_not_guessed(tmp_path: Path) -> None:
    write(tmp_path, {".agents/both.yaml": MOCK, ".workflows/both.yaml": "agents: {both: {ref: both}}"})
    with pytest.raises(Refused, match="an agent and a workflow"):
        resolution(tmp_path, tmp_path, "both")
    assert resolution(tmp_path, tmp_path, "@both").kind == "workflow"


def test_who_is_not_there_is_said_with_who_is(tmp_path: Path) -> None:
    review(tmp_path)
    with pytest.raises(Refused, match="agent 'alise' not found") as unknown:
        resolution(tmp_path, tmp_path, "alise")
    assert "did you mean alice?" in str(unknown.value.hint)
    with pytest.raises(Refused, match=r"carl is not in \.workflows/review\.yaml"):
        resolution(tmp_path, tmp_path, "carl@review")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("agents:\n  - team/carl.yaml\n  - name: dora\n    backend: mock\n    mock: [{ text: done }]\n", 4),
        ("agents:\n  carl: team/carl.yaml\n  dora: { backend: mock, mock: [{ text: done }] }\n", 3),
    ],
)
def test_agents_of_the_project_file_come_from_there(text: str, line: int, tmp_path: Path) -> None:
    write(tmp_path, {"moniro.yaml": text, "team/carl.yaml": MOCK})
    assert resolution(tmp_path, tmp_path, "dora").origins["backend"] == f"moniro.yaml:{line}"
    assert resolution(tmp_path, tmp_path, "team/carl.yaml").name == "carl"
    project = resolution(tmp_path, tmp_path, None)
    assert (project.definition["agents"]["carl"], project.origins["agents.carl"]) == ("team/carl.yaml", "moniro.yaml:2")
    assert project.origins["agents.dora.backend"] == f"moniro.yaml:{line}"
