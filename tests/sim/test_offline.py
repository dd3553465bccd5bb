"""What is read without a kernel is what the kernel of the same log answers, byte for byte, at any point of any history.

Histories are those of the simulation, cut off somewhere: with attempts that run, waits, votes and dead work. Both sides
have the same files, environment and clock. Without a kernel, routes that show its process or its other services
(NEEDS_KERNEL) are refused. In a project nothing else differs but the clock and the environment of the shell, the note
that no kernel runs, and the event ``kernel.stopping`` (tests/e2e/test_offline.py).
"""

import queue
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

import apsw
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from interface.client import Client
from interface.clock import Clock
from interface.discovery import KernelEndpoint, find_project
from interface.failure import Failure
from interface.http_client import Address
from interface.offline import StoredLogClient, shell_environment
from kernel.api.dispatch import Parameter, parameters_of
from kernel.api.routes import ROUTES
from protocol.discovery import DATABASE
from protocol.message import Event
from tests.builders.api import TOKEN, ServedKernel, serve_kernel
from tests.interface.conftest import Cli
from tests.sim.plan import expand
from tests.sim.project_folder import ProjectFolder, lay
from tests.sim.simulation import simulate
from tests.sim.world import World

READS: Final = [route for route in ROUTES if route.method == "GET"]
PROCESS: Final = (
    "/health /backends /ready /status /metrics /upgrade /ps /needs /overview /projects /nodes /trust /webhooks"
)
SERVICES: Final = (
    "/agents/<name>/soul /agents/<name>/tray /agents/<name>/notes /agents/<name>/todo /agents/<name>/memory"
    " /agents/<name>/memory/search /agents/<name>/thread /agents/<name>/thread/search /search /runs/<run>/merge"
    " /spaces/<space>/diff /spaces/<space>/rules /runs/<run>/export /spaces/<space>/export"
)
NEEDS_KERNEL: Final = {*PROCESS.split(), *SERVICES.split(), "/instructions/<id>/prompt"}
"""Routes that may be refused without a kernel. A prompt is, until the first entry stores it."""
NEEDED: Final = "only a running kernel can answer this"
NOTES: Final = ("no kernel is running", "note: the kernel has version")
NAMES: Final = """
SELECT 'id', 'i' || id FROM instructions UNION ALL SELECT 'run', 'r' || id FROM workflows
UNION ALL SELECT 'space', place FROM (SELECT DISTINCT name || ':' || tag AS place FROM workflows)
UNION ALL SELECT 'name', key FROM agents UNION ALL SELECT 'id', 'm' || seq FROM messages WHERE seq % 10 = 1
"""
Names = Mapping[str, list[str]]
Words = st.SearchStrategy[list[str]]


class Twins(NamedTuple):
    """A command line and a client of a kernel, the same of the log that it stored, and the names in that log."""

    online: Cli
    offline: Cli
    client: Client
    stored: StoredLogClient
    names: Names


def history(seed: int, project_folder: ProjectFolder) -> tuple[bytes, int]:
    """The log of a world and its time, once so many events were told as the seed says, or at its end."""
    heard: list[Event] = []
    kept: list[tuple[bytes, int]] = []

    def keep(world: World) -> None:
        kept.append((world.eyes.serialize("main"), world.wall_ms()))

    def listen(world: World, events: Sequence[Event]) -> None:
        heard.extend(events)
        if len(heard) >= 40 * (1 + seed % 6) and not kept:
            keep(world)

    simulate(expand(seed), project_folder, begin=lambda world: world.listeners.append(partial(listen, world)), end=keep)
    return kept[0]


@contextmanager
def running(root: Path, environ: Mapping[str, str], now_ms: int) -> Generator[ServedKernel]:
    """A served kernel in a thread."""
    up: queue.SimpleQueue[tuple[ServedKernel, trio.Event, trio.lowlevel.TrioToken]] = queue.SimpleQueue()

    async def main() -> None:
        async with serve_kernel(root, environ, on_disk=True, now_ms=now_ms) as kernel:
            over = trio.Event()
            up.put((kernel, over, trio.lowlevel.current_trio_token()))
            await over.wait()

    thread = threading.Thread(target=trio.run, args=(main,), daemon=True)
    thread.start()
    kernel, over, token = up.get(timeout=60)
    yield kernel
    trio.from_thread.run_sync(over.set, trio_token=token)
    thread.join(60)


SEEDS: Final = [3, 17, *(pytest.param(seed, marks=pytest.mark.long("[3]")) for seed in range(18, 34))]


