"""Titles of our processes in ps and top. They are for people; nothing reads them back."""

from collections.abc import Callable
from importlib.machinery import PathFinder
from typing import Any


def _native() -> Callable[[str], None]:
    """The extension alone: its package imports logging, and so threading, whose hook copies 110 pages at a fork."""
    package = PathFinder.find_spec("setproctitle")
    spec = PathFinder.find_spec("_setproctitle", package.submodule_search_locations) if package else None
    if spec is None or spec.loader is None:
        from setproctitle import setproctitle  # noqa: PLC0415

        return setproctitle
    module: Any = spec.loader.create_module(spec)
    spec.loader.exec_module(module)
    native: Callable[[str], None] = module.setproctitle
    return native


_set: Callable[[str], None] = _native()


def set_title(role: str, what: str = "") -> None:
    """Name this process, for example ``agent-worker: keeper i7-2``."""
    _set(f"agent-worker: {role} {what}".rstrip())
