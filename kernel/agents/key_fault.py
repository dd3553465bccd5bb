"""What is wrong with one key of an agent, before it is known where in a file that stands."""

from typing import NamedTuple


class KeyFault(NamedTuple):
    """``key`` is a path (``mcp_servers.github.url``)."""

    key: str
    message: str
    hint: str | None = None
