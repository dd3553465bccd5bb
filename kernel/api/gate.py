"""Who may knock at all: the Host and Origin check, before anything else looks at a request (promise P17).

A page that rebinds its name to 127.0.0.1 sends its own name as Host, and a foreign page sends its Origin. Neither
needs a token to be harmful, so the answer is the same with and without one.
"""

from kernel.api.asgi import Fields
from protocol.errors import Refused


class Gate:
    """The exact authorities (``127.0.0.1:4711``) that requests may name."""

    def __init__(self, authorities: frozenset[str]) -> None:
        self._hosts = frozenset(name.encode() for name in authorities)
        self._origins = frozenset(b"http://" + host for host in self._hosts)

    def check(self, fields: Fields) -> None:
        """Let the request pass. Raises Refused (forbidden_host, forbidden_origin)."""
        if fields.get(b"host") not in self._hosts:
            raise Refused("forbidden_host", "this server answers only to its own loopback address")
        origin = fields.get(b"origin")
        if origin is not None and origin not in self._origins:
            raise Refused("forbidden_origin", "pages of other origins may not talk to this server")
