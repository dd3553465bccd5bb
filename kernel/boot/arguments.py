"""What the kernel is told when it starts, and what it has in hand once its door is open."""

import argparse
import os
import socket
from typing import NamedTuple

from protocol.state_paths import project_state, state_home


class Arguments(NamedTuple):
    """The command line, resolved: absolute paths, no symbolic links in ``project``."""

    project: str
    home: str
    state: str
    foreground: bool
    trusted: bool


class Boot(NamedTuple):
    """What the boot hands to the house. ``listener`` is bound and listening; ``token`` is the admin's."""

    arguments: Arguments
    listener: socket.socket
    token: str
    version: str
    started_at: str
    after_death: bool = False
    """The kernel before did not take its record away: it was killed."""


def parse_arguments(words: list[str]) -> Arguments:
    """Parse ``python -I -m kernel`` words. Exits with 2 on bad usage."""
    parser = argparse.ArgumentParser(prog="python -I -m kernel", description="The agent-worker kernel of one project.")
    parser.add_argument("--project", default=os.getcwd(), help="the project's root (default: here)")
    parser.add_argument("--foreground", action="store_true", help="log to standard error, stop on Ctrl-C")
    parser.add_argument(
        "--trust", action="store_true", help="let agents run the commands that the project's files name"
    )
    given = parser.parse_args(words)
    project = os.path.realpath(given.project)
    if not os.path.isdir(project):
        parser.error(f"--project {given.project}: no such directory")
    try:
        project.encode()
    except UnicodeEncodeError:
        parser.error(f"--project {project!a}: the path is not UTF-8 text")
    home = os.path.abspath(state_home(os.environ.get("AGENT_WORKER_HOME"), os.path.expanduser("~")))
    return Arguments(
        project=project, home=home, state=project_state(home, project), foreground=given.foreground, trusted=given.trust
    )
