"""The ``guard`` key of a workflow and of the project file: what becomes of what agents know, and of who they are."""

from typing import Literal

import msgspec

from protocol.agent import Rule
from protocol.budget import AgentBudget

SoulEvolution = Literal["propose", "auto", "disabled"]


class GuardSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The guard of agents' knowledge and identity. A workflow's ``guard`` stands for the project's."""

    soul_evolution: SoulEvolution = "propose"
    """What becomes of a change that an agent suggests of its own soul. ``propose``: it waits for a person. ``auto``: it
    is taken at once, and can be rolled back. ``disabled``: none may be suggested."""
    model: str | None = None
    """A model for the guard, better a cheap one. Unset: nothing is judged by a model, and ``auto_store`` and
    ``llm_curation`` do nothing. Set, it sums up what ``memory_ask`` finds, too. What it says badly, or not at all,
    changes nothing."""
    provider: str | None = None
    """The name of the endpoint and key to use, where the model's prefix does not say it."""
    auto_store: bool = False
    """After a run the model looks for decisions, patterns and work that agents should remember, and puts them into
    their trays, where they wait for a person, their owner or a vote."""
    llm_curation: bool = False
    """The model looks at what agents write into their memory before it is there: whether it is worth keeping, and in
    which tier. Where it does not answer within 20 seconds it is written as the agent asked."""
    budget: AgentBudget | None = None
    """What the guard of a workspace may spend: its own, beside that of the run."""
    mock: tuple[Rule, ...] = ()
    """A script for a ``mock/...`` model, as an agent's."""
