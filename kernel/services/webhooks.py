"""Hooks out: tells servers of the user's what happened, after it was committed.

Each webhook has a cursor into the log of events: nothing is written for it where something happens, and a kernel that
was killed goes on where it was. What fails is kept beside the cursor and tried again, so one bad delivery holds up no
other. A server may be told an event twice (with the same id), and late, but it is not left out.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Final

import msgspec
import trio

from kernel.agents.sections import EVERY, host_of, outgoing_unit, signing_key
from kernel.agents.trust import TrustedFiles
from kernel.policy.webhooks import DeliveryVerdict, is_public, payload, signature_of, verdict_of
from kernel.services.signed_post import Post, PostRequest, Unreached, post
from kernel.store import feed, webhooks
from kernel.store.feed import EVERYTHING, EventFilter, Wake
from kernel.store.webhooks import DeliveryOutcome, Due, WebhookStatus
from kernel.store.writer import StoreLog
from protocol.errors import Refused
from protocol.message import DURABLE, Event
from protocol.project import OutgoingHook
from protocol.text import encode_json

logger = logging.getLogger(__name__)

OWN: Final = frozenset({"webhook.failed", "webhook.disabled"})
"""Told to no webhook: each failure would make another delivery."""
WAKING: Final = frozenset(DURABLE) - OWN
GATHER_SECONDS: Final = 0.2
"""After an event, for those that come with it."""
LOOK_SECONDS: Final = 10.0
"""Until the project file and the trust in it are looked at again."""


class Webhooks(msgspec.Struct, eq=False, kw_only=True):
    """Delivers events to the webhooks of the project file that are trusted. A slow server holds up only itself.

    ``project`` tells ids of this log from those of others.
    """

    log: StoreLog
    files: TrustedFiles
    wake: Wake
    url: str
    project: str
    deliver: Post = post
    _busy: set[str] = set()
    _again: set[str] = set()
    """Of those that are busy: something came meanwhile."""
    _warn_once: Callable[[str, str], None] = msgspec.field(default_factory=lambda: cache(_warn))
    _seen: dict[str, int] = {}
    """Of each webhook the event up to which nothing is left for it; the store is told with the next delivery."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Deliver until cancelled. It has started once each webhook has its place in the log."""
        async with trio.open_nursery() as nursery:
            while True:
                self.wake.clear()
                hooks: dict[str, tuple[OutgoingHook, bytes]] = {}
                with suppress(Refused):  # a disk that is full: it looks again
                    hooks = await self.usable()
                task_status.started()
                task_status = trio.TASK_STATUS_IGNORED
                self._again |= hooks.keys() & self._busy
                for digest in hooks.keys() - self._busy:
                    self._busy.add(digest)
                    nursery.start_soon(self._take_turn, digest, *hooks[digest])
                with trio.move_on_after(self._rest_seconds(hooks)):
                    if hooks:
                        await self.wake.wait()
                        await trio.sleep(GATHER_SECONDS)
                    else:
                        await trio.sleep(LOOK_SECONDS)

    async def _take_turn(self, digest: str, hook: OutgoingHook, key: bytes) -> None:
        try:
            while await self.turn(digest, hook, key):
                pass
        except Refused as refused:
            logger.warning("webhook.refused %s", refused.text)
        finally:
            self._busy.discard(digest)
            if digest in self._again:
                self._again.discard(digest)
                self.wake.set()

    async def usable(self) -> dict[str, tuple[OutgoingHook, bytes]]:
        """The webhooks that are trusted and can be signed, by their digests; the store has a cursor for each."""
        found: dict[str, tuple[OutgoingHook, bytes]] = {}
        for hook in self.files.catalog.kept_project().webhooks:
            wanted = outgoing_unit(hook)
            key = self.files.trust.fault(wanted) or signing_key(hook.secret, self.files.environ)
            if isinstance(key, str):
                self._warn_once(hook.url, key)
            else:
                found[wanted.digest] = (hook, key)
        if self.log.reader.now(webhooks.known) != found.keys():
            await self.log.writer.commit(webhooks.keep, tuple(found))
        return found

    def _rest_seconds(self, hooks: Mapping[str, object]) -> float:
        now_ms = self.log.now_ms()
        standings = (self.log.reader.now(webhooks.standing, digest, now_ms) for digest in hooks.keys() - self._busy)
        due = [one.next_ms for one in standings if one is not None and one.next_ms is not None and not one.disabled]
        return min(LOOK_SECONDS, max(0.0, (min(due) - now_ms) / 1000)) if due else LOOK_SECONDS

    async def turn(self, digest: str, hook: OutgoingHook, key: bytes) -> bool:
        """Deliver what is due, then what is new, a batch of each. Returns whether there may be more."""
        standing = await self.log.reader.read(webhooks.standing, digest, self.log.now_ms())
        if standing is None or standing.disabled:
            return False
        for due in standing.due:
            found = await self.log.reader.read(feed.since, due.event - 1, 1)
            if found and found[0].seq == due.event:
                outcome = await self._try(hook, key, found[0], due)
            else:  # it is kept no longer
                outcome = DeliveryOutcome(due.event, due.tries, DeliveryVerdict("given_up"), "the event is gone")
            if not await self._settle(digest, hook, outcome, standing.cursor):
                return False
        cursor, events, more = await self._new(digest, hook, standing)
        for event in events:
            seq = event.seq or 0
            outcome = await self._try(hook, key, event, Due(seq, 0))
            if not await self._settle(digest, hook, outcome, seq):
                return False
            if outcome.verdict.kind != "delivered":
                cursor, more = seq, True  # the rest of the batch is for the next turn: retries come first
                break
        self._seen[digest] = cursor
        return more or len(standing.due) == webhooks.BATCH

    async def _settle(self, digest: str, hook: OutgoingHook, outcome: DeliveryOutcome, cursor: int) -> bool:
        """Store one outcome at once, so that a kernel that dies repeats one delivery at most. False: it has ended."""
        await self.log.writer.commit(webhooks.settle, digest, host_of(hook.url), [outcome], cursor)
        self.wake.set()  # what failed has a time of its own now
        return outcome.verdict.kind != "disabled"

    async def _new(
        self, digest: str, hook: OutgoingHook, standing: WebhookStatus
    ) -> tuple[int, tuple[Event, ...], bool]:
        cursor = max(standing.cursor, self._seen.get(digest, 0))
        if standing.full:
            return cursor, (), False
        newest = self.log.reader.now(feed.event_range).newest
        wanted = EVERYTHING if EVERY in hook.events else EventFilter(type=",".join(hook.events))
        batch = await self.log.reader.read(feed.since, cursor, webhooks.BATCH, wanted)
        full = len(batch) == webhooks.BATCH
        upto = (batch[-1].seq or 0) if full else max([cursor, newest, *(event.seq or 0 for event in batch)])
        return upto, tuple(event for event in batch if event.type not in OWN), full

    async def _try(self, hook: OutgoingHook, key: bytes, event: Event, due: Due) -> DeliveryOutcome:
        body = encode_json(payload(event, self.url))
        id_, timestamp = f"evt_{self.project}_{due.event}", str(self.log.now_ms() // 1000)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "agent-worker",
            "webhook-id": id_,
            "webhook-timestamp": timestamp,
            "webhook-signature": signature_of(key, id_, timestamp, body),
        }
        status: int | None = None
        try:
            status = await self.deliver(
                PostRequest(hook.url, headers, body), lambda address: hook.allow_private or is_public(address)
            )
            why = f"status {status}"
        except Unreached as unreached:
            why = str(unreached)
        verdict = verdict_of(status, due.tries)
        if verdict.kind != "delivered":
            logger.warning("webhook.%s %s: event %d, %s", verdict.kind, host_of(hook.url), due.event, why)
        return DeliveryOutcome(due.event, due.tries, verdict, why)


def _warn(url: str, why: str) -> None:
    logger.warning("webhook.unusable %s: %s", host_of(url), why)
