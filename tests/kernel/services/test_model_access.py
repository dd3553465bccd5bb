"""Models that attempts may call through the gateway."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kernel.services.model_access import grants_of, lent
from protocol.agent import AgentDefinition
from protocol.project import ProjectDefinition


@pytest.mark.parametrize(
    ("backend", "model", "variables", "base"),
    [
        ("claude", "anthropic/claude-sonnet-4-5", {}, "anthropic"),
        ("opencode", "anthropic/claude-sonnet-4-5", {}, "anthropic"),
        ("claude", "anthropic/claude-sonnet-4-5", {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}, "anthropic"),
        ("codex", "openai/gpt-5.5", {}, None),  # an account has another address than a key
        ("codex", "openai/gpt-5.5", {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, "openai/v1"),
    ],
)
def test_a_login_has_the_gateway_and_no_key_where_its_address_is_known(
    backend: Any, model: str, variables: Mapping[str, str], base: str | None, tmp_path: Path
) -> None:
    for name in (".claude/.credentials.json", ".codex/auth.json", ".local/share/opencode/auth.json"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("{}")
    agent = AgentDefinition(name="alice", backend=backend, model=model, login=True)
    environ = {"HOME": str(tmp_path), "ANTHROPIC_API_KEY": "sk-a", "OPENAI_API_KEY": "sk-o", **variables}
    grants = grants_of(agent, (agent,), ProjectDefinition(), environ, ())
    provider, environment = lent(grants, "http://127.0.0.1:2", "awk-i1-1-x")
    assert [(one.login, one.source, one.models) for one in grants] == [(True, "", frozenset())] * bool(base)
    assert environment == {}
    if base is None:
        assert provider is None
    else:
        assert provider is not None and provider.api_key is None
        assert provider.base_url == f"http://127.0.0.1:2/gateway/awk-i1-1-x/{base}"
