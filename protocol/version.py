"""The version of this distribution: the only place that says it."""

from typing import Final

VERSION: Final = "0.1.0"
