"""Copies of logins that an agent writes into: what of them goes home, and that nobody else is kept waiting."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from kernel.agents.providers import CauseError
from kernel.services import logins as module
from protocol.backends import BACKENDS
from tests.kernel.services.test_logins import LOGIN, RENEWED, Place
from tests.shorthand import beside, present

OAUTH = {"type": "oauth", "access": "a-1", "refresh": "r-1", "expires": 1, "accountId": "me"}
OAUTH_2 = {**OAUTH, "access": "a-2", "refresh": "r-2", "expires": 2}
RUNS = {"type": "wellknown", "key": "K", "token": "--require /tmp/x.js"}
API = {"type": "api", "key": "k"}
TOKENS = {"id_token": "i-1", "access_token": "a-1", "refresh_token": "r-1", "account_id": "me"}
TOKENS_2 = {**TOKENS, "id_token": "i-2", "access_token": "a-2", "refresh_token": "r-2"}
CODEX = {"OPENAI_API_KEY": None, "tokens": TOKENS, "last_refresh": "2026-01-01"}
CODEX_2 = {"OPENAI_API_KEY": None, "tokens": TOKENS_2, "last_refresh": "2026-02-02"}
CASES = {
    "claude": (
        "anthropic",
        {**LOGIN, "mcpOAuth": {"x": 1}},
        {"claudeAiOauth": {**RENEWED["claudeAiOauth"], "scopes": ["all"]}, "mcpOAuth": {}, "more": 1},
        {**RENEWED, "mcpOAuth": {"x": 1}},
    ),
    "codex": (
        "openai",
        CODEX,
        {**CODEX_2, "OPENAI_API_KEY": "sk", "tokens": {**TOKENS_2, "account_id": "you"}},
        CODEX_2,
    ),
    "opencode": (
        "anthropic",
        {"anthropic": OAUTH, "openai": API},
        {"anthropic": {**OAUTH_2, "type": "wellknown"}, "openai": RUNS, "https://evil.example": RUNS},
        {"anthropic": OAUTH_2, "openai": API},
    ),
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.promise("P35")
@pytest.mark.parametrize("backend", CASES)
async def test_only_renewed_tokens_go_home(place: Place, backend: Any) -> None:
    provider, login, left, home = CASES[backend]
    kept = place.keep(backend, login)
    kernel, (leased, start) = place.kernel(), place.attempt("alice", backend, provider)
    await kernel.lend(leased, start)
    place.write(Path(start.session_dir, present(BACKENDS[backend].login).private), left)
    kernel.give_back(leased.attempt)
    assert json.loads(kept.read_text()) == home


@pytest.mark.promise("P35")
async def test_logins_of_other_vendors_in_the_file_are_not_lent(place: Place) -> None:
    """They are none of the agent's business; an entry that names commands is never lent."""
    place.keep("opencode", {"anthropic": OAUTH, "openai": RUNS, "github-copilot": OAUTH, "https://x.example": RUNS})
    kernel, (leased, start) = place.kernel(), place.attempt("alice", "opencode")
    await kernel.lend(leased, start)
    assert json.loads(copy_of(start).read_text()) == {"anthropic": OAUTH}
    kernel.give_back(leased.attempt)
    for provider in ("openai", "google"):
        with pytest.raises(CauseError, match=f"has no login for {provider} that can be lent"):
            await kernel.lend(*place.attempt("bob", "opencode", provider))
    place.keep("claude", {**LOGIN, "mcpOAuth": {"other|1": {"accessToken": "m-1"}}})
    leased, start = place.attempt("carol")
    await kernel.lend(leased, start)
    assert json.loads(place.copy("carol").read_text()) == LOGIN
    kernel.give_back(leased.attempt)


@pytest.mark.promise("P35")
@pytest.mark.parametrize("anew", [None, {"claudeAiOauth": {"accessToken": "b-1"}}])
async def test_junk_before_and_after_loses_no_renewal(
    place: Place, anew: object, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Of all that lay in the copy only a login counts; where home has changed, it is kept beside, and told once."""
    kernel, (leased, start) = place.kernel(), place.attempt("alice")
    async with beside(kernel.run):
        await kernel.lend(leased, start)
        if anew is not None:
            place.write(place.home, anew)
        junk = {"claudeAiOauth": {"accessToken": "x", "refreshToken": "x", "expiresAt": 9}}
        for left in ({"x": 1}, junk, RENEWED, {"claudeAiOauth": {"accessToken": "junk"}}, {"xyz": 2}, RENEWED):
            place.write(place.copy("alice"), left)
            await trio.sleep(3 * module.RENEWED_SECONDS)
        kernel.give_back(leased.attempt)
    assert place.kept() == (anew or RENEWED)
    kept = [json.loads(path.read_text()) for path in place.folder.glob("state/logins/*.kept")]
    assert kept == ([] if anew is None else [RENEWED])
    assert caplog.text.count("login.kept") == (0 if anew is None else 2)


def put_a_folder_there(copy: Path) -> None:
    copy.unlink()
    (copy / "full").mkdir(parents=True)


def link_its_folder(copy: Path) -> None:
    copy.parent.rename(copy.parent.with_name("away"))
    copy.parent.symlink_to("/tmp")


def put_a_file_for_its_folder(copy: Path) -> None:
    copy.parent.rename(copy.parent.with_name("away"))
    copy.parent.write_text("")


@pytest.mark.promise("P35")
@pytest.mark.parametrize("spoil", [put_a_folder_there, link_its_folder, put_a_file_for_its_folder])
async def test_an_agent_cannot_keep_a_login_from_others(place: Place, spoil: Callable[[Path], None]) -> None:
    home = place.keep("opencode", {"anthropic": OAUTH})
    kernel = place.kernel()
    alice, bob = place.attempt("alice", "opencode"), place.attempt("bob", "opencode")
    await kernel.lend(*alice)
    spoil(copy_of(alice[1]))
    kernel.give_back(alice[0].attempt)
    assert not list(place.folder.glob("state/logins/*.json"))
    for leased, start in (bob, alice):
        await kernel.lend(leased, start)
        assert json.loads(copy_of(start).read_text()) == {"anthropic": OAUTH}
        kernel.give_back(leased.attempt)
    assert json.loads(home.read_text()) == {"anthropic": OAUTH}


async def test_a_token_is_lent_to_attempts_of_one_name_in_two_projects(place: Place) -> None:
    kernels = [place.kernel(CLAUDE_CODE_OAUTH_TOKEN="sk-token") for _ in range(2)]
    leased, start = place.attempt("alice")
    for number, kernel in enumerate(kernels):
        await kernel.lend(leased, msgspec.structs.replace(start, attempt_dir=f"{start.attempt_dir}-{number}"))
    for kernel in kernels:
        kernel.give_back(leased.attempt)
    assert list(place.folder.glob("state/logins/*")) == []


def copy_of(start: Any) -> Path:
    """Where opencode has its login."""
    return Path(start.session_dir, "data/opencode/auth.json")
