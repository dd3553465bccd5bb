"""Modules that hypercorn imports and this kernel never uses: HTTP/2, and hypercorn's own processes.

They are replaced while the kernel is imported, which saves 40 modules and 3 MiB.
"""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import ModuleType
from typing import Final

UNUSED: Final = ("h2", "h2.events", "hypercorn.protocol.h2", "hypercorn.trio.run", "multiprocessing.synchronize")


class UnusedModule(ModuleType):
    """Module in which every name is a plain class."""

    def __getattr__(self, name: str) -> type:
        """Return ``object``."""
        return object


@contextmanager
def skip_unused_modules() -> Generator[None]:
    """Replace the modules that are not yet imported, for the imports of the block."""
    replaced = {name: UnusedModule(name) for name in UNUSED if name not in sys.modules}
    sys.modules.update(replaced)
    try:
        yield
    finally:
        for name in replaced:
            del sys.modules[name]
