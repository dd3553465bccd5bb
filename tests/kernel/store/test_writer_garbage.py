"""What a refused commit brought is gone with its answer."""

import gc
import weakref

import pytest

from kernel.store.transaction import Transaction
from protocol.errors import Refused
from tests.kernel.store.running_store import Store


class Payload:
    """Something large."""


@pytest.mark.promise("IF15", "HF18")
async def test_what_a_refused_job_was_given_is_gone_with_its_answer(store: Store) -> None:
    def refuse(_tx: Transaction, payload: Payload) -> None:
        raise Refused("conflict", f"no {type(payload).__name__}")

    async def attempt() -> weakref.ref[Payload]:
        payload = Payload()
        with pytest.raises(Refused):
            await store.writer.commit(refuse, payload)
        return weakref.ref(payload)

    await store.writer.commit(lambda _tx: None)
    gc.collect()
    gc.disable()
    try:
        left = await attempt()
        await store.writer.commit(lambda _tx: None)  # the writer's thread has let go of the group before
        assert left() is None
    finally:
        gc.enable()
