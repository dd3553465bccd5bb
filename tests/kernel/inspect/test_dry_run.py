"""run --dry-run: what would start, with nothing run and no secret shown."""

from pathlib import Path

import pytest

from kernel.inspect.preview import dry_run
from protocol.errors import Refused
from tests.kernel.inspect.files import review, write
from tests.kernel.refusals import refused


def test_the_plan_has_what_is_known_and_leaves_what_is_not(tmp_path: Path) -> None:
    review(tmp_path)
    found = dry_run(tmp_path, "review", "pr-1", ["-b", "main"], {"RANGE": "secret", "ACME_KEY": "secret"})
    assert (found.run, found.path, found.params) == ("review:pr-1", ".workflows/review.yaml", {"branch": "main"})
    assert [step.shell for step in found.setup] == ["git log main ${{ env.RANGE }}"]
    assert found.kickoff == "@alice review main:\n${{ log }}\n"
    assert found.wakes == ("alice",)
    assert "secret" not in str(found)


def test_the_folder_of_the_workspace_is_known_before_it_is_made(tmp_path: Path) -> None:
    """contracts 1: workspace.dir, as the kickoff of the run would have it."""
    text = "agents: {x: {backend: mock, mock: [{text: x}]}}\nkickoff: '@x write to ${{ workspace.dir }}'\n"
    write(tmp_path, {".workflows/w.yaml": text})
    assert dry_run(tmp_path, "w", "pr-1", [], {}).kickoff == f"@x write to {tmp_path}/.workspace/w/pr-1"
    assert not (tmp_path / ".workspace").exists()


def test_members_are_told_with_model_endpoint_and_key(tmp_path: Path) -> None:
    review(tmp_path)
    found = dry_run(tmp_path, "review", "main", ["--branch=main"], {"ACME_KEY": "k", "RANGE": ""})
    alice, bob = found.members
    assert (alice.ref, alice.provider, alice.keys, alice.ready) == ("alice", "anthropic", ("ANTHROPIC_API_KEY",), False)
    assert (bob.ref, bob.model, bob.base_url, bob.ready) == (None, "acme/large", "https://acme.example/v1", True)
    assert len(found.missing) == 1
    assert found.missing[0].startswith("alice: API key for anthropic not found")


def test_trust_that_is_needed_is_told_and_not_asked_for(tmp_path: Path) -> None:
    """A dry run is never refused for want of trust: it is how one looks before one agrees."""
    review(tmp_path)
    told = " ".join(dry_run(tmp_path, "review", "main", ["-b", "x"], {}).trust)
    assert "git log" in told
    assert "$RANGE" in told
    assert "https://acme.example/v1" in told


@pytest.mark.parametrize(
    ("words", "tag", "code"), [([], "main", "bad_request"), (["-b", "x"], "no tag!", "bad_request")]
)
def test_what_a_run_would_be_refused_for_a_plan_is_too(words: list[str], tag: str, code: str, tmp_path: Path) -> None:
    review(tmp_path)
    assert refused(dry_run, tmp_path, "review", tag, words, {}).code == code


def test_what_files_stand_against_is_no_plan_either(tmp_path: Path) -> None:
    flow = "agents: {x: {model: local/m, prompt: {system: s}}}\nkickoff: '@x go'\n"
    files = {
        "moniro.yaml": "providers: {local: {base_url: 'http://127.0.0.1:1'}}\n",
        ".workflows/w.yaml": flow,
        ".workflows/trees.yaml": f"{flow}workspace: {{git: worktree}}\n",
        ".workflows/dear.yaml": f"{flow}budget: {{usd: 1}}\n",
    }
    write(tmp_path, files)
    with pytest.raises(Refused, match="unknown for x"):
        dry_run(tmp_path, "dear", "main", [], {})
    with pytest.raises(Refused, match="unknown for x"):
        dry_run(tmp_path, "w", "main", [], {}, max_usd=1.0)
    with pytest.raises(Refused, match="is not an agent of"):
        dry_run(tmp_path, "w", "main", [], {}, exit_from="y")
    assert dry_run(tmp_path, "trees", "x.lock", [], {}).run == "trees:x.lock"  # no branch is called after a tag
    assert dry_run(tmp_path, "w", "x.lock", [], {}, exit_from="x").run == "w:x.lock"


def test_a_bool_that_is_not_given_is_false(tmp_path: Path) -> None:
    """contracts 1: its flag is its value; other parameters are empty text then."""
    text = (
        "agents: {x: {backend: mock, mock: [{text: x}]}}\nkickoff: '@x <${{ params.deep }}> <${{ params.who }}>'\n"
        "params: [{name: deep, type: bool}, {name: who}]\n"
    )
    write(tmp_path, {".workflows/w.yaml": text})
    assert dry_run(tmp_path, "w", "main", [], {}).kickoff == "@x <false> <>"
    assert dry_run(tmp_path, "w", "main", ["--deep"], {}).kickoff == "@x <true> <>"


@pytest.mark.promise("CF21")
def test_a_run_that_nobody_would_begin_is_no_plan(tmp_path: Path) -> None:
    member = "agents: {x: {backend: mock, mock: [{text: x}]}}\n"
    write(tmp_path, {".workflows/mute.yaml": member, ".workflows/lost.yaml": f"{member}kickoff: hello\n"})
    with pytest.raises(Refused, match="has no kickoff"):
        dry_run(tmp_path, "mute", "main", [], {})
    with pytest.raises(Refused, match="mentions no agent"):
        dry_run(tmp_path, "lost", "main", [], {})
