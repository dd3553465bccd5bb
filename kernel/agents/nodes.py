"""Nodes of the project file: mistakes at their places, and what each demands of the user.

A node's settings have the kernel run a program, and hand to another machine the keys and files of the work that is
placed there. So each is a unit of trust of its own, and one that is not trusted is as if it were not there.
"""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from kernel.agents.definition import place_at
from kernel.agents.engines import command_line, node_faults
from kernel.agents.resources import command_demand
from kernel.source.diagnostics import Diagnostics
from kernel.source.yaml_tree import MapNode
from protocol.names import NameRejected, check_name
from protocol.project import NodeSettings, ProjectDefinition
from protocol.trust import TrustUnit, unit

LISTEN_DEFAULT: Final = "127.0.0.1:0"
"""Where nodes that dial home are let in that the project file says nothing of: no other machine reaches it."""
MOST_NODES: Final = 200
_ADDRESS: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]{1,253})):([0-9]{1,5})", re.ASCII)


class Address(NamedTuple):
    """A place to listen at."""

    host: str
    port: int


def address_of(text: str) -> Address | None:
    """``HOST:PORT``, or ``[IPV6]:PORT``; None where it is neither."""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match[3]) > 65535:
        return None
    return Address(match[1] or match[2], int(match[3]))


def node_unit(name: str, settings: NodeSettings, root: Path) -> TrustUnit:
    """The demand of one node. Its digest is that of the command line: other labels are no other machine.

    Files of the project that are named in it are pinned: who can write them would run anything by them, outside of any
    sandbox. Blocks while they are read. Raises BadDefinition for one that cannot be.
    """
    if settings.via == "join":
        what = "whoever has its join word works for this project, with the keys of what is placed there"
    else:
        words = command_line(settings, ("node",), fresh="NAME")
        line = command_demand(words, _words_of_this_machine(settings), root)
        what = f"work that is placed there, with its keys, is done through: {line}"
    return unit(f"node {name}", (what,))


def _words_of_this_machine(settings: NodeSettings) -> Iterator[str]:
    here = settings.argv or (tuple(shlex.split(settings.command)) if settings.via == "command" else ())
    yield from (word for word in (*here[:1], settings.python or "") if os.sep in word)
    yield from (*settings.args, *here[1:])


def listen_unit(address: str) -> TrustUnit:
    """The demand to be reached from other machines."""
    return unit("nodes_listen", (f"nodes that know a join word are let in at {address}, over TLS",))


def node_units(project: ProjectDefinition, root: Path) -> Iterator[TrustUnit]:
    """The demands of all nodes of ``project``, which is at ``root``. Raises BadDefinition."""
    for name, settings in project.nodes.items():
        yield node_unit(name, settings, root)
    if project.nodes_listen is not None:
        yield listen_unit(project.nodes_listen)


def check_nodes(definition: ProjectDefinition, node: MapNode, problems: Diagnostics) -> None:
    """Note what is wrong with the nodes of ``definition``, which was converted from ``node``."""
    for name, settings in definition.nodes.items():
        where = f"nodes.{name}"
        try:
            check_name(name)
        except NameRejected as error:
            problems.add(place_at(node, where), where, str(error), "a node is called so in awk ps and awk node list")
        for fault in node_faults(settings):
            at = f"{where}.{fault.key}"
            problems.add(place_at(node, at), at, fault.message, fault.hint)
    if len(definition.nodes) > MOST_NODES:
        problems.add(place_at(node, "nodes"), "nodes", f"has more than {MOST_NODES}", "have several kernels")
    if definition.nodes_listen is not None and address_of(definition.nodes_listen) is None:
        hint = "write nodes_listen: 0.0.0.0:7700, or an address of this machine"
        problems.add(place_at(node, "nodes_listen"), "nodes_listen", "is no HOST:PORT", hint)
