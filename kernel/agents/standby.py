"""The ``standby`` key of the project file: what is wrong with it, and what it demands of the user.

All that was said and done is written to another folder by it, so it needs trust.
"""

import os

from kernel.agents.definition import place_at
from kernel.source.diagnostics import Diagnostics
from kernel.source.yaml_tree import MapNode
from protocol.project import ProjectDefinition, StandbySettings
from protocol.trust import TrustUnit, unit


def standby_unit(settings: StandbySettings) -> TrustUnit:
    """The demand of a standby: another folder is another demand."""
    return unit("standby", (f"all that is said and done, and what agents keep, is copied to {settings.to}",))


def standby_units(project: ProjectDefinition) -> tuple[TrustUnit, ...]:
    """The demands of the ``standby`` key."""
    return () if project.standby is None else (standby_unit(project.standby),)


def check_standby_key(definition: ProjectDefinition, node: MapNode, problems: Diagnostics) -> None:
    """Note what is wrong with the ``standby`` key of ``definition``, which was converted from ``node``."""
    settings = definition.standby
    if settings is None:
        return
    to = settings.to
    plain = os.path.isabs(to) and os.path.normpath(to) == to.rstrip("/") and to.isprintable() and len(to) <= 1000
    if not plain or to == "/":
        hint = "write the whole path of a folder that another machine sees, too: /mnt/nas/awk"
        problems.add(place_at(node, "standby.to"), "standby.to", "is not the whole path of a folder", hint)
