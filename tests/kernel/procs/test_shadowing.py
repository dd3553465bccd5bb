"""A project's own folders are not our packages."""

from pathlib import Path

import pytest
import trio

from kernel.procs.spec import Spec
from tests.kernel.procs.conftest import make
from tests.kernel.procs.trees import PATIENCE


@pytest.mark.parametrize("kind", ["fork", "exec"])
async def test_a_folder_named_protocol_cannot_shadow_ours(
    kind: str, tmp_path: Path, run_dir: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    for name in ("protocol", "worker", "kernel", "trio"):
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(project)
    monkeypatch.setenv("PYTHONPATH", str(project))
    launcher = make(kind, run_dir)
    await nursery.start(launcher.run)
    async with await launcher.spawn(Spec(attempt="i1-1", cwd=str(project))) as handle:
        with trio.fail_after(PATIENCE):
            assert b'"t":"ready"' in await handle.stdout.receive_some()
    assert not (tmp_path / "ran").exists()
