"""Whether a message may set an agent to work: what its file would run needs somebody's trust (promise P19).

The answer is kept for exactly the files it was given for: an edit, however small, has them read again. Without
that, every message would cost the parsing of YAML.
"""

import os
from functools import lru_cache
from pathlib import Path

from kernel.agents.catalog import AGENTS, SUFFIX, Catalog
from kernel.agents.project import PROJECT_FILES
from kernel.agents.trust import demands, require_trust

Signature = tuple[int, int, int, int]
"""What changes with a file's content: modification and change time, size, inode."""


def require_vouched(catalog: Catalog, name: str) -> None:
    """Let a message to ``name`` pass if its file asks for nothing that needs trust.

    Raises Refused (untrusted), and BadDefinition where the file is wrong. An agent without a file passes.
    """
    own = _signature(catalog.root / AGENTS / f"{name}{SUFFIX}")
    if own is not None:
        project = tuple(_signature(catalog.root / file) for file in PROJECT_FILES)
        require_trust(_demands(catalog.root, name, own, project), trusted=False)


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
