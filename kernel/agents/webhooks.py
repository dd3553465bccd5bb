"""Webhooks of the project file: what is wrong with one, what it demands of the user, and the keys they are signed with.

A file that names a variable of the environment and an address to write to could give either away, so each hook is a
unit of trust of its own. One that is not trusted is as if it were not there.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from kernel.agents.definition import place_at
from kernel.policy.webhooks import LEAST_KEY_BYTES, SECRET_PREFIX, key_of
from kernel.source.diagnostics import Diagnostics, suggest
from kernel.source.yaml_tree import MapNode
from protocol.events import DURABLE
from protocol.names import NameRejected, check_name
from protocol.project import IncomingHook, OutgoingHook, ProjectDefinition
from protocol.target import TargetRejected, parse_target
from protocol.trust import TrustUnit, unit

EVERY: Final = "*"
MOST_WEBHOOKS: Final = 20
_URL_CHARACTERS: Final = 2000
_VARIABLE: Final = re.compile(r"\$[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
_SECRET_HINT: Final = "keep the secret in the environment of the kernel, and write secret: $NAME"


def incoming_unit(name: str, hook: IncomingHook) -> TrustUnit:
    """The demand of one hook in."""
    return unit(f"hook {name}", (f"whoever knows {hook.secret} says to {hook.to} what comes to /hooks/{name}",))


def outgoing_unit(hook: OutgoingHook) -> TrustUnit:
    """The demand of one hook out. Its digest is what it is known by: another address or choice is another hook."""
    what = "all events" if EVERY in hook.events else f"events {', '.join(hook.events)}"
    private = ", also on this machine and in its networks" if hook.allow_private else ""
    return unit(f"webhook {hook.url}", (f"{what} are told to {hook.url}{private}, signed with {hook.secret}",))


def host_of(url: str) -> str:
    """The server of ``url``: its path may be as good as a password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def hook_units(project: ProjectDefinition) -> Iterator[TrustUnit]:
    """The demands of all webhooks of ``project``."""
    for name, hook in project.hooks.items():
        yield incoming_unit(name, hook)
    yield from map(outgoing_unit, project.webhooks)


def signing_key(secret: str, environ: Mapping[str, str]) -> bytes | str:
    """The key that ``secret`` (``$NAME``) stands for, or what keeps it from being one."""
    value = environ.get(secret[1:])
    if value is None:
        return f"{secret} is not in the environment of the kernel"
    return (
        key_of(value)
        or f"{secret} is no secret of Standard Webhooks: {SECRET_PREFIX} and base64, {LEAST_KEY_BYTES} bytes or more"
    )


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
        _check_secret(hook.secret, f"{where}.secret", node, problems)
    if len(definition.webhooks) > MOST_WEBHOOKS:
        problems.add(
            place_at(node, "webhooks"), "webhooks", f"has more than {MOST_WEBHOOKS}", "have one tell the others"
        )
    for index, out in enumerate(definition.webhooks):
        where = f"webhooks[{index}]"
        place = place_at(node, where)
        if (fault := url_fault(out.url)) is not None:
            problems.add(place, f"{where}.url", fault, "write url: https://HOST/PATH")
        if any(out.url == earlier.url for earlier in definition.webhooks[:index]):
            problems.add(place, f"{where}.url", "is there twice", "put its events into one list")
        if not out.events:
            problems.add(place, f"{where}.events", "names no event", f"name some, or '{EVERY}' for all")
        for event in out.events:
            if event != EVERY and event not in DURABLE:
                hint = suggest(event, DURABLE, what="there are")
                problems.add(place, f"{where}.events", f"unknown event {event[:60]!r}", hint)
        _check_secret(out.secret, f"{where}.secret", node, problems)


def _check_secret(secret: str, where: str, node: MapNode, problems: Diagnostics) -> None:
    if _VARIABLE.fullmatch(secret) is None:
        problems.add(place_at(node, where), where, "needs the name of a variable", _SECRET_HINT)


def url_fault(url: str) -> str | None:
    """Return what is wrong with the address of a hook out."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return "is no address"
    if not sound or not url.isascii() or not url.isprintable() or " " in url or len(url) > _URL_CHARACTERS:
        return "is no address of a server"
    return "has a user in it, or a fragment" if parts.username is not None or parts.fragment else None
