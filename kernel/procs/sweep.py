"""At boot: proof that every tree of the kernel before is gone, and then an empty ``run/``.

A keeper lets its lock go when its tree is gone, milliseconds after its kernel died. A lock that is still held after
the patience belongs to a keeper that is stuck: it and its tree are killed by name.
"""

import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Final

import msgspec
import trio

from kernel.fault_injection import fault_point
from kernel.procs import procfs
from kernel.procs.attempt_dir import LOCK_FILE, Signature, lock_is_free, read_signature
from kernel.procs.directory_pool import SPARE

PATIENCE_SECONDS: Final = 2.0
_ROUND_SECONDS: Final = 0.005


class SweepResult(msgspec.Struct, frozen=True):
    """The attempts that an earlier kernel left. ``survivors`` would not die even by SIGKILL; their directories stay."""

    attempts: tuple[str, ...]
    survivors: tuple[int, ...]


async def sweep(run_dir: Path, patience_seconds: float = PATIENCE_SECONDS, beside: Collection[str] = ()) -> SweepResult:
    """Take every lock below ``run_dir``, kill what is left of its tree, remove the directory; but for those named
    ``beside``, which go on.

    To be called with the project's lock held, before anything is spawned.
    """
    left = [path for path in _directories(run_dir) if path.name not in beside]
    deadline = trio.current_time() + patience_seconds
    for path in left:
        # flock cannot be awaited, and a thread that blocks on it cannot be cancelled.
        while not lock_is_free(path / LOCK_FILE) and trio.current_time() < deadline:  # noqa: ASYNC110
            await trio.sleep(_ROUND_SECONDS)
    fault_point("sweep.locked")
    signatures = [_signature(path / LOCK_FILE) for path in left]
    survivors = await procfs.end(
        [process for signature in signatures for process in signature.processes],
        {signature.cookie for signature in signatures if signature.cookie},
    )
    for path in left:
        if not survivors or lock_is_free(path / LOCK_FILE):
            shutil.rmtree(path, ignore_errors=True)
    fault_point("sweep.swept")
    attempts = tuple(path.name for path in left if not path.name.startswith(SPARE))
    return SweepResult(attempts, tuple(sorted(process.pid for process in survivors)))


def _directories(run_dir: Path) -> list[Path]:
    return sorted(path for path in run_dir.glob("*") if path.is_dir() and not path.is_symlink())


def _signature(lock: Path) -> Signature:
    try:
        return read_signature(lock.read_text("utf-8", "replace"))
    except OSError:
        return Signature(None, ())
