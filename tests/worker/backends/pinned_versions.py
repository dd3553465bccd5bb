"""The programs that are tested, and in which version, as npm knows them: one line each for scripts/test-backends."""

import sys

from protocol.backends import BACKENDS
from tests.worker.backends.test_contract import PROGRAMS


def pinned() -> list[tuple[str, str]]:
    """The folder and the package of each that can be installed."""
    found = {one.folder or one.name: one for one in reversed(PROGRAMS) if one.fake is None}
    packages = ((one, one.package or BACKENDS[one.name].install.split()[-1]) for one in reversed(found.values()))
    return [(one.folder or one.name, f"{package}@{one.version}") for one, package in packages]


if __name__ == "__main__":
    sys.stdout.writelines(f"{name} {package}\n" for name, package in pinned())
