"""``awk token``, ``mcp-serve``, ``open``, ``webhook`` and ``node``: for other programs, browsers and machines."""

import argparse
import html
import json
import os
import re
import sys
from collections.abc import Mapping
from typing import Any, Final, NoReturn, get_args
from urllib.parse import quote

from interface.cli.command_parser import Subcommand, Subcommands, generated
from interface.cli.context import Context
from interface.cli.output import Screen, decode, one_line, table
from interface.cli.parsing import Arguments, argument, json_flag, switch
from interface.client import new_key, quoted
from interface.discovery import HOME, given_endpoint
from interface.failure import Failure
from osfiles.atomic_write import replacing
from protocol.api.kernel import WebhookList
from protocol.api.processes import NodeAdded, NodeList
from protocol.api.tokens import PageKey, TokenList, TokenMade, TokenScope
from protocol.discovery import ADMIN, digest

TOKEN_VERBS: Final = Subcommands(
    "token",
    (
        Subcommand("create", "Create a token and print it once"),
        *generated("token"),
        Subcommand("revoke", "Revoke tokens, effective with their next request"),
    ),
)
_SCOPE: Final = (
    "permission level: read, operate (also create and control work), or approve (also decide approvals; "
    "approve:alice,bob: only calls of these agents)"
)
ARGUMENTS: Final[Mapping[str, Arguments]] = {
    "token create": (
        argument("--scope", metavar="SCOPE", required=True, help=_SCOPE),
        argument("--name", metavar="NAME", default="", help="name of the token in awk token list"),
    ),
    "token revoke": (argument("ids", metavar="TOKEN", nargs="+", help="id of the token, such as k3"),),
    "mcp-serve": (),
    "open": (
        switch("--read-only", about="open the page in read-only mode"),
        switch("--print", about="print the address, valid once for one minute"),
        json_flag,
    ),
    "node add": (
        argument("name", metavar="NAME", help="name of the node"),
        argument(
            "--via", choices=("ssh", "slurm", "kubectl", "docker", "ray", "command"), help="engine of the connection"
        ),
        switch("--join", about="create a join token and print the command for the node"),
        argument("--host", help="ssh, slurm: host of the node; with --join: address of this kernel"),
        argument("--image", help="docker, kubectl: image of the container to start"),
        argument("--container", help="docker: running container; kubectl: container of the pod"),
        argument("--pod", help="kubectl: running pod"),
        argument("--namespace", help="kubectl: namespace"),
        argument("--address", help="ray: address of the cluster"),
        argument("--command", metavar="PROGRAM", help="agent-worker program on the node (default: agent-worker)"),
        argument("--label", action="append", default=[], help="label that agents can require; repeatable"),
        argument("--workers", type=int, metavar="N", help="maximum number of concurrent attempts (default: 8)"),
    ),
}


def run_token_create(context: Context) -> int:
    if context.args.scope.partition(":")[0] not in get_args(TokenScope):
        hint = "use read, operate, approve or approve:AGENT,AGENT"
        raise Failure("usage", f"{context.args.scope!a} is not a scope", hint)
    body = {"scope": context.args.scope, "name": context.args.name}
    return context.answer(context.kernel().post("/tokens", body, key=new_key()), token_lines)


def token_lines(found: TokenMade, _screen: Screen) -> list[str]:
    return [found.token]


def tokens_lines(found: TokenList, screen: Screen) -> list[str]:
    rows = [[one.id, one.scope, one.created_at, one.expires_at or "", one_line(one.name)] for one in found.tokens]
    return table(["ID", "SCOPE", "SINCE", "UNTIL", "NAME"], rows, screen) if rows else ["no tokens"]


def run_token_revoke(context: Context) -> int:
    kernel = context.kernel()
    for name in dict.fromkeys(context.args.ids):
        kernel.delete(f"/tokens/{quoted(name)}")
    return context.answer(kernel.get("/tokens"), tokens_lines)


def run_mcp_serve(context: Context) -> NoReturn:
    """Relay MCP between standard input and output and the kernel, also across kernel restarts.

    The token is passed through a pipe, or read from the kernel's own file, but never in an argument or a variable.
    """
    context.kernel().close()
    endpoint = given_endpoint(context.environ)
    path = os.path.join(context.project.state, ADMIN)
    if endpoint is not None:
        reading, writing = os.pipe()
        url = f"http://{endpoint.address.authority}"
        os.write(writing, json.dumps({"url": url, "token": endpoint.token}).encode())
        os.close(writing)
        os.set_inheritable(reading, True)
        path = f"/dev/fd/{reading}"
    kept = {name: value for name, value in context.environ.items() if name in ("PATH", "HOME", "LANG", "TMPDIR")}
    os.execve(sys.executable, [sys.executable, "-I", "-m", "worker.mcp_bridge", path, "--listen"], kept)


