"""A kernel that is killed: starts trees, prints what it started as one JSON line, and waits for its end."""

import json
import sys
from pathlib import Path

import trio

from kernel.procs.handle import Handle
from kernel.procs.spec import Spec
from tests.kernel.procs.conftest import make
from tests.kernel.procs.trees import ENV, STAYS, read_pids


async def main(kind: str, run_dir: str, count: int) -> None:
    launcher = make(kind, Path(run_dir))
    handles: list[Handle] = []
    pids: list[int] = []

    async def start(number: int) -> None:
        handle = await launcher.spawn(Spec(attempt=f"i{number}-1", argv=STAYS, cwd="/", env=ENV))
        handles.append(handle)
        pids.extend(await read_pids(handle.stdout))

    async with trio.open_nursery() as nursery:
        await nursery.start(launcher.run)
        async with trio.open_nursery() as starting:
            for number in range(count):
                starting.start_soon(start, number)
        sys.stdout.write(json.dumps({"pids": pids, "keepers": [handle.keeper_pid for handle in handles]}) + "\n")
        sys.stdout.flush()
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
