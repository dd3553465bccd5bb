"""How a call names the space that it is made in: that of the caller's work, or another of the same run.

Whether the caller is in it, the commit looks at.
"""

from kernel.api.mcp.tool import Caller
from kernel.operations.context import StoreAccess
from kernel.store import spaces
from kernel.store.transitions.spaces import missing
from protocol.names import SpaceId, base_space


def space_named(caller: Caller, name: str | None, store: StoreAccess) -> SpaceId:
    """The space that a call is made in: ``name``, which is below that of the caller's run, or where it works.

    Raises Refused (not_found): it is not there, or the caller is not in it.
    """
    identity = caller.identity
    if name is None:
        return identity.space
    row = store.reader.now(spaces.find_open, base_space(identity.space), name)
    if row is None or not store.reader.now(spaces.is_in, row.space, identity.agent):
        raise missing(name)
    return row.space
