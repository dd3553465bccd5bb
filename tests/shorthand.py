"""Short forms that many tests share: a value that is there, the code of a refusal, broken statements, and
services that run for a while.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest
import trio

from protocol.errors import Refused

T = TypeVar("T")


def present(value: T | None) -> T:
    """Return ``value``, which must not be None."""
    assert value is not None
    return value


async def refusal(step: Awaitable[object]) -> str:
    """Return the code with which ``step`` is refused."""
    with pytest.raises(Refused) as caught:
        await step
    return caught.value.code


def sabotage(monkeypatch: pytest.MonkeyPatch, module: object, name: str, right: str, wrong: str) -> None:
    """Have ``wrong`` in the place of ``right`` in a statement of ``module``."""
    statement = str(getattr(module, name))
    assert statement.count(right) == 1
    monkeypatch.setattr(module, name, statement.replace(right, wrong))


@asynccontextmanager
async def running(*services: Callable[..., Awaitable[Any]]) -> AsyncGenerator[trio.Nursery]:
    """Start each of ``services``, and cancel them at the end of the block."""
    async with trio.open_nursery() as nursery:
        for service in services:
            await nursery.start(service)
        yield nursery
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def beside(*jobs: Callable[..., Awaitable[Any]]) -> AsyncGenerator[trio.Nursery]:
    """Run ``jobs`` beside the block, and cancel them at its end."""
    async with trio.open_nursery() as nursery:
        for job in jobs:
            nursery.start_soon(job)
        yield nursery
        nursery.cancel_scope.cancel()
