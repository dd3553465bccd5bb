"""``solo``: the workflow that a team's is compared with, as the text of a file. Runs and writes nothing."""

from pathlib import Path
from typing import Any

import msgspec

from kernel.agents.catalog import Catalog
from kernel.agents.soul import read_soul
from kernel.workflows.load import load_workflow
from kernel.workflows.members import Member
from kernel.workflows.solo import Part, solo_of
from kernel.workflows.workspace import wants_worktrees
from protocol.inspection import SoloWorkflow
from protocol.yaml_writer import document


def solo_workflow(root: Path, asked: str) -> SoloWorkflow:
    """The workflow ``asked`` of the project at ``root``, with one agent in place of all.

    Raises Refused, BadDefinition.
    """
    catalog = Catalog(root, Path.home())
    loaded = load_workflow(catalog, asked)

    def part(member: Member) -> Part:
        definition = member.definition
        managed = None if member.ref is None else read_soul(root, definition)
        return Part(
            member.name,
            definition,
            catalog.system_text(definition, loaded.path),
            definition.soul if managed is None else managed.traits,
        )

    parts = [part(member) for member in loaded.members]
    named = {one.definition.name for one in catalog.survey().loaded}
    solo = solo_of(loaded.definition, parts, named)
    told: dict[str, Any] = msgspec.to_builtins(solo.definition)
    for entry in told["agents"].values():  # its kind is the program's own word, and its name the key
        del entry["entry"], entry["name"]
    return SoloWorkflow(
        path=loaded.path,
        name=loaded.definition.name,
        members=tuple(part.name for part in parts),
        agent=solo.agent.name,
        text=document(told),
        notes=solo.notes,
        trees=wants_worktrees(loaded.definition),
        tokens=loaded.definition.budget.tokens,
        cost_usd=loaded.definition.budget.usd,
    )
