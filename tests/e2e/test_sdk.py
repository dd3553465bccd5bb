"""The real Anthropic and OpenAI clients, in real workers, against a scripted provider on loopback."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project import TRUST, Project, empty_project
from tests.worker.scripted_api import Call, Fail, Say, ScriptedApi

KEY = "sk-canary-4711"


def agent(project: Project, name: str, dialect: str, url: str, provider: str = "scripted") -> None:
    """An agent whose provider is the scripted one. Who shares a ``provider`` also shares what it refuses."""
    project.write(
        f".agents/{name}.yaml",
        f"""
        model: {provider}/model-1
        provider: {{ name: {provider}, base_url: "{url}", dialect: {dialect}, api_key: $SCRIPTED_KEY }}
        prompt:
          system: You are {name}.
        retry: {{ backoff: 0.05s }}
        """,
    )


@pytest.fixture(scope="module")
def sdk_project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project whose kernel was started with a provider's key in its environment; all tests of this file share it.

    Promise P18 holds for all that they do: the key is in no file that the kernel leaves behind.
    """
    made = empty_project(tmp_path_factory.mktemp("sdk"))
    assert made.awk("start", "--trust", env={"SCRIPTED_KEY": KEY}).code == 0
    yield made
    made.stop()
    assert _holding_the_key(made) == []


def _holding_the_key(project: Project) -> list[Path]:
    kept = [path for path in project.state.rglob("*") if path.is_file()]
    assert kept != []
    return [path for path in kept if KEY.encode() in path.read_bytes()]


@pytest.mark.parametrize("dialect", ["anthropic", pytest.param("openai", marks=pytest.mark.long("[anthropic]"))])
def test_the_kernel_retries_and_nobody_else(sdk_project: Project, dialect: str) -> None:
    """One owner of retries. 529 twice is three requests, not nine."""
    with ScriptedApi([Fail(529), Fail(529), Say(text="third time lucky")]) as api:
        name = f"retried-{dialect}"
        agent(sdk_project, name, dialect, api.anthropic_url if dialect == "anthropic" else api.openai_url, name)
        sent = sdk_project.awk("send", name, "hello", "--wait", "--json", env=TRUST)
        assert sent.json()["results"][0]["text"] == "third time lucky"
    assert len(api.requests) == 3


@pytest.mark.promise("P12")
def test_a_permanent_refusal_is_not_tried_again(sdk_project: Project) -> None:
    """Permanent errors have 0 retries."""
    with ScriptedApi([Fail(400)]) as api:
        agent(sdk_project, "invalid", "anthropic", api.anthropic_url, "invalid")
        sent = sdk_project.awk("send", "invalid", "hello", "--wait", "--json", env=TRUST)
    assert (sent.code, sent.json()["results"][0]["status"]) == (1, "failed")
    assert len(api.requests) == 1
    dead = sdk_project.awk("dead", "--json").json()["instructions"]
    assert [one["cause"] for one in dead if one["agent"] == "invalid"] == ["invalid"]


@pytest.mark.parametrize(("status", "reason"), [(401, "credentials"), (402, "quota")])
def test_a_refused_key_and_a_spent_account_wait_for_a_person(sdk_project: Project, status: int, reason: str) -> None:
    with ScriptedApi([Fail(status)]) as api:
        agent(sdk_project, reason, "anthropic", api.anthropic_url, reason)
        sent = sdk_project.awk("send", reason, "hello", "--wait", "--json", env=TRUST)
    assert (sent.code, sent.json()["results"][0]["status"]) == (4, "waiting")
    (row,) = (one for one in sdk_project.awk("ps", "--json").json()["agents"] if one["name"] == reason)
    assert (row["state"], row["reason"]) == ("waiting", reason)
    assert len(api.requests) == 1


def test_max_steps_ends_incomplete(sdk_project: Project) -> None:
    """max_steps is incomplete, not failed; exit 6."""
    call = Say(calls=(Call("team_members"),))
    with ScriptedApi(otherwise=call) as api:
        agent(sdk_project, "endless", "anthropic", api.anthropic_url, "endless")
        path = sdk_project.root / ".agents/endless.yaml"
        path.write_text(path.read_text() + "max_steps: 3\n")
        sent = sdk_project.awk("send", "endless", "hello", "--wait", "--json", env=TRUST)
    assert (sent.code, sent.json()["results"][0]["status"]) == (6, "incomplete")
    assert len(api.requests) == 3


@pytest.mark.promise("P18")
def test_the_key_is_found_nowhere_but_at_the_provider(sdk_project: Project) -> None:
    with ScriptedApi([Say(text="hi")]) as api:
        agent(sdk_project, "secretive", "anthropic", api.anthropic_url, "secretive")
        assert sdk_project.awk("send", "secretive", "x", "--wait", env=TRUST).code == 0
    assert KEY in json.dumps(dict(api.requests[0].headers))
    assert _holding_the_key(sdk_project) == []
