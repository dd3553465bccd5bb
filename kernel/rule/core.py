"""The table of core proposals, in the order they are asked."""

from collections.abc import Iterable
from types import MappingProxyType
from typing import Final

from kernel.rule.evaluate import Table
from kernel.rule.proposal import Proposal
from kernel.rule.proposals.approval import APPROVAL
from kernel.rule.proposals.ballot import BALLOT
from kernel.rule.proposals.failure import FAILURE
from kernel.rule.proposals.reply import REPLY
from kernel.rule.proposals.routing import ROUTING
from kernel.rule.proposals.wakeup import WAKEUP
from kernel.rule.proposals.workflow import WORKFLOW
from protocol.message import MESSAGE_KINDS

CORE: Final = (WORKFLOW, ROUTING, REPLY, FAILURE, WAKEUP, APPROVAL, BALLOT)


def by_kind(proposals: Iterable[Proposal]) -> Table:
    """The same proposals by the kind they listen to, in their order."""
    known = tuple(proposals)
    return MappingProxyType(
        {kind: tuple(one for one in known if kind in one.kinds) for kind in MESSAGE_KINDS},
    )


CORE_TABLE: Final = by_kind(CORE)
