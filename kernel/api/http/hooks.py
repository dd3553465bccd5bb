"""Hooks in: messages from programs that have no token, and sign what they send.

What came is data of a stranger's, and prompts quote it as such (class ``web``). A name that nobody gave, a hook that
is not trusted and a wrong signature have one answer, so nobody learns which hooks there are.
"""

import hashlib
import logging
from functools import cache
from typing import Final

import msgspec

from kernel.agents.webhooks import incoming_unit, signing_key
from kernel.api.http.messages import OutsideMessage, deliver, receipt_of
from kernel.api.http.route import Request
from kernel.operations.context import ProjectFiles, StoreAccess
from kernel.policy.webhooks import is_genuine
from kernel.store.idempotency import RequestKey
from protocol.api.messages import SendReceipt
from protocol.errors import Refused
from protocol.message import HOOK
from protocol.ndjson import reject_duplicate_keys
from protocol.project import IncomingHook
from protocol.target import find_mentions

_NOBODYS_KEY: Final = bytes(32)
"""A name that is not known costs as much time as one that is."""

logger = logging.getLogger(__name__)


async def receive(call: Request[None], store: StoreAccess, files: ProjectFiles) -> SendReceipt:
    """POST /hooks/:name: signed as Standard Webhooks has it; its id is the idempotency key."""
    name, signed = call.args["name"], call.signed
    assert signed is not None, "the route says that it is signed"
    hook = files.catalog.kept_project().hooks.get(name)
    key = None if hook is None else _key(name, hook, files)
    genuine = is_genuine(key or _NOBODYS_KEY, signed, store.now_ms() // 1000)
    if hook is None or key is None or not genuine:
        raise Refused("bad_signature", "there is no hook that this request was signed for")
    text, mentions = said_by(signed.body)
    said = OutsideMessage(hook.to, text, sender=f"{HOOK}{name}", mentions=mentions)
    once = RequestKey(said.sender, signed.id, hashlib.sha256(signed.body).digest())
    return receipt_of(store, await deliver(store, files, said, once, files.trust.request(False, ())))


def _key(name: str, hook: IncomingHook, files: ProjectFiles) -> bytes | None:
    """The key of a hook that may be used; None: it is as if there were none, and the log says why."""
    key = files.trust.fault(incoming_unit(name, hook)) or signing_key(hook.secret, files.environ)
    if isinstance(key, str):
        _tell_once(name, key)
        return None
    return key


@cache
def _tell_once(name: str, why: str) -> None:
    logger.warning("hook.unusable %s: %s", name, why)


def said_by(body: bytes) -> tuple[str, tuple[str, ...]]:
    """The words of ``body`` and whom they wake: its ``text``, or all of it. Raises DecodeError, DuplicateKey.

    Only ``text`` can wake whom it mentions: a name somewhere in data was not meant to.
    """
    value = msgspec.json.decode(body)
    reject_duplicate_keys(body)
    text = value.get("text") if isinstance(value, dict) else None
    if isinstance(text, str) and text.strip():
        return text, find_mentions(text)
    return msgspec.json.format(body, indent=0).decode(), ()
