"""Whether a message may set an agent to work: what its file would run needs somebody's trust (promise P19).

The answer is kept for exactly the files it was given for: an edit, however small, has them read again. Without
that, every message would cost the parsing of YAML.
"""

import os
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from kernel.agents.catalog import AGENTS, SUFFIX, Catalog
from kernel.agents.project import PROJECT_FILES
from kernel.agents.trust import demands, require_trust
from kernel.api.context import Services
from kernel.store import agents
from protocol.agent import AgentDefinition

Signature = tuple[int, int, int, int]
"""What changes with a file's content: modification and change time, size, inode."""

_definition: Final = msgspec.json.Decoder(AgentDefinition)


def vouched(services: Services, name: str, *, trusted: bool) -> tuple[str, ...]:
    """What a message to ``name`` may have it do, to be kept with its work.

    Whoever makes an agent at run time vouches for it; a file is vouched for by ``trusted``. Raises Refused
    (untrusted), and BadDefinition where the file is wrong.
    """
    root = services.catalog.root
    own = _signature(root / AGENTS / f"{name}{SUFFIX}")
    if own is None:
        return _of_ephemeral(services, name)
    project = tuple(_signature(root / file) for file in PROJECT_FILES)
    found = _demands(root, name, own, project)
    require_trust(found, trusted=trusted)
    return found


def _of_ephemeral(services: Services, name: str) -> tuple[str, ...]:
    record = services.reader.now(agents.row, name)
    if record is not None and record.origin == "file":
        services.catalog.agent(name)  # its file is gone: refused, with the names there are
    if record is None or record.definition is None or record.origin != "ephemeral":
        return ()
    return demands(_definition.decode(record.definition), services.catalog.project())


@lru_cache(maxsize=1024)
def _demands(root: Path, name: str, _own: Signature, _project: tuple[Signature | None, ...]) -> tuple[str, ...]:
    catalog = Catalog(root)
    project = catalog.project()
    return demands(catalog.agent(name, project).definition, project)


def _signature(path: Path) -> Signature | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
