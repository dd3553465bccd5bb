"""How an attempt's conversation opens: with the prompt that its first entry answered, or with one made today.

A prompt is frozen with the first durable entry, and every later attempt is told the same (contracts.md section 9).
Entries that were made for another backend or dialect cannot be replayed, nor those of a program whose own session is
lost or full: then it begins anew, with a ledger of what was done. It knows nothing of workers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from kernel.agents.ledger import ledger
from kernel.agents.prompt import Prompt
from kernel.agents.providers import Resolved
from kernel.store import entries, prompts
from kernel.store.commits.freeze import Freeze
from kernel.store.commits.lease import Leased
from kernel.store.prompts import FrozenPrompt
from kernel.store.reader import Reader
from protocol.backends import BACKENDS
from protocol.ipc import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A prompt and the entries that answer it. ``source_text`` is what mock rules match on.

    ``first_k`` is the number that the first of them has; ``earlier_steps`` of them were another instruction's.
    ``freeze`` is set where the prompt is to be kept with the first entry of this attempt.
    """

    prompt: FrozenPrompt
    source_text: str
    entries: tuple[Entry, ...] = ()
    first_k: int = 0
    earlier_steps: int = 0
    freeze: Freeze | None = None


def opening(
    leased: Leased, backend: str, resolved: Resolved, reader: Reader, assemble: Callable[[], Prompt]
) -> Opening:
    """The opening of one attempt. ``assemble`` makes today's prompt; it is asked only where that is told."""
    dialect = resolved.provider.dialect if resolved.provider else ""
    kept = reader.now(prompts.prompt_of, leased.instruction) if leased.entries else None
    source = leased.source_text if leased.continues is None else reader.now(prompts.origin_text, leased.instruction)
    anew = leased.compacted and BACKENDS[backend].own_session
    if kept is not None and (kept.backend, kept.dialect) == (backend, dialect) and (kept.anew or not anew):
        return _resumed(leased, kept, reader)
    done = reader.now(entries.of, leased.instruction) if kept is not None else ()
    prompt = _frozen(assemble(), done, source, backend, dialect, resolved.model)
    prompt = msgspec.structs.replace(prompt, anew=anew)
    if kept is not None:
        return Opening(
            prompt=prompt, source_text=source, first_k=leased.entries, freeze=Freeze(prompt, aside=leased.entries)
        )
    # Entries without a prompt: an older program wrote them. Today's prompt is the best there is.
    written = reader.now(entries.of, leased.instruction) if leased.entries else ()
    return Opening(
        prompt=prompt,
        source_text=source,
        entries=written,
        earlier_steps=leased.carried_steps,
        freeze=Freeze(prompt),
    )


def _resumed(leased: Leased, kept: FrozenPrompt, reader: Reader) -> Opening:
    first = reader.now(prompts.set_aside, leased.instruction)
    return Opening(
        prompt=kept,
        source_text=kept.source_text or kept.message,
        entries=reader.now(entries.of, leased.instruction, first),
        first_k=first,
        earlier_steps=leased.carried_steps,
    )


def _frozen(made: Prompt, done: Sequence[Entry], source: str, backend: str, dialect: str, model: str) -> FrozenPrompt:
    told = ledger(done)
    message = f"{made.message}\n\n{told}" if told else made.message
    return FrozenPrompt(
        backend=backend,
        dialect=dialect,
        model=model,
        system=made.system,
        messages=made.messages,
        message=message,
        source_text="" if source == message else source,
        manifest=(*made.manifest, *([f"ledger: {len(done)} entries"] if told else [])),
    )
