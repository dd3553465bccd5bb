"""What a remote workflow is once it is here: plain files of one commit. Where they came from is data about them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from protocol.remote import Remote


@dataclass(frozen=True, slots=True)
class Checkout:
    """The files of a ``commit`` in ``folder``. ``digest`` is the SHA-256 of all of them, their names and modes."""

    remote: Remote
    url: str
    commit: str
    digest: str
    folder: Path

    @property
    def demand(self) -> str:
        """What starting it asks the user to trust."""
        return f"it comes from {self.url}, commit {self.commit}, content sha256:{self.digest}"

    def variables(self) -> Mapping[str, str]:
        """``source.*`` for its texts."""
        return {
            "source.dir": str(self.folder),
            "source.url": self.url,
            "source.ref": self.remote.ref,
            "source.commit": self.commit,
        }
