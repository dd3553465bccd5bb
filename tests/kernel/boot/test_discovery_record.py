"""The discovery record has a limited token; the administrator's is in a file that the command line alone reads."""

import json
import stat
from pathlib import Path

import pytest

from interface.discovery import Project, recorded_endpoint, reject_reason
from kernel.boot.arguments import Boot, KernelArguments
from kernel.boot.discovery_record import listen, publish, withdraw
from kernel.boot.state_dir import Locked
from protocol.discovery import ADMIN, RECORD

pytestmark = pytest.mark.promise("P57")


@pytest.fixture
def boot(tmp_path: Path) -> Boot:
    """A kernel that listens; its state is in ``state``, the user's home of all states in ``home``."""
    state, home = tmp_path / "state", tmp_path / "home"
    state.mkdir()
    home.mkdir()
    arguments = KernelArguments(
        project=str(tmp_path), home=str(home), state=str(state), foreground=False, trusted=False
    )
    listener = listen(str(state), 8)
    return Boot(
        arguments=arguments, listener=listener, lock=Locked(0, None), token="of-the-administrator",
        record_token="of-the-record", version="1", started_at="2026-01-01T00:00:00Z", clock_offset_ns=0,
    )  # fmt: skip


def test_no_record_shows_the_token_of_the_administrator(boot: Boot) -> None:
    publish(boot)
    state, home = Path(boot.arguments.state), Path(boot.arguments.home)
    for path in (state / RECORD, home / RECORD):
        assert json.loads(path.read_text())["token"] == "of-the-record"
        assert "of-the-administrator" not in path.read_text()
    assert not (home / ADMIN).exists()
    assert stat.S_IMODE((state / ADMIN).stat().st_mode) == 0o600
    endpoint = recorded_endpoint(Project(boot.arguments.project, str(state)))
    assert endpoint is not None
    assert endpoint.token == "of-the-administrator"
    withdraw(boot)
    assert not [path for folder in (state, home) for path in folder.iterdir() if path.name in (RECORD, ADMIN)]
    boot.listener.close()


def test_a_token_is_not_taken_for_that_of_another_kernel(boot: Boot) -> None:
    publish(boot)
    state = Path(boot.arguments.state)
    project = Project(boot.arguments.project, str(state))
    record = json.loads((state / RECORD).read_text())
    (state / RECORD).write_text(json.dumps(record | {"token": "of-the-next"}))
    for there in (True, False):
        endpoint = recorded_endpoint(project)
        assert endpoint is not None
        assert endpoint.token == "of-the-next"
        if there:
            (state / ADMIN).unlink()
    boot.listener.close()


@pytest.mark.parametrize("mode", [0o644, 0o620])
def test_a_token_that_others_can_read_is_not_believed(boot: Boot, mode: int) -> None:
    publish(boot)
    file = Path(boot.arguments.state, ADMIN)
    file.chmod(mode)
    project = Project(boot.arguments.project, boot.arguments.state)
    assert recorded_endpoint(project) is None
    assert str(file) in str(reject_reason(project))
    boot.listener.close()
