"""A node's account of its machine: size, folders, addresses. Where it is one part of a machine, that part."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from kernel.procs.node.folder import search_path
from protocol.node import NodeFacts
from protocol.version import VERSION

_CGROUP_MEMORY: Final = Path("/sys/fs/cgroup/memory.max")


def gather(state: Path, environ: Mapping[str, str], mcp_url: str) -> NodeFacts:
    """Look at the machine now."""
    return NodeFacts(
        version=VERSION,
        cpus=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_bytes=_memory_bytes(),
        gpus=_gpus(environ),
        home=str(Path.home()),
        path=search_path(environ)[:16000],
        state_dir=str(state),
        mcp_url=mcp_url,
    )


def _memory_bytes() -> int:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # there is no such file, or it says max
        return min(machine, int(_CGROUP_MEMORY.read_text("ascii")))
    return machine


def _gpus(environ: Mapping[str, str]) -> int:
    given = environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return len([word for word in given.split(",") if word.strip() and word.strip() != "-1"])
    return len([path for path in Path("/dev").glob("nvidia[0-9]*") if path.name[6:].isdecimal()])
