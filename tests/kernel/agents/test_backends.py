"""Which backends can be used: what is on the PATH of workers, and what it says of itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kernel.agents.backends import command_of, probe_backends
from kernel.agents.providers import CauseError
from protocol.agent import AgentDefinition, Backend
from protocol.api.kernel import BackendRow
from protocol.backends import BACKENDS


@dataclass(frozen=True)
class Answer:
    """What a program of the test says."""

    text: str
    fault: str | None = None


@dataclass
class Programs:
    """Executables in one folder of a PATH. ``says`` are their answers by name and flag."""

    folder: Path
    says: dict[tuple[str, str], Answer] = field(default_factory=dict)

    @property
    def env(self) -> dict[str, str]:
        return {"PATH": f"/nowhere:{self.folder}"}

    def install(self, name: str, version: str, *, about: str = "", fault: str | None = None) -> str:
        path = self.folder / name
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        self.says |= {(name, "--version"): Answer(version, fault), (name, "--help"): Answer(about)}
        return str(path)

    async def ask(self, path: str, flag: str, env: Mapping[str, str]) -> Answer:
        assert env == self.env
        return self.says[Path(path).name, flag]

    async def rows(self) -> dict[str, BackendRow]:
        return {row.name: row for row in await probe_backends(self.env, self.ask)}


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path)


async def test_what_is_installed_is_shown_with_its_version(programs: Programs) -> None:
    claude = programs.install("claude", "2.1.329 (Claude Code)")
    programs.install("codex", "codex-cli 0.169.0\n")
    programs.install("cursor-agent", "2026.08.11-e8db854", about="Start the Cursor Agent")
    rows = await programs.rows()
    assert list(rows) == list(BACKENDS)
    assert (rows["claude"].available, rows["claude"].path, rows["claude"].missing) == (True, claude, None)
    versions = [rows[name].version for name in ("claude", "codex", "cursor", "sdk")]
    assert versions == ["2.1.329", "0.169.0", "2026.08.11-e8db854", None]


async def test_what_is_missing_says_where_it_was_looked_for_and_how_to_get_it(programs: Programs) -> None:
    row = (await programs.rows())["opencode"]
    assert not row.available
    assert row.missing == (
        f"opencode not found on the PATH of workers (/nowhere:{programs.folder}). "
        "Install it: npm install -g opencode-ai"
    )


async def test_a_program_of_the_same_name_is_not_taken_for_cursors(programs: Programs) -> None:
    """An unrelated package is called cursor-agent, too; only its help tells."""
    path = programs.install("cursor-agent", "1.0.3", about="An agent for your terminal")
    row = (await programs.rows())["cursor"]
    assert not row.available
    assert (row.missing or "").startswith(f"{path} is not Cursor (")


async def test_a_program_that_does_not_run_is_not_available(programs: Programs) -> None:
    path = programs.install("codex", "", fault="exit code 127: node: not found")
    row = (await programs.rows())["codex"]
    assert (row.available, row.missing) == (False, f"{path} --version fails: exit code 127: node: not found")


def test_an_attempt_is_told_its_program_or_ends_before_a_model_is_paid(programs: Programs, tmp_path: Path) -> None:
    def command(backend: Backend, *words: str) -> tuple[str, ...]:
        definition = AgentDefinition(name="alice", backend=backend, command=words)
        return command_of(definition, tmp_path, programs.env["PATH"])

    assert (command("sdk"), command("mock")) == ((), ())
    claude = programs.install("claude", "2.1.329")
    assert command("claude") == (claude,)
    assert command("exec", "claude", "-x") == command("exec", "./claude", "-x") == (claude, "-x")
    for backend, words in (("codex", ()), ("exec", ("nope",)), ("exec", ("./nope",))):
        with pytest.raises(CauseError) as caught:
            command(backend, *words)  # type: ignore[arg-type]
        assert caught.value.cause == "spawn_permanent"
        assert str(programs.folder) in caught.value.text


def test_what_is_lent_or_let_in_goes_into_a_home_of_the_programs_own() -> None:
    assert [name for name, spec in BACKENDS.items() if (spec.own or spec.login) and not spec.own_session] == []
