"""The ``guard`` key of a workflow and of the project file: what becomes of what agents know, and of who they are."""

from typing import Literal

import msgspec

SoulEvolution = Literal["propose", "auto", "disabled"]


class GuardSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What looks after the knowledge and the identity of agents. A workflow's ``guard`` stands for the project's."""

    soul_evolution: SoulEvolution = "propose"
    """What becomes of a change that an agent suggests of its own soul. ``propose``: it waits for a person. ``auto``: it
    is taken at once, and can be rolled back. ``disabled``: none may be suggested."""
