"""Page: its static files, the one-time key that opens it, and the token in exchange for the key.

The files belong to another package, which this one does not import: they are found by their path and read once. They
contain no data of the project, so they need no token. The page is an ordinary client, whose data comes from the API.
"""

import hashlib
from functools import cache
from pathlib import Path
from typing import Annotated, Final

import msgspec
import trio

from kernel.operations.answers import KEY_SECONDS, Response
from kernel.operations.context import KernelControl, StoreAccess
from kernel.operations.operation import Actor, operation
from kernel.store import tokens
from kernel.store.transaction import rfc3339
from protocol.api.document import Ask
from protocol.api.tokens import PageKey, PageKeyRequest, PageProject, PageToken, PageTokenRequest, TokenScope
from protocol.errors import Refused

FILES: Final = Path(__file__).parents[2] / "interface/web"
INDEX: Final = "index.html"
VENDOR: Final = "vendor/"
"""Folder of the libraries. Their versions and digests are in its VENDORED.json."""
CLASSIC: Final = "vendor/uPlot.js"
"""The only script that is no module."""
TYPES: Final = {
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".json": b"application/json",
    ".txt": b"text/plain; charset=utf-8",
}
POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    b"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Content security policy against markup in messages: scripts, frames and other hosts are blocked by the browser."""
HEADERS: Final = (
    (b"cache-control", b"no-cache"),
    (b"content-security-policy", POLICY),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)

TOKEN_SECONDS: Final = 12 * 3600
"""Lifetime of a page's token: one working day."""
TOKEN_NAME: Final = "page"
READER: Final[tuple[TokenScope, ...]] = ("read",)
OWNER: Final[tuple[TokenScope, ...]] = ("read", "operate", "approve")


@cache
def files() -> dict[str, Response]:
    """Return all files by name, read at once, so that an update during the kernel's life does not mix versions."""
    found: dict[str, Response] = {}
    paths = {path.relative_to(FILES).as_posix(): path for path in sorted(FILES.rglob("*")) if path.is_file()}
    styles = [f"</page/{name}>; rel=preload; as=style" for name in paths if name.endswith(".css")]
    modules = [f"</page/{name}>; rel=modulepreload" for name in paths if name.endswith(".js") and name != CLASSIC]
    for name, path in paths.items():
        content_type = TYPES.get(path.suffix)
        if content_type is not None:
            content = path.read_bytes()
            etag = b'"%s"' % hashlib.sha256(content).hexdigest()[:32].encode()
            # Styles first, because nothing is rendered without them. All modules at once: the
            # browser would find each one only in the module that imports it.
            linked = ((b"link", ", ".join(styles + modules).encode()),) if name == INDEX else ()
            found[name] = Response(200, content, content_type, (*HEADERS, *linked, (b"etag", etag)))
    return found


class FileRequest(Ask, frozen=True, kw_only=True):
    """A file of the page."""

    name: Annotated[str, msgspec.Meta(description="Name of the page.")]


def index(actor: Actor) -> Response:
    """Return the HTML of the page. The page exchanges a key for a token, and requests its data with the token."""
    return file(FileRequest(name=INDEX), actor)


def file(asked: FileRequest, actor: Actor) -> Response:
    """Return a script, style or image of the page, or 304 if the client's copy is current."""
    found = files().get(asked.name)
    if found is None:
        raise Refused("not_found", "page file not found")
    etag = found.headers[-1][1].decode()
    if etag in [one.strip().removeprefix("W/") for one in actor.known.split(",")]:
        return Response(304, b"", found.content_type, found.headers)
    return found


def vendored(asked: FileRequest, actor: Actor) -> Response:
    """Return a file of a library that the page uses, or its license."""
    return file(FileRequest(name=VENDOR + asked.name), actor)


async def make_key(asked: PageKeyRequest, store: StoreAccess, kernel: KernelControl) -> PageKey:
    """Create a one-time key for a token of the page. The key is valid for one minute and shown only in this answer."""
    key = store.salt() + store.salt()
    kernel.keys.page.offer(key, trio.current_time(), read_only=asked.read_only)
    until = store.now_ms() + int(KEY_SECONDS * 1000)
    # The part after # is never sent in requests, logs or referrers.
    return PageKey(key=key, url=f"{kernel.identity.url}/page#key={key}", expires_at=rfc3339(until))


async def trade_key(asked: PageTokenRequest, store: StoreAccess, kernel: KernelControl) -> PageToken:
    """Exchange a key for a token of the page. The token survives restarts of the kernel and expires after one working
    day."""
    read_only = kernel.keys.page.take(asked.key, trio.current_time())
    scopes = READER if read_only else OWNER
    until, root = store.now_ms() + TOKEN_SECONDS * 1000, kernel.identity.project
    made = await store.writer.commit(tokens.create, scopes[-1], TOKEN_NAME, store.salt() + store.salt(), until)
    return PageToken(
        id=made.id,
        token=made.token,
        scope=scopes[-1],
        scopes=scopes,
        project=PageProject(name=Path(root).name, root=root),
        version=kernel.identity.version,
        expires_at=rfc3339(until),
    )


OPERATIONS = (
    operation(index, "GET /page", open=True, file=True),
    operation(file, "GET /page/<name>", open=True, file=True),
    operation(vendored, "GET /page/vendor/<name>", open=True, file=True),
    operation(make_key, "POST /page/keys", status=201, scope="admin", body_optional=False, secret=True),
    operation(trade_key, "POST /page/token", status=201, keyed=True),
)
