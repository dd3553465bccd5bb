"""``awk service``: run the kernel of a project, or (``--all``) of all projects, as a user service without root.

``print`` shows the unit. ``install`` writes it and starts it with ``systemctl --user``, or prints the commands for the
user to run. ``uninstall`` reverses both. ``run`` is the command of the service for all projects.
"""

import argparse
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from shlex import quote
from typing import Any, Final

from interface.autostart import command, make_private
from interface.cli.command_parser import Subcommand, Subcommands
from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import Screen, one_line
from interface.cli.parsing import flag
from interface.discovery import HOME, URL
from interface.failure import Failure, Unreachable
from interface.service import MARK, Service, UserService, plist_text, unit_text
from osfiles.atomic_write import replacing

SERVICE_VERBS: Final = Subcommands(
    "service",
    (
        Subcommand("print", "Print the systemd user unit or launchd property list"),
        Subcommand("install", "Install the service and start it if the service manager is available"),
        Subcommand("uninstall", "Stop and remove the service"),
        Subcommand("run", "Run as the service of all projects and start their kernels on demand"),
    ),
)
SYSTEMCTL_SECONDS: Final = 150.0
"""Timeout of a start, longer than any unit needs."""
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


def run_service(context: Context) -> int:
    """Run the subcommand. Raises Failure (usage) if the environment selects a kernel."""
    if context.environ.get(URL):
        raise Failure("usage", f"{URL} is set, but a service runs the kernel of the project", f"unset {URL}")
    return SERVICE_VERBS.run(context)


