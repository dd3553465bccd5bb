"""Webhooks of the project file: what is wrong with one, what it demands of the user, and the keys they are signed with.

A file that names a variable of the environment and an address to write to could give either away, so each hook is a
unit of trust of its own. One that is not trusted is as if it were not there.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from kernel.agents.definition import place_at
from kernel.policy.webhooks import SECRET_PREFIX, key_of
from kernel.source.diagnostics import Diagnostics
from kernel.source.yaml_tree import MapNode
from protocol.names import NameRejected, check_name
from protocol.project import IncomingHook, ProjectDefinition
from protocol.target import TargetRejected, parse_target
from protocol.trust import TrustUnit, unit

_VARIABLE: Final = re.compile(r"\$[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
_SECRET_HINT: Final = "keep the secret in the environment of the kernel, and write secret: $NAME"


def incoming_unit(name: str, hook: IncomingHook) -> TrustUnit:
    """The demand of one hook in."""
    return unit(f"hook {name}", (f"whoever knows {hook.secret} says to {hook.to} what comes to /hooks/{name}",))


def hook_units(project: ProjectDefinition) -> Iterator[TrustUnit]:
    """The demands of all webhooks of ``project``."""
    for name, hook in project.hooks.items():
        yield incoming_unit(name, hook)


def signing_key(secret: str, environ: Mapping[str, str]) -> bytes | str:
    """The key that ``secret`` (``$NAME``) stands for, or what keeps it from being one."""
    value = environ.get(secret[1:])
    if value is None:
        return f"{secret} is not in the environment of the kernel"
    return key_of(value) or f"{secret} is no secret of Standard Webhooks: {SECRET_PREFIX} and base64, 24 bytes or more"


def check_hooks(definition: ProjectDefinition, node: MapNode, problems: Diagnostics) -> None:
    """Note what is wrong with the webhooks of ``definition``, which was converted from ``node``."""
    for name, hook in definition.hooks.items():
        where = f"hooks.{name}"
        try:
            check_name(name)
        except NameRejected as error:
            problems.add(place_at(node, where), where, str(error), "it is the last part of the path /hooks/NAME")
        try:
            parse_target(hook.to)
        except TargetRejected as error:
            problems.add(place_at(node, f"{where}.to"), f"{where}.to", str(error), "write to: '@workflow', or an agent")
        if _VARIABLE.fullmatch(hook.secret) is None:
            place = place_at(node, f"{where}.secret")
            problems.add(place, f"{where}.secret", "needs the name of a variable", _SECRET_HINT)
