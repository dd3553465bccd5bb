"""Outgoing webhooks: deliver events to the user's servers after their commit.

Each webhook has a cursor into the event log, so events need no extra writes, and a new kernel continues where the last
one stopped. Failed deliveries are stored beside the cursor and retried without delaying others. An event may arrive
late or twice (with the same id); it is given up only when its last retry has failed or retention has deleted it.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import Final

import msgspec
import trio

from kernel.agents.sections import EVERY, host_of, outgoing_unit, signing_key
from kernel.agents.trust import TrustedFiles
from kernel.policy.webhooks import DeliveryVerdict, is_public, payload, rest_seconds, signature_of, verdict_of
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
"""Events that are never delivered, because each failure would cause another delivery."""
WAKING: Final = frozenset(DURABLE) - OWN
GATHER_SECONDS: Final = 0.2
"""Delay after an event, to collect related ones."""
LOOK_SECONDS: Final = 10.0
"""Interval of checks of the project file and its trust."""


class Webhooks(msgspec.Struct, eq=False, kw_only=True):
    """Delivers events to the trusted webhooks of the project file; a slow server delays only its own deliveries.

    ``project`` distinguishes ids of this log from ids of other logs.
    """

    log: StoreLog
    files: TrustedFiles
    wake: Wake
    url: str
    project: str
    deliver: Post = post
    _busy: set[str] = set()
    _again: set[str] = set()
    """Busy webhooks with new events."""
    _warn_once: Callable[[str, str], None] = msgspec.field(
        default_factory=lambda: cache(partial(logger.warning, "webhook.unusable %s: %s"))
    )
    _seen: dict[str, int] = {}
    """Event of each webhook up to which nothing is left to deliver; stored with the next delivery."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Deliver until cancelled; reports its start once each webhook has a cursor."""
        async with trio.open_nursery() as nursery:
            while True:
                self.wake.clear()
                hooks: dict[str, tuple[OutgoingHook, bytes]] = {}
                with suppress(Refused):  # full disk: retried later
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
        """Return the trusted webhooks with their signing keys, by digest.

        The store has a cursor for each trusted webhook, also without a key, so that its deliveries wait for the key.
        """
        found: dict[str, tuple[OutgoingHook, bytes]] = {}
        trusted: set[str] = set()
        for hook in self.files.catalog.kept_project().webhooks:
            wanted = outgoing_unit(hook)
            fault = self.files.trust.fault(wanted)
            key = fault or signing_key(hook.secret, self.files.environ)
            if fault is None:
                trusted.add(wanted.digest)
            if isinstance(key, str):
                self._warn_once(host_of(hook.url), key)
            else:
                found[wanted.digest] = (hook, key)
        if self.log.reader.now(webhooks.known) != frozenset(trusted):
            await self.log.writer.commit(webhooks.keep, tuple(trusted))
        return found

    def _rest_seconds(self, hooks: Mapping[str, object]) -> float:
        now_ms = self.log.now_ms()
        found = ((digest, self.log.reader.now(webhooks.standing, digest, now_ms)) for digest in hooks)
        retries = {digest: one.next_ms for digest, one in found if one is not None and not one.disabled}
        return min(LOOK_SECONDS, rest_seconds(retries, self._busy, now_ms))

    async def turn(self, digest: str, hook: OutgoingHook, key: bytes) -> bool:
        """Deliver a batch of retries, then a batch of new events; return whether there may be more."""
        standing = await self.log.reader.read(webhooks.standing, digest, self.log.now_ms())
        if standing is None or standing.disabled:
            return False
        for due in standing.due:
            found = await self.log.reader.read(feed.since, due.event - 1, 1)
            if found and found[0].seq == due.event:
                outcome = await self._try(hook, key, found[0], due)
            else:  # the event was deleted
                outcome = DeliveryOutcome(due.event, due.tries, DeliveryVerdict("given_up"), "the event was deleted")
            if not await self._settle(digest, hook, outcome, standing.cursor):
                return False
        cursor, events, more = await self._new(digest, hook, standing)
        for event in events:
            seq = event.seq or 0
            outcome = await self._try(hook, key, event, Due(seq, 0))
            if not await self._settle(digest, hook, outcome, seq):
                return False
            if outcome.verdict.kind != "delivered":
                cursor, more = seq, True  # the rest of the batch has to wait, because retries come first
                break
        self._seen[digest] = cursor
        return more or len(standing.due) == webhooks.BATCH

    async def _settle(self, digest: str, hook: OutgoingHook, outcome: DeliveryOutcome, cursor: int) -> bool:
        """Store an outcome at once, so that a crash repeats one delivery at most; False: the webhook was disabled."""
        await self.log.writer.commit(webhooks.settle, digest, host_of(hook.url), [outcome], cursor)
        self.wake.set()  # schedule the retry
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
