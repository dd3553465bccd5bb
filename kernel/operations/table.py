"""OPERATIONS: the rows of all modules."""

from typing import Final

from kernel.operations import (
    audit,
    grants,
    history,
    needs,
    nodes,
    proposals,
    rules,
    souls,
    tasks,
    tokens,
    tray,
    webhooks,
)
from kernel.operations.operation import Operation

OPERATIONS: Final[tuple[Operation, ...]] = (
    *souls.OPERATIONS,
    *tray.OPERATIONS,
    *audit.OPERATIONS,
    *needs.OPERATIONS,
    *proposals.OPERATIONS,
    *rules.OPERATIONS,
    *tasks.OPERATIONS,
    *grants.OPERATIONS,
    *history.OPERATIONS,
    *nodes.OPERATIONS,
    *webhooks.OPERATIONS,
    *tokens.OPERATIONS,
)