REDIRECT: Final = "open.html"
"""Name of the private file in the project's state that the browser opens."""
_SCREENS: Final = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
_PAGE: Final = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}">
<title>agent-worker</title>
<p><a href="{url}">agent-worker</a></p>
"""


def run_open(context: Context) -> int:
    body = context.kernel().post("/page/keys", {"read_only": context.args.read_only}, key=new_key())
    if context.wants_json:
        context.out.document(body)
        return 0

    url = decode(body, PageKey).url
    has_screen = sys.platform == "darwin" or any(context.environ.get(name) for name in _SCREENS)
    if not context.args.print and has_screen and _show(context, url):
        context.out.note(f"the page opened in your browser; to print its address: {context.program} open --print")
        return 0
    context.out.lines([url])
    context.out.note("note: the address is valid once, for one minute")
    if context.environ.get("SSH_CONNECTION"):
        port = url.partition("/page")[0].rpartition(":")[2]
        context.out.note(f"note: to open it on your machine: ssh -L {port}:127.0.0.1:{port} THIS-HOST")
    return 0


def _show(context: Context, url: str) -> bool:
    """Return whether a browser was started with ``url``.

    Every user of the machine can read the arguments of the browser, so it receives the path of a private file that
    redirects to ``url``. The next call replaces the file. Its key is valid for one use and one minute.
    """
    import webbrowser  # noqa: PLC0415  (its import searches for browsers)

    os.makedirs(context.project.state, 0o700, exist_ok=True)
    path = os.path.join(context.project.state, REDIRECT)
    with replacing(path, beside=f"{path}.{os.getpid()}", sync=False) as file:
        file.write(_PAGE.format(url=html.escape(url)).encode())
    return webbrowser.open(f"file://{quote(path)}")


WEBHOOK_VERBS: Final = Subcommands("webhook", generated("webhook"))


def webhooks_lines(found: WebhookList, screen: Screen) -> list[str]:
    rows = [
        [one.id, one.state, str(one.waiting), one_line(one.host), one_line(", ".join(one.events))]
        for one in found.webhooks
    ]
    return table(["ID", "STATE", "WAITING", "SERVER", "EVENTS"], rows, screen) if rows else ["no webhooks"]


ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}", re.ASCII)
LONGEST_TOKEN: Final = 4096
STEERING: Final = ("PYTHON", "LD_", "DYLD_")
"""Prefixes of environment variables that would make the Python of this program load other code."""

NODE_VERBS: Final = Subcommands(
    "node",
    (
        *generated("node")[:1],
        Subcommand("add", "Add a node that the project file does not define"),
        *generated("node")[1:],
    ),
    required=False,
)
KEYS: Final = ("host", "image", "container", "pod", "namespace", "address", "command")


def configure_node(parser: argparse.ArgumentParser) -> None:
    about = "run as a node of the kernel that created this token; - reads standard input"
    parser.add_argument("--join", metavar="JOIN_TOKEN", help=about)
    about = "run as a node over standard input and output (used by the kernel)"
    parser.add_argument("--project-id", metavar="ID", help=about)
    NODE_VERBS.configure(parser)


def run_node(context: Context) -> int:
    if context.args.verb is None:
        become_node(context)
    return NODE_VERBS.run(context)


def become_node(context: Context) -> NoReturn:
    """Replace this process by a node process. Raises Failure (usage)."""
    args = context.args
    if (args.join is None) == (args.project_id is None):
        raise Failure("usage", "VERB is missing", "list nodes: awk node list; join as a node: --join JOIN_TOKEN")
    state = os.path.join(context.environ.get(HOME) or os.path.expanduser("~/.agent-worker"), "nodes")
    if args.join is not None:
        token = context.stdin.readline().strip() if args.join == "-" else args.join
        # A pipe transfers the token, so that the list of processes shows only a dash.
        reading, writing = os.pipe()
        os.write(writing, f"{token}\n".encode("utf-8", "replace")[:LONGEST_TOKEN])
        os.close(writing)
        os.dup2(reading, 0)
        given = ["--join", "-", "--state", os.path.join(state, f"join-{digest(token.encode())[:16]}")]
    else:
        if not ID.fullmatch(args.project_id):
            raise Failure("usage", "invalid project id", "the kernel passes the id when it starts a node")
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
        return ["no nodes: all work runs on this machine"]
    return table(["NODE", "VIA", "STATE", "WORKERS", "LABELS", "SINCE", "WHY"], rows, screen)


def run_node_add(context: Context) -> int:
    args = context.args
    if args.via is not None and args.join:
        raise Failure("usage", "--via and --join cannot be combined", "leave out one of them")
    if args.via is None and not args.join:
        hint = "use --via ssh --host NAME, another engine, or --join"
        raise Failure("usage", "the connection of the node is missing", hint)
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
    return ["added; see its state: awk node list" if added.node is None else f"{added.node.name} {added.node.state}"]
