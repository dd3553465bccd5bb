"""Kernel that never updates the history index: ``python -m scripts.benchmarks.unindexed --project ROOT``."""

from unittest.mock import patch

import trio

from kernel.__main__ import main
from kernel.services.recall import Recall


async def _idle(_recall: Recall, *, task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED) -> None:
    task_status.started()
    await trio.sleep_forever()


if __name__ == "__main__":
    with patch.object(Recall, "run", _idle):
        raise SystemExit(main())
