"""``awk open``: the page of the kernel in a browser, or its address where there is no screen."""

import argparse
import html
import os
import sys
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from interface.cli.context import Context
from interface.cli.output import decode
from interface.cli.parsing import json_flag
from interface.client import new_key
from osfiles.atomic_write import replacing
from protocol.api.tokens import PageKey

REDIRECT: Final = "open.html"
"""In the project's state: the file that the browser is given, closed to others."""
_SCREENS: Final = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
_PAGE: Final = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}">
<title>agent-worker</title>
<p><a href="{url}">agent-worker</a></p>
"""


def configure_open(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--read-only", action="store_true", help="let the page look, and change nothing")
    parser.add_argument(
        "--print", action="store_true", help="print the address, good for one browser in the next minute"
    )
    json_flag(parser)


def run_open(context: Context) -> int:
    body = context.kernel().post("/page/keys", {"read_only": context.args.read_only}, key=new_key())
    if context.wants_json:
        context.out.document(body)
        return 0

    url = decode(body, PageKey).url
    if not context.args.print and has_screen(context.environ) and _show(context, url):
        context.out.note(f"the page is in your browser; if nothing shows: {context.program} open --print")
        return 0
    context.out.lines([url])
    context.out.note("note: good for one browser, in the next minute")
    if context.environ.get("SSH_CONNECTION"):
        port = url.partition("/page")[0].rpartition(":")[2]
        context.out.note(f"note: to open it where you sit: ssh -L {port}:127.0.0.1:{port} THIS-HOST")
    return 0


def has_screen(environ: Mapping[str, str]) -> bool:
    """Return whether a browser could show anything here."""
    return sys.platform == "darwin" or any(environ.get(name) for name in _SCREENS)


def _show(context: Context, url: str) -> bool:
    """Return whether a browser was started with ``url``.

    Its arguments are read by every user of the machine, so it is given a file that only we can read, and that leads
    there. The next one takes its place; the key in it is worth nothing once it was used, and after a minute.
    """
    import webbrowser  # noqa: PLC0415  (looks for browsers as it is imported)

    os.makedirs(context.project.state, 0o700, exist_ok=True)
    path = os.path.join(context.project.state, REDIRECT)
    with replacing(path, beside=f"{path}.{os.getpid()}", sync=False) as file:
        file.write(_PAGE.format(url=html.escape(url)).encode())
    return webbrowser.open(f"file://{quote(path)}")