@pytest.fixture(scope="module", params=SEEDS)
def twins(
    request: pytest.FixtureRequest, project_folder: ProjectFolder, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Twins]:
    root = tmp_path_factory.mktemp("twins")
    log, now_ms = history(request.param, project_folder)
    lay(root / "project")
    (root / "kernel.db").write_bytes(log)
    wall = partial(float, now_ms / 1000)
    offline = Cli(root / "project", root / "home", {"HOME": str(root)}, wall=wall)
    project = find_project(offline.environ, str(offline.root), None)
    with running(root, shell_environment(offline.environ), now_ms) as kernel:
        environ = {"AGENT_WORKER_URL": f"http://{kernel.host}", "AGENT_WORKER_TOKEN": TOKEN}
        online = Cli(root / "project", root / "home", offline.environ | environ, wall=wall)
        conn = apsw.Connection(str(root / "kernel.db"))
        Path(project.state).mkdir(parents=True)
        Path(project.state, DATABASE).write_bytes(conn.serialize("main"))
        names: dict[str, list[str]] = {"path": ["plan.md"], "tag": ["main"]}
        for kind, name in conn.execute(NAMES):
            names.setdefault(str(kind), []).append(str(name))
        client = Client(KernelEndpoint(Address("127.0.0.1", kernel.port), TOKEN, 0, ""))
        stored = StoredLogClient(project, offline.environ, Clock(wall, wall, offline.pause))
        yield Twins(online, offline, client, stored, names)
        client.close()


def words(*parts: Words) -> Words:
    return st.tuples(*parts).map(lambda found: [word for part in found for word in part])


def maybe(*choices: str) -> Words:
    """One of the choices, such as a flag with its value, or none."""
    return st.sampled_from([[], *(choice.split() for choice in choices)])


def commands(names: Names) -> Words:
    """Any command that reads the stored log, about what is there and what is not."""
    agents, places = [*names["name"], "nobody"], [f"@{place}" for place in (*names["space"], "gone:main")]
    targets = [*agents, *places, *(agent + place for agent in agents for place in places)]
    runs = st.lists(st.sampled_from([*names["run"], "r999", *places]), min_size=1, max_size=2)
    works = st.lists(st.sampled_from([*(one for one in names["id"] if one[0] == "i"), "i999"]), min_size=1, max_size=3)
    count = maybe("-n 0", "-n 1", "-n 2", "-n 3", "-n 20", "-n 1000")
    since, json = maybe("--since 1s", "--since 30s", "--since 2m", "--since 7d"), maybe("--json")
    status = maybe("--status running", "--status done", "--status failed", "--status cancelled")
    picture = maybe("--timeline", "--graph dot", "--graph mermaid", "--html page.html --force")
    detail = st.one_of(maybe("--prompt"), words(maybe("--steps", "--steps --full"), count))
    by = maybe("--by agent", "--by day,model", "--by workflow")
    level = maybe("--previous", "--level warning", "--level debug")
    return st.one_of(
        words(st.just(["ls"]), json),
        words(st.just(["runs"]), maybe(*places), status, since, count, json),
        words(st.just(["show"]), runs, picture, json),
        words(st.just(["show"]), works, detail, json),
        words(st.just(["stats"]), maybe(*targets), by, since, json),
        words(
            st.just(["logs"]),
            st.lists(st.sampled_from(targets), max_size=2),
            level,
            count,
            since,
            maybe("--jsonl", "-v"),
        ),
    )


def told(cli: Cli, asked: list[str]) -> tuple[int, str, list[str], str]:
    """What a command prints and writes, without its notes about the kernel."""
    page = cli.root / "page.html"
    page.unlink(missing_ok=True)
    ran = cli(*asked)
    notes = [line for line in ran.err.splitlines() if not line.startswith(NOTES)]
    return ran.code, ran.out, notes, page.read_text("utf-8") if page.exists() else ""


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_each_command_answers_as_beside_the_kernel(twins: Twins, data: st.DataObject) -> None:
    asked = data.draw(commands(twins.names))
    offline = told(twins.offline, asked)
    if offline[2][:1] != [f"error: {NEEDED}"] or "--prompt" not in asked:
        assert offline == told(twins.online, asked)


def value_of(known: Parameter, names: Names) -> "st.SearchStrategy[str]":
    """A value of a parameter: one of its words, a small number, or a name."""
    if known.words or known.low is not None:
        return st.sampled_from(known.words or ("1", "2", "3"))
    return st.sampled_from([name for some in names.values() for name in some])


def answered(client: Client, path: str, query: Mapping[str, str]) -> tuple[str, bytes]:
    try:
        return "", client.get(path, query)
    except Failure as failure:
        return f"{failure.code}: {failure.text}", (failure.hint or "").encode()


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_each_read_answers_as_the_kernel_or_needs_it(twins: Twins, data: st.DataObject) -> None:
    route = data.draw(st.sampled_from(READS))
    path, known = route.path, parameters_of(route)
    for variable in route.variables:
        value = data.draw(st.sampled_from(twins.names[variable]))
        path = path.replace(f"<{variable}>", quote(value)).replace(f"<path:{variable}>", quote(value))
    chosen = data.draw(st.sets(st.sampled_from(sorted(known)))) if known else set[str]()
    query = {name: data.draw(value_of(known[name], twins.names)) for name in sorted(chosen)}
    query |= {"follow": "0"} if route.path == "/events" else {}
    offline = answered(twins.stored, path, query)
    if route.path not in NEEDS_KERNEL or offline[0] != f"busy: {NEEDED}":
        assert offline == answered(twins.client, path, query), (path, query)
