"""OPERATIONS: the rows of all modules."""

from typing import Final

from kernel.operations import grants, proposals, rules, tasks
from kernel.operations.operation import Operation

OPERATIONS: Final[tuple[Operation, ...]] = (
    *proposals.OPERATIONS,
    *rules.OPERATIONS,
    *tasks.OPERATIONS,
    *grants.OPERATIONS,
)
