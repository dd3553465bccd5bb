"""Calls that have to be refused, and what each is refused with."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import pytest

from kernel.source.diagnostics import BadDefinition
from protocol.api.document import FileError
from protocol.errors import Refused

P = ParamSpec("P")
E = TypeVar("E", bound=Exception)


def raised(kind: type[E], call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> E:
    """The exception that a call has to end with."""
    with pytest.raises(kind) as caught:
        call(*args, **kwargs)
    return caught.value


def refused(call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> Refused:
    return raised(Refused, call, *args, **kwargs)


def faults(call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> tuple[FileError, ...]:
    """The mistakes in users' files that a call has to end with."""
    return raised(BadDefinition, call, *args, **kwargs).errors
