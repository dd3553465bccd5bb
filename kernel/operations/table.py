"""OPERATIONS: the rows of all modules."""

from typing import Final

from kernel.operations import tasks
from kernel.operations.operation import Operation

OPERATIONS: Final[tuple[Operation, ...]] = (*tasks.OPERATIONS,)
