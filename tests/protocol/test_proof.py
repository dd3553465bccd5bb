"""The proof that a kernel gives before it is shown the token, and the paths that both sides find by themselves."""

import hashlib
import hmac
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.discovery import digest, is_proof, project_slug, project_state, prove, state_home

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=150)


@pytest.mark.promise("PF12")
@given(token=_TEXT, nonce=_TEXT)
def test_a_proof_is_hmac_of_sha_256(token: str, nonce: str) -> None:
    """RFC 2104; keys longer than a block are hashed first. Whoever writes a client has it in his library."""
    proof = hmac.new(token.encode(), nonce.encode(), "sha256").hexdigest()
    assert prove(token, nonce) == proof
    assert is_proof(proof, token, nonce)
    assert not is_proof(proof, token + "x", nonce)
    assert not is_proof(proof[:-1], token, nonce)
    assert not is_proof("", token, nonce)


@pytest.mark.promise("PF12")
def test_a_proof_may_be_any_text_that_a_stranger_sends() -> None:
    assert not is_proof("é" * 64, "token", "nonce")


@given(st.binary(max_size=200))
def test_a_digest_is_sha_256(data: bytes) -> None:
    assert digest(data) == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("root", ["/", "/home/me/My Project", "/x/Ünï", "/a/\udcff", "/srv/" + "n" * 90])
def test_the_state_of_a_project_has_a_name_that_any_file_system_takes(root: str) -> None:
    slug = project_slug(root)
    words, _, tail = slug.rpartition("-")
    assert slug.isascii()
    assert len(slug) <= 51
    assert words
    assert tail == hashlib.sha256(root.encode("utf-8", "surrogateescape")).hexdigest()[:10]


@pytest.mark.parametrize("home", ["/home/me", "/home/me/", "/"])
def test_the_state_directory_is_a_folder_of_the_users_home(home: str) -> None:
    there = state_home(None, home)
    assert there == str(PurePosixPath(home) / ".agent-worker")
    assert state_home("/elsewhere", home) == "/elsewhere"
    assert project_state(home, "/p") == str(PurePosixPath(home) / "projects" / project_slug("/p"))
