"""The key ``env_file`` of the project file: variables for the kernel's environment, with the user's trust.

The file is data: nothing in it is expanded or run. A variable that the environment has keeps its value.
"""

import hashlib
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kernel.agents.environment import name_fault
from kernel.agents.trust import ProjectTrust
from kernel.source.diagnostics import BadDefinition, fail
from kernel.source.files import FileMissing, read_bytes
from protocol.project import ProjectDefinition
from protocol.trust import TrustUnit, unit

logger = logging.getLogger(__name__)

LIMIT_BYTES: Final = 64 * 1024
_KEY: Final = "env_file"
_ENTRY: Final = re.compile(
    r"""(?:(?:export[ \t]+)?(?P<name>\w+)[ \t]*=[ \t]*
        (?:'(?P<raw>[^']*)'|"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s'"][^\n]*)?))?[ \t]*(?:\#[^\n]*)?(?:\n|\Z)""",
    re.ASCII | re.DOTALL | re.VERBOSE,
)
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t"}


def _read(name: str, root: Path) -> tuple[dict[str, str], TrustUnit]:
    """Return the variables in the file ``name``, and their demand, pinned to its content. Raises BadDefinition."""
    if not name.isprintable() or "/" in name or name in ("", ".", ".."):
        raise fail(_KEY, f"{name[:60]!r} is not the name of a file in the project's root", "for example .env")
    try:
        data = read_bytes(root / name, name, LIMIT_BYTES, links=False)
        text = data.decode().replace("\r\n", "\n")
    except FileMissing as error:
        raise fail(name, "not found", "create it, or remove env_file from the project file", where=_KEY) from error
    except UnicodeDecodeError as error:
        raise fail(name, "is not UTF-8 text", where=_KEY) from error
    found: dict[str, str] = {}
    place = 0
    while place < len(text):
        entry, line = _ENTRY.match(text, place), text.count("\n", 0, place) + 1
        if entry is None or "\0" in entry[0]:
            raise fail(name, f"line {line} is not NAME=VALUE", "quote values with spaces or quotes", where=_KEY)
        place = entry.end()
        if entry["name"] is not None:
            if (fault := name_fault(entry["name"])) is not None:
                raise fail(name, f"line {line}: {fault}", "remove the line", where=_KEY)
            plain = re.split(r"(?:^|\s)#", entry["plain"] or "", maxsplit=1)[0].strip()
            quoted = re.sub(r"\\(.)", lambda one: _ESCAPES.get(one[1], one[1]), entry["quoted"] or "", flags=re.DOTALL)
            found[entry["name"]] = entry["raw"] or quoted or plain
    what = f"{name} sets {', '.join(sorted(found)) or 'nothing'} in the environment of the kernel"
    return found, unit(_KEY, (f"{what}, content sha256:{hashlib.sha256(data).hexdigest()}",))


def env_file_units(project: ProjectDefinition, root: Path) -> tuple[TrustUnit, ...]:
    """Return the demand of the key. Raises BadDefinition."""
    return () if project.env_file is None else (_read(project.env_file, root)[1],)


def with_env_file(
    environ: Mapping[str, str], project: ProjectDefinition, root: Path, trust: ProjectTrust
) -> dict[str, str]:
    """Return ``environ`` with the variables of the file if it is valid and trusted; otherwise log the reason."""
    if project.env_file is None:
        return dict(environ)
    try:
        found, wanted = _read(project.env_file, root)
        fault = trust.fault(wanted)
    except BadDefinition as error:
        found, fault = {}, error.text
    if fault is not None:
        logger.warning("environment.env_file %s is not used: %s", project.env_file, fault)
    return {**({} if fault else found), **environ}
