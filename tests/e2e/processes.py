"""Processes of a test: found by a mark in their command line, waited for by pidfd."""

import os
import select
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil


def marked(mark: str) -> list[psutil.Process]:
    return [process for process in _all() if mark in " ".join(_words(process))]


def wait_for_mark(mark: str, count: int, seconds: float = 20.0) -> list[psutil.Process]:
    """Wait until ``count`` processes carry ``mark``: the only sign they give is that they are there."""
    deadline = time.monotonic() + seconds
    while len(found := marked(mark)) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} processes marked {mark}"
        select.select([], [], [], 0.02)
    return found


def wait_until(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for something that only a file or a process table shows."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come to pass"
        select.select([], [], [], 0.02)


def survivors(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Those of ``processes`` that still live ``seconds`` later; returns as soon as none does.

    A zombie is dead: how soon it is buried is for whoever got it, process 1 in the end.
    """
    deadline = time.monotonic() + seconds
    while (alive := [process for process in processes if _lives(process)]) and time.monotonic() < deadline:
        select.select([], [], [], 0.01)
    return alive


def zygote_of(kernel: psutil.Process) -> psutil.Process:
    return next(child for child in kernel.children() if "zygote" in " ".join(_words(child)))


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _all() -> Iterator[psutil.Process]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                yield psutil.Process(int(entry.name))
            except psutil.NoSuchProcess:
                continue


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return []
