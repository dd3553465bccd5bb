"""Loading, warm-up and freezing of a zygote's modules before it forks: only those that the project's agents need.

An SDK takes seconds and 40 MiB. The warm-up plays one streamed reply through each adapter and its SDK with an
in-memory transport, so that lazily created objects exist before the fork. No thread remains, because a process that
forks must have only one.

At the end memory is moved into huge pages, so that each fork copies dozens of table entries instead of thousands; a
page that a child writes is still copied alone. With both SDKs loaded this reduces the cost of an attempt by a third.
Linux 6.1 and later; no effect elsewhere.

Without a zygote each attempt starts a fresh interpreter: 290 ms from spawn to the first frame instead of 8, measured
in alternating runs on a busy machine, and seconds more if it imports a model's SDK.

Measure: ``scripts/bench workers``, and the same with ``AGENT_WORKER_LAUNCHER=exec``, which uses only the keeper.
"""

import ctypes
import gc
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from worker.process_tree import LINUX

_MADV_COLLAPSE: Final = 25
_HUGE_BYTES: Final = 2 * 1024 * 1024


def collapse_huge_pages() -> int:
    """Move memory into huge pages, after loading and before the first fork. Returns the number of huge pages."""
    if not LINUX:
        return 0
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return sum(madvise(start, _HUGE_BYTES, _MADV_COLLAPSE) == 0 for start in list(_candidates()))


def _candidates() -> Iterator[int]:
    with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
        for line in maps:
            span, access, _offset, _device, inode, *name = line.split(maxsplit=5)
            if access != "rw-p" or inode != "0" or (name and name[0].strip() != "[heap]"):
                continue
            first, last = (int(address, 16) for address in span.split("-"))
            yield from range(-(-first // _HUGE_BYTES) * _HUGE_BYTES, last - _HUGE_BYTES + 1, _HUGE_BYTES)


_BASE: Final = ("worker.main",)
_FOR_MODELS: Final = ("trio", "worker.io.trio_io")
"""Modules that adapters need. A project with only scripts needs no event loop."""

PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "program": ("worker.backends.attempt",),
    "tools": ("worker.tools.commands", "worker.tools.files", "worker.tools.skill"),
    "servers": ("worker.mcp_servers",),
}
"""Part of a worker -> its modules: other programs, the worker's own tools, and an agent's MCP servers."""

ADAPTERS: Final[Mapping[str, str]] = {"anthropic": "worker.models.anthropic", "openai": "worker.models.openai"}
"""SDK -> module of its adapter, whose ``warm`` plays one reply in memory."""


def load(names: frozenset[str]) -> None:
    """Import and warm the modules of ``names`` (ADAPTERS, PARTS); unknown names load only the base.

    Import errors are reported and ignored: the worker that needs the module fails with the same error.
    """
    for module in _BASE:
        _attempt(module, partial(importlib.import_module, module))
    _attempt("worker.fork.warmup", partial(_call, "worker.fork.warmup", "warm_up_keeper"))
    _attempt("worker.fork.warmup", partial(_call, "worker.fork.warmup", "warm_up"))
    adapters = names & ADAPTERS.keys()
    parts = names & PARTS.keys()
    if adapters or parts:
        for module in _FOR_MODELS:
            _attempt(module, partial(importlib.import_module, module))
        _attempt("worker.fork.warmup", partial(_call, "worker.fork.warmup", "warm_up_trio"))
    for name in sorted(adapters):
        _attempt(name, partial(_call, ADAPTERS[name], "warm"))
    for module in (module for part in sorted(parts) for module in PARTS[part]):
        _attempt(module, partial(importlib.import_module, module))


def freeze() -> None:
    """Exclude all live objects from garbage collection: a collection in a worker would copy shared pages."""
    gc.collect()
    gc.disable()
    gc.freeze()
    collapse_huge_pages()
    threads = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 1
    if threads != 1:
        sys.stderr.write(f"zygote: {threads} threads at fork; preloading must leave one\n")


def _attempt(what: str, step: Callable[[], object]) -> None:
    try:
        step()
    except Exception as error:  # noqa: BLE001  (third-party code at import: forking must work in any case)
        sys.stderr.write(f"zygote: cannot preload {what}: {type(error).__name__}: {error}\n")


def _call(module: str, function: str) -> None:
    getattr(importlib.import_module(module), function)()
