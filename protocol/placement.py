"""The place that an agent asks for, as ``needs`` in its file says: labels, memory and GPUs."""

import re
from typing import Annotated, Final

import msgspec

LABEL: Final = r"[A-Za-z0-9][A-Za-z0-9._/=-]{0,62}"
_LABEL: Final = re.compile(LABEL, re.ASCII)
MOST_LABELS: Final = 16

Label = Annotated[str, msgspec.Meta(pattern=f"^{LABEL}$")]
PlaceBytes = Annotated[int, msgspec.Meta(ge=64 * 2**20, le=2**50, extra={"bytes": True})]
"""Bytes; ``512MiB``, ``8GB`` or a bare number in the file. From 64 MiB."""
Gpus = Annotated[int, msgspec.Meta(ge=0, le=1024)]


class PlaceNeeds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Demands on the machine that the agent works on. Without any it works on the kernel's own."""

    labels: tuple[Label, ...] = ()
    """Labels that a node must have, all of them: the agent works on such a node and nowhere else."""
    memory: PlaceBytes | None = None
    """Memory that is set aside for it there: ``8GB``. Without labels the kernel's own machine will do, if it has it."""
    gpus: Gpus = 0
    """GPUs that are set aside for it there. Without labels the kernel's own machine will do, if it has them."""

    def __bool__(self) -> bool:
        """Return whether anything is asked for."""
        return bool(self.labels or self.memory or self.gpus)


def label_fault(label: str) -> str | None:
    """Return what is wrong with ``label``; None: nothing."""
    if _LABEL.fullmatch(label):
        return None
    return f"{label[:70]!r} is no label: letters, digits and . _ - / =, at most 63, a letter or digit first"
