"""``awk backends`` with and without a kernel."""

from pathlib import Path

from protocol.api.kernel import BackendList
from tests.interface.conftest import Cli
from tests.interface.kernel_double import KernelDouble
from tests.interface.samples import backend_row


def test_without_a_kernel_the_programs_of_this_path_are_shown(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "claude").write_text("#!/bin/sh\n[ \"$1\" = --version ] && echo '9.8.7 (Claude Code)'\n")
    (folder / "claude").chmod(0o755)
    cli.environ["PATH"] = f"{folder}:/usr/bin:/bin"
    ran = cli("backends", "--json")
    rows = {row["name"]: row for row in ran.json()["backends"]}
    assert (ran.code, rows["claude"]["version"], rows["claude"]["path"]) == (0, "9.8.7", str(folder / "claude"))
    assert "no kernel is running" in ran.err
    assert list(cli.home.iterdir()) == []


def test_what_cannot_be_used_is_explained_below_the_table(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /backends"] = BackendList(backends=(backend_row("codex", missing="get it: npm"),))
    head, row, below = cli("backends").out.splitlines()
    assert head.split() == ["NAME", "VERSION", "STEPS", "RESUME", "ASKS", "BUDGET", "PROMPT", "DAEMON", "WHERE"]
    assert (row.split()[0], below) == ("codex", "codex: get it: npm")
