"""Reusable suites: what every implementation of a seam must do."""

from collections.abc import Awaitable, Callable, Mapping
from inspect import iscoroutinefunction, signature
from typing import Any

from tests.kernel.store.running_store import Store

Check = Callable[[Store], Awaitable[None]]


def checks_of(scope: Mapping[str, Any]) -> tuple[Check, ...]:
    """The checks of a module, in their order: its coroutine functions that take a running store and nothing else."""
    return tuple(
        one for one in scope.values() if iscoroutinefunction(one) and [*signature(one).parameters] == ["store"]
    )
