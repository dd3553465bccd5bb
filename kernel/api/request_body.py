"""Bodies of requests: read whole, bounded in bytes and in time, once for every route."""

from collections import Counter
from typing import Final

import trio

from kernel.api.asgi import Fields, Message, Receive
from kernel.api.authentication import ADMIN_NAME
from protocol.errors import Refused

LIMIT_BYTES: Final = 4 * 1024 * 1024
PATIENCE_SECONDS: Final = 30.0
"""For a whole body (fault HF09)."""
UNCOUNTED_BYTES: Final = 64 * 1024
"""Free for each body: nobody's message waits for somebody else's megabytes."""
ADMIN_BYTES: Final = 12 * 1024 * 1024
ATTEMPTS_BYTES: Final = 12 * 1024 * 1024
"""For the unfinished bodies of one side together, so that neither can keep the other's out."""
EACH_ATTEMPT_BYTES: Final = 8 * 1024 * 1024


class ClientGone(Exception):
    """The client went away before its body was complete: there is nobody to answer."""


class Bodies:
    """The bodies that are being read, and the bound on what they take together until they are whole (promise P10)."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        """Bytes by holder of the token."""

    async def read(self, receive: Receive, content_length: bytes | None, holder: str) -> bytes:
        """The whole body of ``holder``'s request. Raises Refused (too_large, busy, bad_request) and ClientGone."""
        if content_length is not None and content_length.isdigit() and int(content_length) > LIMIT_BYTES:
            raise _too_large()
        body = bytearray()
        counted = 0
        try:
            with trio.move_on_after(PATIENCE_SECONDS):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGone
                    body += message.get("body", b"")
                    if len(body) > LIMIT_BYTES:
                        raise _too_large()
                    more = bool(message.get("more_body", False))
                    if more and len(body) > UNCOUNTED_BYTES:
                        size = len(body) - counted
                        held = self._held
                        if holder == ADMIN_NAME:
                            fits = held[holder] + size <= ADMIN_BYTES
                        else:
                            of_attempts = held.total() - held[ADMIN_NAME]
                            fits = held[holder] + size <= EACH_ATTEMPT_BYTES and of_attempts + size <= ATTEMPTS_BYTES
                        if not fits:
                            raise Refused(
                                "busy",
                                "too many large bodies are under way and unfinished",
                                hint="try again in a moment",
                            )
                        held[holder] += size
                        counted = len(body)
                return bytes(body)
        finally:
            self._held[holder] -= counted
            if not self._held[holder]:
                del self._held[holder]
            body.clear()  # who is told why it was refused keeps our frames for as long
        raise Refused("bad_request", f"the body did not arrive within {PATIENCE_SECONDS:g} s")


def check_no_body(fields: Fields) -> None:
    """Raise Refused where a request without a token brings a body: nothing of it is kept."""
    if fields.get(b"content-length", b"0").strip(b"0") or b"transfer-encoding" in fields:
        raise Refused("bad_request", "this takes no body")


def _too_large() -> Refused:
    return Refused(
        "too_large", f"the body is larger than {LIMIT_BYTES} bytes", hint="keep what is long in a file and name it"
    )


def replay(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that gives ``body`` first, then what the connection gives (its end)."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return pending.pop() if pending else await receive()

    return receive_again
