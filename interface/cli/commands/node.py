"""``awk node``: other machines on which agents work; ``agent-worker node``: be one of them."""

import argparse
import os
import re
import sys
from typing import Any, Final, NoReturn

from interface.cli.command_parser import Subcommand, Subcommands, generated
from interface.cli.context import Context
from interface.cli.output import Screen, one_line, table
from interface.client import new_key
from interface.discovery import HOME
from interface.failure import Failure
from protocol.api.nodes import NodeAdded, NodeList
from protocol.discovery import digest

ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}", re.ASCII)
LONGEST_WORD: Final = 4096
STEERING: Final = ("PYTHON", "LD_", "DYLD_")
"""Variables that would have our Python load something else."""

VERBS: Final = Subcommands(
    "node",
    (
        generated("node list"),
        Subcommand("add", "have a node that the project file does not name"),
        generated("node drain"),
        generated("node rm"),
    ),
    required=False,
)
KEYS: Final = ("host", "image", "container", "pod", "namespace", "address", "command")


def configure_node(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--join", metavar="WORD", help="be a node of the kernel that made this word (- reads it)")
    parser.add_argument("--project-id", metavar="ID", help="be a node of the kernel that is spoken to over our streams")
    VERBS.configure(parser)


def run_node(context: Context) -> int:
    if context.args.verb is None:
        become_node(context)
    return VERBS.run(context)


def become_node(context: Context) -> NoReturn:
    """Become the process that serves here as a node. Raises Failure (usage)."""
    args = context.args
    if (args.join is None) == (args.project_id is None):
        raise Failure("usage", "say what to do", "awk node list shows the nodes; --join WORD makes this machine one")
    state = os.path.join(context.environ.get(HOME) or os.path.expanduser("~/.agent-worker"), "nodes")
    if args.join is not None:
        word = context.stdin.readline().strip() if args.join == "-" else args.join
        # It holds a token: what stays in the list of processes is a dash, and the word goes through a pipe.
        reading, writing = os.pipe()
        os.write(writing, f"{word}\n".encode("utf-8", "replace")[:LONGEST_WORD])
        os.close(writing)
        os.dup2(reading, 0)
        given = ["--join", "-", "--state", os.path.join(state, f"join-{digest(word.encode())[:16]}")]
    else:
        if not ID.fullmatch(args.project_id):
            raise Failure("usage", "this is the id of no project", "the kernel that starts a node says it")
        given = ["--project", args.project_id, "--state", os.path.join(state, args.project_id)]
    kept = {name: value for name, value in context.environ.items() if not name.startswith(STEERING)}
    os.execve(sys.executable, [sys.executable, "-I", "-m", "kernel.procs.node", *given], kept)


def nodes_lines(found: NodeList, screen: Screen) -> list[str]:
    rows = [
        [
            one.name,
            one.via,
            one.state,
            f"{one.running}/{one.workers}",
            one_line(",".join(one.labels)) or "-",
            one.since,
            one_line(one.why or ""),
        ]
        for one in found.nodes
    ]
    if not rows:
        return ["there are no nodes: everything runs on this machine"]
    return table(["NODE", "VIA", "STATE", "WORKERS", "LABELS", "SINCE", "WHY"], rows, screen)


def configure_add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="what it is called")
    parser.add_argument(
        "--via", choices=("ssh", "slurm", "kubectl", "docker", "ray", "command"), help="the engine that leads there"
    )
    parser.add_argument("--join", action="store_true", help="it dials home: print the command to type there")
    parser.add_argument("--host", help="ssh, slurm: the machine; with --join: where it finds this one")
    parser.add_argument("--image", help="docker, kubectl: a container of this image is started")
    parser.add_argument("--container", help="docker: one that runs; kubectl: which of the pod's")
    parser.add_argument("--pod", help="kubectl: one that runs")
    parser.add_argument("--namespace", help="kubectl: the namespace")
    parser.add_argument("--address", help="ray: the cluster")
    parser.add_argument("--command", metavar="PROGRAM", help="the program there (default: agent-worker)")
    parser.add_argument("--label", action="append", default=[], help="what agents may ask for; can be repeated")
    parser.add_argument("--workers", type=int, metavar="N", help="how many attempts run there at once (default: 8)")


def run_add(context: Context) -> int:
    args = context.args
    if args.via is not None and args.join:
        raise Failure("usage", "it is reached by an engine, or dials home: not both", "leave out --via or --join")
    if args.via is None and not args.join:
        raise Failure("usage", "say how it is reached", "--via ssh --host NAME, another engine, or --join")
    node: dict[str, Any] = {"via": args.via or "join", "labels": args.label}
    node |= {key: getattr(args, key) for key in KEYS if getattr(args, key) is not None}
    if args.workers is not None:
        node["workers"] = args.workers
    if context.params:
        node["argv" if args.via == "command" else "args"] = list(context.params)
    body: dict[str, Any] = {"name": args.name, "node": node}
    if args.join:
        body["host"] = node.pop("host", None)
    return context.answer(context.kernel().post("/nodes", body, key=new_key()), added_lines)


def added_lines(added: NodeAdded, _screen: Screen) -> list[str]:
    if added.command is not None:
        return [added.command]
    return ["it is tried from now on: awk node list" if added.node is None else f"{added.node.name} {added.node.state}"]