def _configure(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--systemd", action="store_true", help="use systemd (default, except on macOS)")
    kinds.add_argument("--launchd", action="store_true", help="use launchd (default on macOS)")
    flag(parser, "--all", about="one service that starts all projects on demand")


configure_service_print = configure_service_install = configure_service_uninstall = _configure


def configure_service_run(_parser: argparse.ArgumentParser) -> None:
    """Declare no arguments."""


def run_service_run(context: Context) -> int:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    say = partial(print, file=sys.stderr, flush=True)
    UserService(context.environ, context.cwd, context.clock, lambda text: say(one_line(text))).run(stop)
    return Exit.OK


def run_service_print(context: Context) -> int:
    service, launchd = described(context), _is_launchd(context)
    text = plist_text(service) if launchd else unit_text(service)
    if context.args.json:
        context.out.document(json.dumps({**_facts(context, service), "text": text}, ensure_ascii=False).encode())
    else:
        context.out.text(text)
    return Exit.OK


def run_service_install(context: Context) -> int:
    service, launchd = described(context), _is_launchd(context)
    text, facts = plist_text(service) if launchd else unit_text(service), _facts(context, service)
    path = facts["path"]
    _check_ours(path)
    make_private(service.state)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with replacing(path, beside=f"{path}.{os.getpid()}", sync=False) as file:
        file.write(text.encode())
    running = bool(service.root)
    if running:
        try:
            context.find_kernel().close()
        except Unreachable:
            running = False
    where = f"--project {quote(context.project.root)}"
    if launchd:
        todo = [f"launchctl bootstrap gui/{os.getuid()} {quote(path)}"]
    else:
        start = ["systemctl", "--user", "start", facts["unit"]]
        enable = ["systemctl", "--user", "enable", facts["unit"]]
        now = [] if running else [start]
        todo = _managed(context, ["systemctl", "--user", "daemon-reload"], enable, *now)
        todo += [" ".join(start)] if running else []
    if running:
        todo.insert(len(todo) - 1, f"{context.program} stop {where}")
    told = {**facts, "installed": True, "started": not todo, "commands": todo}
    if not launchd:
        told["hints"] = [
            f"keys of providers go into {service.keys_file} (mode 0600), as NAME=value lines: a service has no shell",
            "to have it run while you are not logged in: loginctl enable-linger",
        ]
    return context.answer(json.dumps(told, ensure_ascii=False).encode(), service_lines)


def run_service_uninstall(context: Context) -> int:
    service, launchd = described(context), _is_launchd(context)
    facts = _facts(context, service)
    path = facts["path"]
    if not os.path.lexists(path):
        told = {**facts, "installed": False, "removed": False, "commands": []}
        return context.answer(json.dumps(told, ensure_ascii=False).encode(), service_lines)
    _check_ours(path)
    if launchd:
        todo = [f"launchctl bootout gui/{os.getuid()}/{facts['unit']}"]
    else:
        todo = _managed(context, ["systemctl", "--user", "disable", "--now", facts["unit"]])
    os.unlink(path)
    if not launchd:
        wanted = os.path.join(os.path.dirname(path), "default.target.wants", facts["unit"])
        with suppress(OSError):  # systemctl has deleted the unit already, or the unit does not exist
            if os.path.islink(wanted):
                os.unlink(wanted)
        stop = [f"systemctl --user stop {facts['unit']}"] if todo else []
        todo = stop + _managed(context, ["systemctl", "--user", "daemon-reload"])
    told = {**facts, "installed": False, "removed": True, "commands": todo}
    return context.answer(json.dumps(told, ensure_ascii=False).encode(), service_lines)


def service_lines(told: dict[str, Any], screen: Screen) -> list[str]:
    if "started" in told:
        head = f"{'installed and started' if told['started'] else 'written, and not started'}: {told['path']}"
    else:
        head = f"removed: {told['path']}" if told["removed"] else f"{told['unit']} is not installed"
    lines = [screen.style(one_line(head), "bold")]
    lines += ["to continue, run:"] if told["commands"] else []
    lines += [f"  {one_line(one)}" for one in told["commands"]]
    return [*lines, *(one_line(hint) for hint in told.get("hints", ()))]


def described(context: Context) -> Service:
    """Return the service of this project, or of all projects, for this installation and environment."""
    environ = context.environ
    set_for_it = {"PATH": environ.get("PATH") or _PATH}
    if environ.get(HOME):
        set_for_it[HOME] = os.path.dirname(os.path.dirname(context.project.state))  # it may be relative
    bwrap = shutil.which("bwrap", path=set_for_it["PATH"])
    setuid = bwrap is not None and bool(os.stat(bwrap).st_mode & stat.S_ISUID)
    every = bool(context.args.all)
    run = [sys.executable, "-I", "-m", "interface", "awk", "", "service", "run"]
    return Service(
        root="" if every else context.project.root,
        state=os.path.dirname(os.path.dirname(context.project.state)) if every else context.project.state,
        argv=run if every else command(context.project),
        environ=set_for_it,
        keys_file=os.path.join(_config_home(context), "agent-worker", "service.env"),
        hardened=not setuid,
    )


def _config_home(context: Context) -> str:
    given = context.environ.get("XDG_CONFIG_HOME", "")
    return given if os.path.isabs(given) else os.path.join(_user_home(context), ".config")


def _user_home(context: Context) -> str:
    return context.environ.get("HOME") or os.path.expanduser("~")


def _is_launchd(context: Context) -> bool:
    return bool(context.args.launchd) or (sys.platform == "darwin" and not context.args.systemd)


def _facts(context: Context, service: Service) -> dict[str, Any]:
    if _is_launchd(context):
        path = os.path.join(_user_home(context), "Library", "LaunchAgents", f"{service.label}.plist")
        return {"schema": "awk/service/1", "kind": "launchd", "unit": service.label, "path": path}
    unit = f"{service.name}.service"
    path = os.path.join(_config_home(context), "systemd", "user", unit)
    return {"schema": "awk/service/1", "kind": "systemd", "unit": unit, "path": path}


def _check_ours(path: str) -> None:
    try:
        with open(
            os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), encoding="utf-8", errors="replace"
        ) as file:
            head = file.read(4096)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Failure("failed", f"{path}: {error.strerror}", "move the file") from error
    if not head.startswith(MARK) and "<string>agent-worker." not in head:
        raise Failure("failed", f"{path} was not written by awk service install", "move the file")


def _managed(context: Context, *commands: Sequence[str]) -> list[str]:
    """Run the systemctl ``commands`` in order. Returns the commands that the user has to run instead.

    Returns all commands if the user's service manager is not available. Raises Failure if a command fails.
    """
    program = shutil.which("systemctl", path=context.environ.get("PATH") or _PATH)
    if program is None or _ran(context, [program, "--user", "show-environment"]).returncode:
        return [" ".join(map(quote, one)) for one in commands]
    for one in commands:
        ran = _ran(context, [program, *one[1:]])
        if ran.returncode:
            said = one_line(ran.stderr.decode("utf-8", "replace")[-500:].strip())
            hint = f"see systemctl --user status {one[-1]}, or {os.path.join(context.project.state, 'kernel.log')}"
            raise Failure("failed", f"{' '.join(one)}: {said}", hint)
    return []


def _ran(context: Context, argv: Sequence[str]) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(
            argv,
            env=context.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SYSTEMCTL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure("failed", f"{' '.join(argv)}: {error}") from error
