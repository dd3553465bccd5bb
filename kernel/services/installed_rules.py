"""Finds the rules of installed packages: entry points of the group ``agent_worker.rules``.

A package that cannot be loaded, or that provides no valid rule, is listed as broken; the kernel runs without it.
"""

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kernel.rule.effects import Rule
from kernel.rule.evaluate import CORE, Installed
from protocol.message import MESSAGE_KINDS
from protocol.names import NameRejected, check_name

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "agent_worker.rules"

logger = logging.getLogger(__name__)


def find_installed(folders: Iterable[str]) -> tuple[Installed, ...]:
    """Load the rules of all packages in the absolute ``folders``, ordered by package and name."""
    # Never relative to the kernel's directory.
    places = [Path(folder) for folder in folders if Path(folder).is_absolute()]
    named = (file.read_bytes() for place in places for file in place.glob("*.dist-info/entry_points.txt"))
    if not any(GROUP.encode() in text for text in named):  # reading the files is fast, importing their parser is not
        return ()
    from importlib.metadata import distributions  # noqa: PLC0415  (a kernel without such packages does not load it)

    packages = distributions(path=list(map(str, places)))
    points = sorted(
        (f"{package.name} {package.version}", point.name, point)
        for package in packages
        for point in package.entry_points
        if point.group == GROUP
    )
    taken = {one.name for one in CORE}
    found: list[Installed] = []
    for package, _, point in points:
        for one in _loaded(package, point):
            twice = not one.broken and one.rule.name in taken
            taken.add(one.rule.name)
            found.append(Installed(rule=one.rule, package=package, broken="its name is already used") if twice else one)
    for one in found:
        logger.info("rule.installed %s of %s%s", one.rule.name, one.package, f": {one.broken}" if one.broken else "")
    return tuple(found)


def _loaded(package: str, point: "EntryPoint") -> Iterator[Installed]:
    nothing = Rule(name=point.name, kinds=frozenset(), decide=lambda _fact, _view: ())
    try:
        value = point.load()
        for rule in (value,) if isinstance(value, Rule) else tuple(value):
            why = _fault(rule)
            yield Installed(rule=nothing if why else rule, package=package, broken=why)
    except Exception as error:
        logger.warning("rule.broken %s of %s", point.name, package, exc_info=error)
        yield Installed(rule=nothing, package=package, broken=f"{type(error).__name__}: {error}"[:400])


def _fault(rule: object) -> str:
    if not isinstance(rule, Rule):
        return f"{type(rule).__name__} is not a kernel.rule.effects.Rule"
    try:
        check_name(rule.name)
    except NameRejected as rejected:
        return str(rejected)
    unknown = sorted(set(map(str, rule.kinds)) - set(MESSAGE_KINDS))
    return f"{unknown[0][:40]} is not a kind of message" if unknown else ""
