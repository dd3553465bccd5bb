"""Which launcher a machine gets."""

from pathlib import Path

import pytest

from kernel.procs.fork import ForkLauncher
from kernel.procs.launcher import ExecLauncher, LauncherUnknown, choose_launcher


@pytest.mark.parametrize(
    ("asked", "platform", "kind"),
    [
        (None, "linux", ForkLauncher),
        ("fork", "linux", ForkLauncher),
        ("exec", "linux", ExecLauncher),
        ("", "linux", ForkLauncher),
        (None, "darwin", ExecLauncher),
        ("exec", "darwin", ExecLauncher),
    ],
)
async def test_fork_where_it_is_safe_and_exec_elsewhere_or_on_demand(
    asked: str | None, platform: str, kind: type, tmp_path: Path
) -> None:
    assert isinstance(choose_launcher(asked, platform=platform, run_dir=tmp_path, environ={}), kind)


@pytest.mark.parametrize(("asked", "platform"), [("ray", "linux"), ("fork", "darwin")])
def test_what_is_not_possible_says_what_to_do(asked: str, platform: str, tmp_path: Path) -> None:
    with pytest.raises(LauncherUnknown, match="unset it, or set it to exec"):
        choose_launcher(asked, platform=platform, run_dir=tmp_path, environ={})
