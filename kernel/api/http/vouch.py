"""Whether a message may set an agent to work: what its file would run needs somebody's trust (promise P19).

The answer is kept for exactly the files it was given for: an edit, however small, has them read again. Without
that, every message would cost the parsing of YAML.
"""

from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from kernel.agents.belongings import belongings
from kernel.agents.catalog import AGENTS, SUFFIX, Catalog
from kernel.agents.project import PROJECT_FILES
from kernel.agents.trust import Say, agent_units, demands, require_trust
from kernel.api.context import Services
from kernel.source.glance import Signature, signature
from kernel.source.problems import BadDefinition
from kernel.store import agents
from protocol.agent import AgentDefinition
from protocol.project import ProjectDefinition
from protocol.trust import Unit

_definition: Final = msgspec.json.Decoder(AgentDefinition)


def vouched(services: Services, name: str, say: Say) -> tuple[str, ...]:
    """What a message to ``name`` may have it do this time, to be kept with its work.

    Whoever makes an agent at run time vouches for it; what ``say`` says counts for a file. One that is wrong now counts
    as it was when it was right last. Raises Untrusted, and BadDefinition where it never was right.
    """
    try:
        return _vouched(services, name, say)
    except BadDefinition:
        record = services.reader.now(agents.row, name)
        if record is None or record.origin != "file" or record.definition is None:
            raise
        definition = _definition.decode(record.definition)
        return require_trust(_units_of(definition, services.catalog.kept_project(), services.catalog.root), say)


def _vouched(services: Services, name: str, say: Say) -> tuple[str, ...]:
    catalog = services.catalog
    root = catalog.root
    own = signature(f"{root}/{AGENTS}/{name}{SUFFIX}")
    if own is None and name in catalog.names():  # defined elsewhere: by the project file
        return require_trust(_units_of(catalog.agent(name).definition, catalog.project(), root), say)
    if own is None:
        return _of_ephemeral(services, name)
    project = tuple(signature(f"{root}/{file}") for file in PROJECT_FILES)
    return require_trust(_units_of(*_read(root, name, own, project), root), say)


def _of_ephemeral(services: Services, name: str) -> tuple[str, ...]:
    record = services.reader.now(agents.row, name)
    if record is not None and record.origin == "file":
        services.catalog.agent(name)  # its file is gone: refused, with the names there are
    if record is None or record.definition is None or record.origin != "ephemeral":
        return ()
    return demands(_definition.decode(record.definition), services.catalog.project())


@lru_cache(maxsize=1024)
def _read(
    root: Path, name: str, _own: Signature, _project: tuple[Signature | None, ...]
) -> tuple[AgentDefinition, ProjectDefinition]:
    catalog = Catalog(root)
    project = catalog.project()
    return catalog.agent(name, project).definition, project


def _units_of(definition: AgentDefinition, project: ProjectDefinition, root: Path) -> tuple[Unit, ...]:
    """Other files may have a say in it, and are read each time. Raises BadDefinition for them."""
    return agent_units(definition, project, belongings(definition, project, root))
