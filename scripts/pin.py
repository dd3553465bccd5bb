"""Update the hashes in constraints.txt after a manual change of a version: `.venv/bin/python scripts/pin.py`.

Each pinned version gets the SHA-256 of all its wheels for Linux, macOS and the supported Pythons, from the package
index that pip is configured to use. The packages that run the product come first, then the packages that only
development needs: scripts/environment installs the first part, or both. Names and versions come from constraints.txt.
The script fails if the product, as installed here, needs a package that the file does not contain.
"""

import hashlib
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from itertools import chain
from pathlib import Path
from typing import Any, Final

from pip._internal.commands import create_command
from pip._internal.index.collector import parse_links
from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.utils import canonicalize_name, parse_wheel_filename

FILE: Final = Path(__file__).resolve().parent.parent / "constraints.txt"
DEVELOPMENT: Final = "# Development needs besides:"
"""Line between the two parts of the file. scripts/environment contains the same text."""
HEADER: Final = """\
# The versions everything is tested with, and the SHA-256 of their wheels (Linux, macOS; Python 3.11 to 3.14): what
# scripts/environment installs. Change a version here, then renew the hashes: .venv/bin/python scripts/pin.py
"""
ROOTS: Final = ("agent-worker-supervisor", "hatchling", "editables")
"""Packages that run the product; the latter two install it from a checkout."""
PYTHONS: Final = frozenset({"py3", "py2.py3", "cp311", "cp312", "cp313", "cp314"})
_PIN: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^\s\\]+)", re.MULTILINE)


def main() -> int:
    """Rewrite constraints.txt. Returns 1 without writing if a required package or a wheel is missing."""
    pins = {canonicalize_name(name): (name, version) for name, version in _PIN.findall(FILE.read_text())}
    product = _closure(ROOTS)
    missing = sorted(product.difference(pins, {ROOTS[0]}))
    if missing:
        sys.stderr.write(f"not in {FILE.name}: {', '.join(missing)}\n")
        return 1
    index = _Index()
    lines = {key: _line(name, version, index.hashes(name, version)) for key, (name, version) in sorted(pins.items())}
    bare = [key for key, line in lines.items() if "--hash" not in line]
    if bare:
        sys.stderr.write(f"no wheel found of {', '.join(bare)}\n")
        return 1
    first = "".join(line for key, line in lines.items() if key in product)
    rest = "".join(line for key, line in lines.items() if key not in product)
    FILE.write_text(f"{HEADER}{first}{DEVELOPMENT}\n{rest}")
    return 0


class _Index:
    """Files of packages in the index that pip is configured to use."""

    def __init__(self) -> None:
        command: Any = create_command("download")
        options, _ = command.parse_args([])
        session = command._build_session(options)  # noqa: SLF001  (pip tells hashes by no command)
        finder = command._build_package_finder(options, session)  # noqa: SLF001  (as above)
        self._collector: Any = finder._link_collector  # noqa: SLF001  (as above)

    def hashes(self, name: str, version: str) -> tuple[str, ...]:
        """Return the sorted SHA-256 hashes of all supported wheels of ``name`` in ``version``."""
        found: dict[str, str] = {}
        for link in self._links(name):
            if _is_meant(link.filename, version) and not link.is_yanked:
                found.setdefault(link.filename, link.hash if link.hash_name == "sha256" else _sha256(link))
        return tuple(sorted(set(found.values())))

    def _links(self, name: str) -> Iterator[Any]:
        pages: list[Any] = []

        def page(location: Any) -> list[Any]:
            content = self._collector.fetch_response(location)
            pages.extend(parse_links(content) if content is not None else ())
            return []

        sources = self._collector.collect_sources(project_name=name, candidates_from_page=page)
        files = [
            link for source in chain(*sources) if source for link in (*source.page_candidates(), *source.file_links())
        ]
        yield from sorted((*pages, *files), key=lambda link: link.is_file)


def _is_meant(filename: str, version: str) -> bool:
    if not filename.endswith(".whl"):
        return False
    try:
        _name, found, _build, tags = parse_wheel_filename(filename)
    except ValueError:
        return False
    return str(found) == version and any(
        (tag.interpreter in PYTHONS or tag.abi == "abi3")
        and tag.platform.startswith(("any", "manylinux", "musllinux", "linux", "macosx"))
        for tag in tags
    )


def _sha256(link: Any) -> str:
    return hashlib.sha256(Path(link.file_path).read_bytes()).hexdigest()


def _line(name: str, version: str, hashes: Iterable[str]) -> str:
    return " \\\n    ".join((f"{name}=={version}", *(f"--hash=sha256:{one}" for one in hashes))) + "\n"


def _closure(roots: Iterable[str]) -> set[str]:
    """Return ``roots`` and their transitive dependencies, as installed here, with requested extras only."""
    waiting = [(name, frozenset[str]()) for name in roots]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        name, extras = one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        try:
            needs = distribution(name).requires or ()
        except PackageNotFoundError:  # not installed: for another system or Python
            continue
        for text in needs:
            need = Requirement(text)
            if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                waiting.append((canonicalize_name(need.name), frozenset(need.extras)))
    return {canonicalize_name(name) for name, _extras in seen}


if __name__ == "__main__":
    sys.exit(main())
