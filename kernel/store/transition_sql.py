"""Renders the statements that change a state from the table of allowed steps (kernel.policy.instruction_states).

The states stand in a statement as literals and not as parameters, because SQLite uses a partial index only where it can
see at the time of preparing that the condition of the index holds.
"""

import re
from collections.abc import Sequence
from typing import Final, cast

from kernel.policy import instruction_states
from kernel.policy.instruction_states import DeliveryStep, Step

FRAGMENTS: Final = {
    "{wait}": "waits_for = :waits_for, wait_key = :wait_key, not_before_ms = :not_before, parked_ms = :now",
    "{no_wait}": "waits_for = NULL, wait_key = NULL, not_before_ms = 0",
}
"""Assignments of a wait, for statements that change the state in the same breath; all others are in
kernel.store.waits."""

STEP: Final = re.compile(r"\{(before )?(\w+)\}")


def instruction_sql(template: str) -> str:
    """Render a statement on instructions: ``{lease}`` is the state that the step leads to, ``state {before lease}``
    the condition that it may be made, ``{wait}`` and ``{no_wait}`` are assignments of FRAGMENTS."""
    for name, text in FRAGMENTS.items():
        template = template.replace(name, text)

    def rendered(found: re.Match[str]) -> str:
        step = cast(Step, found[2])
        return _among(instruction_states.sources(step)) if found[1] else f"'{instruction_states.target(step)}'"

    return STEP.sub(rendered, template)


def delivery_sql(template: str) -> str:
    """Render a statement on deliveries, as instruction_sql does."""

    def rendered(found: re.Match[str]) -> str:
        step = cast(DeliveryStep, found[2])
        if found[1]:
            return _among(instruction_states.delivery_sources(step))
        return f"'{instruction_states.delivery_target(step)}'"

    return STEP.sub(rendered, template)


def _among(states: Sequence[str]) -> str:
    literals = ", ".join(f"'{state}'" for state in states)
    return f"= {literals}" if len(states) == 1 else f"IN ({literals})"
