"""Change of the model after a failure: requeue the instruction and close the model, in one commit."""

from typing import Final

import msgspec

from kernel.policy.circuit_breaker import keys_of
from kernel.policy.fallback import LONGEST_SECONDS, TRIES, ModelChoice, availability, closed, fallback_cause, reset_ms
from kernel.policy.retry import AttemptFailure
from kernel.store.attempts import held
from kernel.store.circuit_breakers import breaker, close_model, shut_for
from kernel.store.transaction import Transaction, optional_rfc3339
from kernel.store.transitions.requeue import Requeue, requeue


class ModelFailure(msgspec.Struct, frozen=True):
    """Failure of an attempt whose agent has a list of models. ``ends``: without a list, the instruction would end."""

    failure: AttemptFailure
    choice: ModelChoice
    ends: bool
    throttled_seconds: float


# Failures of the same model since the last entry, before this one, and how many of them were charged.
TRIED: Final = """
SELECT count(*), coalesce(sum(outcome <> 'rate_limited'), 0) FROM attempts
WHERE instruction = :id AND epoch < :epoch AND model = :model AND outcome IN ('rate_limited', 'overloaded', 'network')
  AND epoch >= coalesce((SELECT max(epoch) FROM entries WHERE instruction = :id), 0)
"""


def fall_back(tx: Transaction, instruction: str, epoch: int, failed: ModelFailure, back: Requeue) -> bool:
    """Requeue the instruction without a charge for another model, and close the failed one to all agents.

    If the other models are closed too, the next attempt waits for the one that opens first. Return False without any
    change if the failure is no reason to change the model, or the list cannot help. Raises Refused (stale_attempt).
    """
    row, choice, now_ms = held(tx.conn, instruction, epoch), failed.choice, tx.now_ms
    values = {"id": row.number, "epoch": epoch, "model": choice.option.name}
    before, charged = tx.conn.execute(TRIED, values).fetchone() or (0, 0)
    keys = keys_of(choice.option.endpoint)
    # A failed probe is conclusive.
    probed = any((old := breaker(tx.conn, key)) and old.lasting and old.probe == row.number for key in keys)
    tries = TRIES if probed else int(before) + 1
    cause = fallback_cause(failed.failure, tries, after_seconds=choice.after_seconds, ends=failed.ends)
    key = keys[0] if cause == "quota" else keys[1]
    others = [one for one in choice.options if one != choice.option and key not in keys_of(one.endpoint)]
    shut = [shut_for(tx.conn, keys_of(one.endpoint), row.agent) for one in others]
    found = [availability(one, now_ms, choice.after_seconds) for one in shut]
    to = next((one.name for one, its in zip(others, found, strict=True) if its.opens_ms == 0), None)
    if cause is None or (to is None and (cause == "model" or failed.throttled_seconds >= LONGEST_SECONDS)):
        return False
    until_ms = reset_ms(failed.failure, now_ms)
    said = {"from": choice.option.name, "to": to, "cause": cause, "until": optional_rfc3339(until_ms)} if to else None
    requeue(tx, instruction, epoch, msgspec.structs.replace(back, change=said, refund=int(charged)))
    close_model(tx, closed(breaker(tx.conn, key), key, cause, until_ms, now_ms))
    return True
