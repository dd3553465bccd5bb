"""What ps and top show for our processes. Titles are for people; nothing reads them back."""

from setproctitle import setproctitle


def set_title(role: str, what: str = "") -> None:
    """Name this process, for example ``agent-worker: keeper i7-2``."""
    setproctitle(f"agent-worker: {role} {what}".rstrip())
