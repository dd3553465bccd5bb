"""Keep the prompt that an instruction's first entry answers. Part of that entry's commit, never a job of its own."""

from dataclasses import dataclass
from typing import Final

import msgspec

from kernel.store.blobs import put
from kernel.store.prompts import FrozenPrompt
from kernel.store.transaction import Transaction
from protocol.text import encode_json

FREEZE: Final = """
UPDATE instructions SET prefix = :prefix, aside = :aside,
  carried_steps = CASE WHEN :aside > aside THEN 0 ELSE carried_steps END
WHERE id = :id
"""


@dataclass(frozen=True, slots=True)
class Freeze:
    """What to keep with the first entry of an attempt. Entries before ``aside`` belong to another prompt."""

    prompt: FrozenPrompt
    aside: int = 0


def freeze(tx: Transaction, number: int, frozen: Freeze) -> None:
    """Every later attempt of the instruction is told this prompt."""
    prompt = frozen.prompt
    part = put(tx, prompt.system.encode()) if prompt.system else None
    prefix = put(tx, encode_json(msgspec.structs.replace(prompt, system="")), part=part)
    tx.conn.execute(FREEZE, {"id": number, "prefix": prefix, "aside": frozen.aside})
