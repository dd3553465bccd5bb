"""``login: true``: who may have it, what is demanded for it, and where it is looked for."""

from pathlib import Path

import pytest

from kernel.agents.providers import CauseError, ModelRejected, login_path, resolve
from kernel.agents.resources import NOTHING
from kernel.agents.trust import agent_units
from kernel.policy.creation import effective
from protocol.agent import Endpoint
from protocol.backends import BACKENDS
from protocol.project import ProjectDefinition, ProviderEntry
from protocol.workflow import Ref
from tests.kernel.agents.test_catalog import project
from tests.kernel.refusals import faults, raised

PROMPT = "prompt: {system: x}\nlogin: true\n"
CLAUDE = "backend: claude\nmodel: anthropic/claude-opus-5-5\n" + PROMPT
CODEX = "backend: codex\nmodel: openai/gpt-5.5\n" + PROMPT
OPENCODE = "backend: opencode\nmodel: anthropic/claude-opus-5-5\n" + PROMPT
TEXTS = {"claude": CLAUDE, "codex": CODEX, "opencode": OPENCODE}
FILES = {
    "claude": ".claude/.credentials.json",
    "codex": ".codex/auth.json",
    "opencode": ".local/share/opencode/auth.json",
}


@pytest.mark.promise("P19", "P35")
@pytest.mark.parametrize("backend", TEXTS)
def test_a_login_is_a_demand_of_its_own(tmp_path: Path, backend: str) -> None:
    catalog = project(tmp_path, alice=TEXTS[backend], bob=TEXTS[backend].replace("login: true\n", ""))
    (found,) = agent_units(catalog.agent("alice").definition, catalog.project(), NOTHING)
    (said,) = [demand for demand in found.demands if "login" in demand]
    assert said.startswith(f"alice uses your login of {BACKENDS[backend].title} (~/{FILES[backend]}")
    assert "renews it" in said
    assert ("$CLAUDE_CODE_OAUTH_TOKEN" in said) == (backend == "claude")
    bob = agent_units(catalog.agent("bob").definition, catalog.project(), NOTHING)
    assert "login" not in repr(bob)


@pytest.mark.promise("P18", "P19")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: anthropic/claude-opus-5-5\n" + PROMPT, "is not supported by backend sdk"),
        ("backend: cursor\nmodel: cursor/auto\n" + PROMPT, "is not supported by backend cursor"),
        ("backend: mock\nmock: [{text: x}]\nlogin: true\n", "is not supported by backend mock"),
        (
            CLAUDE + "provider: {name: mine, base_url: 'http://127.0.0.1:9', dialect: anthropic}",
            "can only be used with its own vendor, but requests go to http://127.0.0.1:9",
        ),
        (CLAUDE + "provider: {name: anthropic, api_key: $MINE}", "and api_key cannot be combined"),
        (CODEX.replace("openai/gpt-5.5", "groq/x"), "is only valid for openai, but the model is from groq"),
    ],
)
def test_a_login_that_cannot_be_had_is_refused_at_its_place(tmp_path: Path, text: str, message: str) -> None:
    found = [(error.where, error.message) for error in faults(project(tmp_path, alice=text).agent, "alice")]
    assert ("login", message) in found


@pytest.mark.promise("P18")
def test_a_login_goes_nowhere_else_when_another_file_says_so(tmp_path: Path) -> None:
    alice = project(tmp_path, alice=CLAUDE).agent("alice").definition
    environ = {"CLAUDE_CODE_OAUTH_TOKEN": "t"}
    elsewhere = Endpoint(name="evil", base_url="http://127.0.0.1:9", dialect="anthropic")
    with pytest.raises(ModelRejected, match="only be used with its own vendor"):
        resolve(effective(alice, Ref(ref="alice", provider=elsewhere)), ProjectDefinition(), environ)
    moved = ProjectDefinition(providers={"anthropic": ProviderEntry(base_url="http://127.0.0.1:9")})
    with pytest.raises(ModelRejected, match="only be used with its own vendor"):
        resolve(alice, moved, environ)


@pytest.mark.parametrize("backend", TEXTS)
def test_a_login_that_is_not_there_is_missing_credentials(tmp_path: Path, backend: str) -> None:
    alice = project(tmp_path, alice=TEXTS[backend]).agent("alice").definition
    home = tmp_path / "home"
    environ = {"HOME": str(home), "ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}
    error = raised(CauseError, resolve, alice, ProjectDefinition(), environ)
    assert error.cause == "auth"
    assert str(home / FILES[backend]) in error.text and "log in with" in error.text
    (home / FILES[backend]).parent.mkdir(parents=True)
    (home / FILES[backend]).write_text("{}")
    provider = resolve(alice, ProjectDefinition(), environ).provider
    assert provider is not None and provider.api_key is None


@pytest.mark.parametrize("backend", TEXTS)
def test_a_login_is_looked_for_where_its_program_keeps_it(backend: str) -> None:
    spec = BACKENDS[backend].login
    assert spec is not None
    assert login_path(spec, {"HOME": "/h"}) == f"/h/{FILES[backend]}"
    assert login_path(spec, {"HOME": "/h", spec.folder_variable: "/else"}) == f"/else/{spec.file}"
    assert login_path(spec, {}) == ""
