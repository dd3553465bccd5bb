"""A kernel whose state directory is not as its predecessor left it. Real processes."""

import os
import signal
import sys
from pathlib import Path

import pytest

from kernel.boot.state_dir import StateDirRefused, prepare_state_dir
from protocol.discovery import DATABASE
from tests.crash.life import Gone, Life
from tests.project import Project

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


@pytest.mark.promise("SF05")
@linux
def test_a_state_directory_that_cannot_be_written_is_named(project: Project) -> None:
    """Exit 78, with the path."""
    unwritable = Project(root=project.root, state_home=Path("/proc/self"), home=project.home)
    with pytest.raises(Gone), Life(unwritable, output=project.home / "out") as life:
        life.wait_ready()
    said = (project.home / "out").read_text()
    assert (life.wait_dead(), "/proc/self" in said, "Traceback" in said) == (78, True, False)


@pytest.mark.promise("SF05", "XF14")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_state_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    os.chown(tmp_path / "state", 65534, 65534)
    with pytest.raises(StateDirRefused, match="belongs to user 65534"):
        prepare_state_dir(str(tmp_path / "state"))


@pytest.mark.promise("SF08", "SF07")
@linux
@pytest.mark.long("tests/kernel/store/test_database_path.py")
def test_a_log_that_was_deleted_is_reported_and_a_damaged_file_refused(project: Project) -> None:
    """The kernel starts without its -wal and says so; with a broken page it ends with 78, twice."""
    output = project.home / "out"
    with Life(project, output=output) as life:
        life.wait_ready()
        life.kill(signal.SIGKILL)
        life.wait_dead()
    database = project.state / DATABASE
    for rest in ("-wal", "-shm"):
        database.with_name(f"{DATABASE}{rest}").unlink()
    with Life(project, output=output) as life:
        life.wait_ready()
        life.kill(signal.SIGTERM)
        assert life.wait_dead() == 0
    assert f"kernel.log_gone {database}-wal" in output.read_text()
    content = bytearray(database.read_bytes())
    content[4096 * 5 : 4096 * 6] = b"\xff" * 4096
    database.write_bytes(content)
    with pytest.raises(Gone), Life(project, output=output) as life:
        life.wait_ready()
    assert life.wait_dead() == 78
    assert database.read_bytes() == content
