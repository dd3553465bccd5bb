"""Every program that the product starts, and what decides its environment, configuration, folder and time.

A new call that starts a program fails here until it is listed. What is run for a repository, a workflow or an agent
goes through the launchers of kernel.procs, whose callers say all of it; the rest are processes of our own.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest

from tests.architecture.sources import ROOT, Source, dotted, product

STARTERS: Final = frozenset(
    {
        *(f"subprocess.{name}" for name in ("run", "Popen", "call", "check_call", "check_output", "getoutput")),
        *("trio.run_process", "trio.lowlevel.open_process", "webbrowser.open", "pty.fork", "pty.spawn"),
        *("os.fork", "os.forkpty", "os.system", "os.popen", "os.posix_spawn", "os.posix_spawnp", "os.startfile"),
        *(f"os.exec{how}" for how in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
        *(f"os.spawn{how}" for how in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
        *("asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell", "anyio.open_process"),
        *("multiprocessing.Process", "run_command", "piped_command"),
    }
)
MODULES: Final = frozenset({"subprocess", "pty", "multiprocessing", "webbrowser"})
CONTROLLED: Final = frozenset({"run_command", "piped_command"})
"""Their parameters for environment and folder have no defaults."""


class Control(NamedTuple):
    """What decides how a program runs."""

    environment: str
    folder: str
    time: str
    configuration: str = "none is read: a process of our own, isolated (-I)"


OURS: Final = "what the caller has, which is a process of ours"
HERE: Final = "that of the caller"
KEPT: Final = "until its caller ends it"
FORKED: Final = Control(OURS, HERE, KEPT, "none: a fork of our own process, nothing is executed")
WORKER: Final = Control("that of workers: an allowlist (worker_environment)", "the attempt's", "the attempt's")
USERS: Final = "the user's own, who named the program"

PROGRAMS: Final[dict[str, Control]] = {
    # The kernel's launchers, by which everything runs that a repository, a workflow or an agent has a say in.
    "kernel/procs/launcher.py::ExecLauncher._execute trio.lowlevel.open_process": Control(
        "given to the launcher; the keeper gives its command exactly what the order says", HERE, "the keeper's lifeline"
    ),
    "kernel/procs/fork.py::start_zygote trio.lowlevel.open_process": Control(
        "given to the launcher; keepers give commands exactly what the order says", HERE, KEPT
    ),
    "worker/__main__.py::KeeperZygote._fork_keeper os.fork": FORKED,
    "worker/fork/keeper.py::start os.fork": FORKED,
    "kernel/procs/node/fence.py::LeaseGuard._fork os.fork": FORKED,
    "worker/fork/keeper.py::_execute os.execvpe": Control(
        "exactly what the order says, and our cookie",
        "the order's",
        "the keeper's, which kills the tree",
        "the order's",
    ),
    "kernel/procs/command.py::piped_command trio.lowlevel.open_process": Control(
        "a parameter without default", "a parameter without default", "the block", "the caller's"
    ),
    # Who calls them.
    "kernel/git/runner.py::GitCommand.run run_command": Control(
        "VARIABLES and an allowlist",
        "a view of ours, or an empty folder",
        "GitCommand.seconds, told where it is over",
        "SETTINGS by GIT_CONFIG_COUNT; the repository's is not read",
    ),
    "kernel/git/node_sync.py::NodeGit.shell run_command": Control(
        "PATH and HOME of the node's user, no git configuration", "/", "SECONDS", "none: a script of ours"
    ),
    "kernel/workflows/setup.py::run_setup run_command": Control(
        "worker_environment", "the project", "the step's timeout", "the trusted step's own"
    ),
    "kernel/workflows/setup.py::run_check run_command": Control(
        "worker_environment", "the tree", "CHECK_SECONDS", "the trusted check's own"
    ),
    "kernel/workflows/setup.py::run_steps run_command": Control(
        "worker_environment", "the tree", "the step's timeout", "the trusted step's own"
    ),
    "kernel/services/working_directory.py::Confinement.check run_command": Control(
        "PATH alone", "/", "TRY_SECONDS", "none: bwrap and true"
    ),
    "kernel/services/node_connection.py::engine_transport piped_command": Control(
        "engine_environment", "the project", "the connection's", "ssh, kubectl, docker of the user; needs trust"
    ),
    "kernel/procs/command.py::VersionProbes._run run_command": Control(
        "the caller's, with an empty home", "an empty private folder", "PROBE_SECONDS", "none: its home is empty"
    ),
    # Processes of our own that the kernel starts.
    "kernel/services/standby.py::Standby._copy trio.lowlevel.open_process": Control("an allowlist", "/", KEPT),
    "kernel/services/runs.py::check_in_subprocess trio.run_process": Control("empty", HERE, "PATIENCE_SECONDS"),
    "kernel/services/handover.py::_run trio.run_process": Control(OURS, HERE, "patience_seconds"),
    "kernel/adoption.py::say_whether_it_could subprocess.run": Control(OURS, HERE, "the trial's"),
    "kernel/boot/service_end.py::serve_as_init os.fork": FORKED,
    "kernel/boot/replacement.py::replace os.fork": FORKED,
    "kernel/boot/replacement.py::_execute os.execv": Control(OURS, HERE, "the guardian's", "the new version's"),
    # On a node.
    "kernel/procs/ray_relay.py::FarCommand.__init__ subprocess.Popen": Control(
        "Ray's own, on its machine", "Ray's own", KEPT, "the node's settings, which need trust"
    ),
    # A worker, which has the rights of its agent and is ended with its tree.
    "worker/subprocesses.py::Subprocesses.open trio.lowlevel.open_process": WORKER,
    "worker/models/mock.py::Shell._start os.posix_spawn": WORKER,
    "worker/backends/process.py::launched trio.lowlevel.open_process": WORKER,
    # awk, for the person who types it.
    "interface/service.py::UserService._needed subprocess.run": Control(
        "without PYTHON, LD_, DYLD_", HERE, "_ANSWER_SECONDS"
    ),
    "interface/autostart.py::spawn subprocess.Popen": Control("kernel_environment", "the project", KEPT),
    "interface/cli/commands/start.py::run_in_foreground subprocess.Popen": Control(
        "kernel_environment", "the project", "the terminal's"
    ),
    "interface/cli/commands/connections.py::become_node os.execve": Control("without STEERING", HERE, KEPT),
    "interface/cli/commands/connections.py::run_mcp_serve os.execve": Control("four variables", HERE, KEPT),
    "interface/cli/commands/service.py::_ran subprocess.run": Control(
        USERS, HERE, "SYSTEMCTL_SECONDS", "systemctl and loginctl of the user"
    ),
    "interface/cli/commands/agent_edit.py::edit_by_hand subprocess.run": Control(
        USERS, HERE, "a person's, at a terminal", "EDITOR of the user"
    ),
    "interface/cli/commands/connections.py::_show webbrowser.open": Control(
        USERS, HERE, "does not wait", "BROWSER of the user"
    ),
    "interface/worker_check.py::_Program.__init__ subprocess.Popen": Control(
        USERS, "a folder of ours", "the check's", "the program's own"
    ),
}


def starts(source: Source) -> Iterator[tuple[str, ast.Call]]:
    """Each call that starts a program, by its file, function and name."""
    starters = STARTERS if source.name.startswith("kernel/") else STARTERS - CONTROLLED
    for name, call in source.calls_by_function():
        meant = [call.func, *(one for one in call.args if isinstance(one, ast.Name | ast.Attribute))]
        yield from ((f"{name} {dotted(one)}", call) for one in meant if dotted(one) in starters)


def test_every_program_that_is_started_is_listed() -> None:
    found = Counter(name for source in product() for name, _call in starts(source))
    assert found.keys() - PROGRAMS.keys() == set(), "say what decides its environment, configuration, folder and time"
    assert PROGRAMS.keys() - found.keys() == set()


def test_what_is_said_of_an_environment_is_so() -> None:
    """A call that passes none has that of its caller, which only processes of ours and the user's programs may."""
    for source in product():
        for name, call in starts(source):
            control, given = PROGRAMS[name], {word.arg for word in call.keywords}
            inherits = control == FORKED or control.environment in {OURS, USERS} or "Ray" in control.environment
            passes = "env" in given or dotted(call.func) in {"os.execve", "os.execvpe", "os.posix_spawn"}
            assert passes or inherits or dotted(call.func) in CONTROLLED or name.endswith("run_command"), name
            if "cwd" not in given and dotted(call.func).startswith(("subprocess", "trio")):
                assert control.folder in {HERE, "Ray's own", "the node's own folder"}, name


def test_nothing_that_starts_programs_is_imported_by_another_name() -> None:
    for source in product():
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ImportFrom) and node.module in MODULES:
                assert {one.name for one in node.names} <= {"PIPE", "TimeoutExpired"}, source.at(node)
            names = node.names if isinstance(node, ast.Import | ast.ImportFrom) else ()
            assert not [one for one in names if one.asname and (one.name in MODULES or one.name in CONTROLLED)]


def test_git_is_started_in_one_place() -> None:
    found = [
        source.at(node)
        for source in product()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Tuple | ast.List)
        and node.elts
        and isinstance(node.elts[0], ast.Constant)
        and node.elts[0].value == "git"
    ]
    assert found == []


@pytest.mark.parametrize(
    "text", ["subprocess.run(['git'])", "await trio.run_process(['x'])", "start_soon(run_command, 1)", "os.fork()"]
)
def test_the_scan_finds_what_it_is_for(text: str) -> None:
    """A gate that never closes is no gate."""
    source = Source(ROOT / "kernel/app.py", text, ast.parse(text))
    assert len(list(starts(source))) == 1
