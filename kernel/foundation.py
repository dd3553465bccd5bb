"""Base components of a kernel: log, catalog, identity, environment, launcher."""

import logging
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import msgspec

from kernel.agents.catalog import Catalog
from kernel.agents.env_file import with_env_file
from kernel.agents.environment import worker_environment
from kernel.agents.memory_prompt import Memories
from kernel.agents.personal_context import PersonalContexts
from kernel.agents.trust import ProjectTrust, TrustedFiles, TrustStore
from kernel.boot.arguments import Boot
from kernel.boot.clock import KernelClock
from kernel.boot.log_file import log_as_json
from kernel.gateway.gateway import Gateway
from kernel.git.repository import Repository
from kernel.operations.context import KernelIdentity
from kernel.procs.launcher import VARIABLE, SpawnControl, choose_launcher
from kernel.rule.evaluate import InstalledRules
from kernel.services import guard as guards
from kernel.services.guard import MemoryGuard
from kernel.services.installed_rules import find_installed
from kernel.services.logins import LOGINS, Logins
from kernel.services.souls import Souls
from kernel.services.supervision import InFlight
from kernel.services.working_directory import CliHomes
from kernel.store.database import Database, Reader
from kernel.store.feed import Feed
from kernel.store.transitions.recovery import next_term
from kernel.store.writer import StoreLog, Writer
from kernel.workflows.instruction_prompt import settings_of
from protocol.discovery import CONTEXTS, IN_FLIGHT, RUN, SESSIONS, WORKTREES
from protocol.project import ProjectDefinition
from protocol.text import text_environment

logger = logging.getLogger(__name__)


class Foundation(msgspec.Struct, frozen=True, kw_only=True):
    """Base components that all other parts use."""

    boot: Boot
    state_dir: Path
    environ: Mapping[str, str]
    own_bin: frozenset[str]
    worker_env: dict[str, str]
    """Environment of programs that the kernel runs for itself, not for an agent."""
    trial_env: dict[str, str]
    """Environment of the trial of another version."""
    clock: KernelClock
    feed: Feed
    log: StoreLog
    rules: InstalledRules
    catalog: Catalog
    contexts: PersonalContexts
    memories: Memories
    project: ProjectDefinition
    """Project file at the start of the kernel."""
    identity: KernelIdentity
    files: TrustedFiles
    homes: CliHomes
    logins: Logins
    in_flight: InFlight
    guard: MemoryGuard
    launcher: SpawnControl
    repository: Repository
    gateway: Gateway


def foundation_of(boot: Boot, database: Database) -> Foundation:
    """Create the components for a kernel with an open database."""
    clock, feed = KernelClock(boot.clock_offset_ns), Feed()
    state_dir, catalog = Path(boot.arguments.state), Catalog(Path(boot.arguments.project), Path.home())
    if catalog.project().log == "json":
        log_as_json()
    # Only variables that are valid text are passed on; the others are logged.
    environ, left_out = text_environment(os.environ)
    for name in left_out:
        logger.warning("environment.left_out %s is not UTF-8: it is not passed to agents, tools and git", name)
    trust = ProjectTrust(boot.arguments.trusted, TrustStore(boot.arguments.state, boot.arguments.project))
    environ = with_env_file(environ, catalog.project(), catalog.root, trust)
    host, port = boot.listener.getsockname()[:2]
    reader = Reader(database=database)
    rules = InstalledRules(
        find_installed(sys.path),
        lambda name: name in catalog.kept_project().rules_off,
        lambda name, error: logger.warning("rule.raised %s", name, exc_info=error),
    )
    writer = Writer(database=database, clock_ms=clock.now_ms, publish=feed.publish, rules=rules.table())
    log = StoreLog(reader, writer, clock.now_ms)
    contexts = PersonalContexts(catalog, state_dir / CONTEXTS)
    own_bin = frozenset({os.path.dirname(sys.executable)})
    worker_env = worker_environment(environ, (), own_bin)
    launcher = SpawnControl(
        choose_launcher(environ.get(VARIABLE), platform=sys.platform, run_dir=state_dir / RUN, environ=worker_env)
    )
    return Foundation(
        boot=boot,
        state_dir=state_dir,
        environ=environ,
        own_bin=own_bin,
        worker_env=worker_env,
        trial_env={**worker_env, **{name: one for name, one in environ.items() if name.startswith("AGENT_WORKER_")}},
        clock=clock,
        feed=feed,
        log=log,
        rules=rules,
        catalog=catalog,
        contexts=contexts,
        memories=Memories(contexts, clock.now_ms),
        project=catalog.project(),
        identity=KernelIdentity(
            pid=os.getpid(),
            url=f"http://{host}:{port}",
            version=boot.version,
            project=boot.arguments.project,
            home=boot.arguments.home,
            term=reader.now(next_term),
        ),
        files=TrustedFiles(catalog, environ, trust),
        homes=CliHomes(state_dir / SESSIONS),
        logins=Logins(Path(boot.arguments.home) / LOGINS, environ),
        in_flight=InFlight(state_dir / IN_FLIGHT),
        guard=MemoryGuard(
            contexts=contexts,
            log=log,
            wake=feed.new_wake(guards.WAKING, unless=guards.concerns_no_guard),
            souls=Souls(catalog=catalog, contexts=contexts, reader=reader, writer=log.writer),
            settings=partial(settings_of, catalog=catalog, reader=reader),
        ),
        launcher=launcher,
        repository=Repository(catalog.root, state_dir / WORKTREES, launcher=launcher, environ=environ, own_bin=own_bin),
        gateway=Gateway(f"http://{host}:{port}", environ, str(state_dir)),
    )
