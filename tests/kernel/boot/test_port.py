"""The port of a kernel: its predecessor's, if nobody else has it, so that what outside programs know of it holds."""

import socket
from pathlib import Path

import pytest

from kernel.boot.discovery_record import listen
from protocol.discovery import PORT

pytestmark = pytest.mark.promise("P57")


def test_the_next_kernel_has_the_port_of_the_one_before(tmp_path: Path) -> None:
    first = listen(str(tmp_path), 8)
    port = first.getsockname()[1]
    with socket.create_connection(("127.0.0.1", port)):
        served, _ = first.accept()
        served.close()  # we hang up first: this side lingers
        first.close()
    with listen(str(tmp_path), 8) as second:
        assert second.getsockname()[1] == port


def test_a_port_that_somebody_has_is_not_taken_from_him(tmp_path: Path) -> None:
    with listen(str(tmp_path), 8) as there, listen(str(tmp_path), 8) as second:
        assert second.getsockname()[1] != there.getsockname()[1]
        assert int((tmp_path / PORT).read_text()) == second.getsockname()[1]


@pytest.mark.parametrize("noted", ["", "x", "80", "0", "-1", "70000", "9" * 30])
def test_what_is_no_port_of_ours_is_not_tried(tmp_path: Path, noted: str) -> None:
    (tmp_path / PORT).write_text(noted)
    with listen(str(tmp_path), 8) as listener:
        assert listener.getsockname()[1] >= 1024
