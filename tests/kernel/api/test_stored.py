"""Reads of a stored log that is not as a kernel left it."""

from pathlib import Path

import apsw
import pytest

from kernel.api import stored
from kernel.store.database import Database
from kernel.store.schema import migrations
from protocol.discovery import DATABASE
from protocol.errors import Refused


@pytest.mark.parametrize("target", ["/runs", "/agents", "/events"])
@pytest.mark.parametrize("damaged", [True, False], ids=["damaged", "of another program"])
def test_a_log_that_no_kernel_left_so_is_refused_by_name(target: str, damaged: bool, tmp_path: Path) -> None:
    path = tmp_path / DATABASE
    if damaged:
        opened = Database(str(path))
        opened.writer()
        opened.close()
        path.write_bytes(path.read_bytes()[: 3 * 4096].ljust(path.stat().st_size, b"\xab"))
    else:
        with apsw.Connection(str(path)) as other:
            other.execute(f"CREATE TABLE x(y); PRAGMA user_version = {max(migrations())}")
    before = path.read_bytes()
    with pytest.raises(Refused, match=str(path)) as refused:
        list(stored.pieces(tmp_path, tmp_path, {}, target, 0))
    assert (refused.value.code, path.read_bytes()) == ("storage_failed", before)
