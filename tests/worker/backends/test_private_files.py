"""What the real programs leave alone, and what they keep to themselves: measured, where they are installed.

TOML, as the standard library reads it back.
"""

import hashlib
import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.backends.scenario import ScenarioRun, made
from tests.worker.backends.subject import ProgramSubject, Reply, Shell
from tests.worker.backends.subjects_programs import CODEX, OPENCODE
from worker.backends.private_files import document


def _where_it_is(subject: ProgramSubject) -> Any:
    reason = f"{subject.name} is not installed: AGENT_WORKER_TEST_CLIS"
    return pytest.param(subject, id=subject.name, marks=pytest.mark.skipif(subject.installed() is None, reason=reason))


PROGRAMS = [*map(_where_it_is, (CODEX, OPENCODE))]
SKILL = "---\nname: {name}\ndescription: {word}\n---\nDo it.\n"
STRANGER = "stranger's word"
ME = ("-c", "user.name=me", "-c", "user.email=me@example.org")


def instruct(folder: Path) -> None:
    """Everything by which a folder could speak to these programs."""
    for place in (".agents", ".codex", ".claude", ".opencode"):
        skill = folder / place / "skills/stranger/SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text(SKILL.format(name="stranger", word=STRANGER), "utf-8")
    for name in ("AGENTS.md", "CLAUDE.md", ".codex/AGENTS.md", ".opencode/agent/build.md"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(STRANGER, "utf-8")


def digest(*folders: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(path for folder in folders for path in folder.rglob("*")):
        found.update(f"{path} {path.lstat().st_mode}\n".encode())
        found.update(path.read_bytes() if path.is_file() else b"")
    return found.hexdigest()


async def shell(run: ScenarioRun, command: str) -> str:
    """What ``command`` gives in the program's own shell."""
    run.script(Shell(command), Reply("done"))
    attempt = await run.attempt()
    assert attempt.result.text == "done"
    (tool,) = (entry for entry in attempt.entries if entry.kind == "tool")
    return tool.text


@pytest.mark.promise("P18")
@pytest.mark.parametrize("subject", PROGRAMS)
async def test_its_shells_see_neither_key_nor_token(subject: ProgramSubject, tmp_path: Path) -> None:
    async with made(subject, "real", "private", tmp_path) as run:
        run.daemon.token = "canary-token"
        seen = await shell(run, "env")
        argv = repr(run.words()[-1].argv)
    assert "PATH=" in seen
    for secret in ("sk-secret", "canary-token"):
        assert secret not in seen
        assert secret not in argv


@pytest.mark.parametrize("subject", PROGRAMS)
async def test_nobody_but_its_agent_instructs_it_and_nothing_of_the_users_changes(
    subject: ProgramSubject, tmp_path: Path
) -> None:
    async with made(subject, "real", "private", tmp_path) as run:
        folders = run.cwd, run.folder / "home"
        for folder in folders:
            instruct(folder)
        for command in (["init", "-q"], ["add", "."], [*ME, "commit", "-q", "-m", "first"]):
            await trio.run_process(["git", *command], cwd=run.cwd, env={"PATH": os.defpath})
        before = digest(*folders)
        run.script(Reply("done"))
        assert (await run.attempt()).result.text == "done"
        assert digest(*folders) == before
        asked = json.dumps([request.body for request in run.requests])
    assert "You are Alice, the canary." in asked
    assert STRANGER not in asked


@pytest.mark.parametrize("subject", PROGRAMS)
async def test_three_at_once_in_one_project_do_not_meet(subject: ProgramSubject, tmp_path: Path) -> None:
    ended: list[str] = []

    async def one(name: str) -> None:
        folder = tmp_path / name
        folder.mkdir()
        async with made(subject, "real", "private", folder) as run:
            run.script(Reply(name))
            ended.append((await run.attempt(cwd=str(tmp_path))).result.text)

    async with trio.open_nursery() as nursery:
        for name in ("a", "b", "c"):
            nursery.start_soon(one, name)
    assert sorted(ended) == ["a", "b", "c"]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.promise("P18")
@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_what_is_written_is_read_back(values: dict[str, Any]) -> None:
    """A prompt may hold anything, and codex must read it as it is (P18: nothing of it becomes another setting)."""
    assert tomllib.loads(document(values)) == values
