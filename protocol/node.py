"""The facts that a node says of itself when it is connected."""

import msgspec


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A node as it describes itself: nothing of it is believed where that could harm anybody but the node."""

    version: str = ""
    platform: str = ""
    cpus: int = 0
    memory_bytes: int = 0
    gpus: int = 0
    home: str = ""
    path: str = ""
    state_dir: str = ""
    mcp_url: str = ""
    boot_id: str = ""
    session: str = ""
