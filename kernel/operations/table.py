"""OPERATIONS: the rows of all modules."""

from typing import Final

from kernel.operations import (
    agents,
    approvals,
    audit,
    documents,
    grants,
    history,
    mediation,
    memory,
    merges,
    needs,
    nodes,
    own_memory,
    proposals,
    resources,
    rules,
    souls,
    spaces,
    tasks,
    tokens,
    tray,
    webhooks,
    workflows,
)
from kernel.operations.operation import Operation

OPERATIONS: Final[tuple[Operation, ...]] = (
    *agents.OPERATIONS,
    *souls.OPERATIONS,
    *tray.OPERATIONS,
    *audit.OPERATIONS,
    *needs.OPERATIONS,
    *workflows.OPERATIONS,
    *approvals.OPERATIONS,
    *proposals.OPERATIONS,
    *rules.OPERATIONS,
    *tasks.OPERATIONS,
    *documents.OPERATIONS,
    *resources.OPERATIONS,
    *spaces.OPERATIONS,
    *merges.OPERATIONS,
    *grants.OPERATIONS,
    *history.OPERATIONS,
    *memory.OPERATIONS,
    *own_memory.OPERATIONS,
    *mediation.OPERATIONS,
    *nodes.OPERATIONS,
    *webhooks.OPERATIONS,
    *tokens.OPERATIONS,
)
