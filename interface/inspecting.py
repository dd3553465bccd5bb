"""What the kernel's loader says of agents, without a kernel: who there is, and whether a text would be one."""

import json
from collections.abc import Mapping

from interface.failure import Place
from interface.loader import ask, place_of


def agent_list(root: str) -> bytes:
    """The agents of the project (protocol.api.AgentList). Raises Failure."""
    return ask(None, "agents", "--project", root)


def agent_info(environ: Mapping[str, str], root: str, name: str) -> bytes:
    """One agent of the project (protocol.api.AgentInfo), as a kernel with ``environ`` would have it.

    Raises Failure (unknown_agent, bad_definition).
    """
    return ask(environ, "agent", "--project", root, "--", name)


def workflows_with(root: str, name: str) -> tuple[str, ...]:
    """The files of those workflows that refer to the agent ``name``. Raises Failure."""
    return tuple(json.loads(ask(None, "uses", "--project", root, "--", name))["workflows"])


def backend_list(environ: Mapping[str, str]) -> bytes:
    """What can run an agent, as far as ``environ`` says where it is (protocol.api.BackendList). Raises Failure."""
    return ask(environ, "backends")


def judge(root: str, name: str, text: str, *, new: bool = False) -> tuple[Place, ...]:
    """What would be wrong if ``text`` were the file of the agent ``name``. Raises Failure where it cannot be judged.

    ``new``: there must be no agent of that name (already_exists).
    """
    flags = ["--new"] if new else []
    answer = ask(None, "judge", "--project", root, *flags, "--", name, given=text.encode())
    return tuple(place_of(error) for file in json.loads(answer)["files"] for error in file["errors"])
