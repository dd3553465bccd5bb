"""The composition root: builds the house in order of dependency and takes it down in reverse. No logic.

flock (boot) -> database and migrations -> the dead kernel's trees are proved gone -> its work is requeued ->
launcher -> HTTP and MCP -> dispatcher. Nothing is leased before all of it stands (promises.md 4.7).
"""

import logging
import os
import random
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import trio

from kernel.agents.catalog import Catalog
from kernel.agents.environment import worker_environment
from kernel.agents.preload import sdks_for
from kernel.agents.registry import register
from kernel.api.context import About, Activity, Services
from kernel.api.serve import serve
from kernel.boot.arguments import Boot
from kernel.boot.doorstep import Doorstep
from kernel.procs.launcher import VARIABLE, choose_launcher
from kernel.procs.sweep import sweep
from kernel.services.attempt import Attempts
from kernel.services.books import Books
from kernel.services.briefing import Briefings
from kernel.services.dispatcher import Dispatcher
from kernel.services.runs import Runs
from kernel.services.stopping import Stopping, stop_on_signals
from kernel.store.clock_text import rfc3339
from kernel.store.commits.recover import recover
from kernel.store.database import open_database
from kernel.store.feed import Feed
from kernel.store.reader import Reader
from kernel.store.writer import Writer
from protocol.state_paths import DATABASE, RUN

logger = logging.getLogger(__name__)


def run(boot: Boot, doorstep: Doorstep) -> int:
    """Run the kernel behind ``boot``'s door until it is stopped. Returns the exit code."""
    return trio.run(_live, boot, doorstep)


async def _live(boot: Boot, doorstep: Doorstep) -> int:
    arguments = boot.arguments
    environ: Mapping[str, str] = dict(os.environ)
    run_dir = Path(arguments.state) / RUN
    run_dir.mkdir(mode=0o700, exist_ok=True)
    database = open_database(str(Path(arguments.state) / DATABASE))
    feed = Feed()
    reader = Reader(database=database)
    writer = Writer(database=database, clock_ms=_now_ms, publish=feed.publish)
    stopping = Stopping()
    catalog = Catalog(Path(arguments.project))
    own_bin = frozenset({os.path.dirname(sys.executable)})
    launcher = choose_launcher(
        environ.get(VARIABLE), platform=sys.platform, run_dir=run_dir, environ=worker_environment(environ, (), own_bin)
    )
    about = About(
        pid=os.getpid(), url=_url(boot), version=boot.version, project=arguments.project
    )
    briefings = Briefings(catalog=catalog, reader=reader, environ=environ, own_bin=own_bin, url=f"{about.url}/mcp")
    attempts = Attempts(
        writer=writer,
        feed=feed,
        launcher=launcher,
        briefings=briefings,
        books=Books(writer=writer, now_ms=_now_ms, jitter=random.SystemRandom().random),
        now_text=lambda: rfc3339(_now_ms()),
    )
    dispatcher = Dispatcher(
        reader=reader, wake=feed.new_wake(), attempts=attempts, workers=catalog.project().limits.workers, now_ms=_now_ms
    )
    runs = Runs(reader=reader, writer=writer, wake=feed.new_wake(), now_ms=_now_ms)
    services = Services(
        writer=writer,
        reader=reader,
        feed=feed,
        catalog=catalog,
        launcher=launcher,
        environ=environ,
        token=boot.token,
        about=about,
        now_ms=_now_ms,
        uptime_seconds=partial(_since, time.monotonic()),
        activity=lambda: {
            instruction: Activity(pid=live.pid, doing=live.doing) for instruction, live in attempts.live.items()
        },
        ready=lambda: dispatcher.running,
        closing=stopping.closing,
        shutdown=stopping.ask,
    )

    swept = await sweep(run_dir)
    if swept.attempts:
        logger.info("boot.swept %d attempts, %d survivors", len(swept.attempts), len(swept.survivors))
    async with trio.open_nursery() as storage:
        await storage.start(writer.run)
        await writer.commit(recover, pid=about.pid, version=about.version)
        survey = await register(catalog, writer, reader)
        launcher.need(sdks_for((one.definition for one in survey.loaded), catalog.project()))
        async with trio.open_nursery() as processes:
            await processes.start(launcher.run)
            async with trio.open_nursery() as house:
                house.start_soon(stop_on_signals, stopping)
                doorstep.close()
                await house.start(serve, services, boot.listener)
                await house.start(runs.run)
                await house.start(dispatcher.run)
                logger.info("kernel.ready %s", about.url)
                grace = await stopping.asked()
                await dispatcher.drain(grace)
                house.cancel_scope.cancel()
            processes.cancel_scope.cancel()
        writer.close()
    database.close()
    return 0


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _since(start: float) -> float:
    return time.monotonic() - start


def _url(boot: Boot) -> str:
    host, port = boot.listener.getsockname()[:2]
    return f"http://{host}:{port}"
