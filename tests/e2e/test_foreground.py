"""``awk start --foreground`` as service managers run it: signals reach that one process."""

import signal
import subprocess

import pytest

from tests.project import AWK, Project


@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long("[SIGINT]"))],
    ids=lambda number: number.name,
)
def test_a_signal_to_it_alone_ends_the_kernel_and_it(project: Project, number: signal.Signals) -> None:
    words = [str(AWK), "start", "--foreground"]
    with subprocess.Popen(
        words, cwd=project.root, env=project.environ, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stderr is not None
            ready = next(line for line in process.stderr if "kernel.ready" in line)
            process.send_signal(number)
            process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, "http://" in ready) == (0, True)
    assert not project.alive()
