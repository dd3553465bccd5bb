"""Tools of an attempt in a folder of its own."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from worker.models.model import BLANK
from worker.subprocesses import Subprocesses
from worker.tool import BuiltinTool, Outcome

Use = Callable[..., Awaitable[Outcome]]


@pytest.fixture
def programs(tmp_path: Path) -> Subprocesses:
    """Starts programs in the test's folder, with nothing of our own environment."""
    return Subprocesses(msgspec.structs.replace(BLANK, cwd=str(tmp_path)), {"PATH": "/usr/bin:/bin"})


async def use(own: BuiltinTool, **args: Any) -> Outcome:
    """One call, which has to end within seconds."""
    assert own.spec is not None
    with trio.fail_after(10):
        return await own.hand.run(own.spec.name, args, "k")
