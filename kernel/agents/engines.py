"""Engines: the command lines that reach each kind of node, and validation of a node's settings.

Command lines are lists of words and never pass through a local shell. Only ``ssh`` passes its words to a remote shell,
so they are quoted.
"""

import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from kernel.agents.environment import worker_environment
from protocol.project import NodeSettings

RAY_RELAY: Final = str(Path(__file__).parent.parent / "procs" / "ray_relay.py")
"""Run as a file, so that a Python without our packages can execute it."""
QUEUED_SECONDS: Final = 7 * 86400.0
"""Timeout for an engine with a queue: after a cancellation the place in the queue is lost."""
PULLED_SECONDS: Final = 900.0
"""Timeout for an engine that may have to download an image first."""
MOST_WORDS: Final = 100
MOST_CHARACTERS: Final = 4096
_LABEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/=-]{0,62}", re.ASCII)
_PROXIES: Final = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """A way to start a node. Words of ``argv`` that refer to a missing key are left out.

    ``{args}``, ``{argv}`` and ``{far}`` expand to several words, ``{quoted}`` to ``far`` quoted for a shell.
    """

    argv: tuple[str, ...]
    by: str | None = None
    """The key that must be set; it also selects between two engines of the same ``via``."""
    takes: frozenset[str] = frozenset()
    """Further keys that the engine accepts, besides the common ones."""
    hello_seconds: float = 60.0
    """Timeout for the node's first answer: a machine may have to start Python first."""
    environment: tuple[str, ...] = ()
    """Variables of the kernel's environment that the program receives, besides the standard ones."""


ENGINES: Final[Mapping[str, tuple[Engine, ...]]] = {
    "ssh": (
        Engine(
            argv=(
                *("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"),
                *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"),
                *("{args}", "{host}", "--", "{quoted}"),
            ),
            by="host",
            takes=frozenset({"args"}),
            environment=("SSH_AUTH_SOCK",),
        ),
    ),
    "slurm": (
        Engine(
            argv=(
                *("srun", "-Q", "-N1", "-n1", "--unbuffered", "--kill-on-bad-exit=1"),
                *("{args}", "--nodelist={host}", "--", "{far}"),
            ),
            takes=frozenset({"args", "host"}),
            hello_seconds=QUEUED_SECONDS,
            environment=("SLURM_CONF",),
        ),
    ),
    "kubectl": (
        Engine(
            argv=(
                *("kubectl", "exec", "-i", "{args}", "--namespace={namespace}", "--container={container}"),
                *("{pod}", "--", "{far}"),
            ),
            by="pod",
            takes=frozenset({"args", "namespace", "container"}),
            environment=("KUBECONFIG", *_PROXIES),
        ),
        Engine(
            argv=(
                *("kubectl", "run", "{fresh}", "-i", "--rm", "--quiet", "--restart=Never", "--image={image}"),
                *("{args}", "--namespace={namespace}", "--command", "--", "{far}"),
            ),
            by="image",
            takes=frozenset({"args", "namespace"}),
            hello_seconds=PULLED_SECONDS,
            environment=("KUBECONFIG", *_PROXIES),
        ),
    ),
    "docker": (
        Engine(
            argv=("docker", "exec", "-i", "{args}", "{container}", "{far}"),
            by="container",
            takes=frozenset({"args"}),
            environment=("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"),
        ),
        Engine(
            argv=("docker", "run", "-i", "--rm", "--init", "{args}", "{image}", "{far}"),
            by="image",
            takes=frozenset({"args"}),
            hello_seconds=PULLED_SECONDS,
            environment=("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"),
        ),
    ),
    "ray": (
        Engine(
            argv=(*("{python}", "-I", RAY_RELAY, "--address={address}", "--resources={resources}"), *("--", "{far}")),
            takes=frozenset({"address", "resources", "python", "least", "most"}),
            hello_seconds=QUEUED_SECONDS,
            environment=("RAY_ADDRESS",),
        ),
    ),
    "command": (Engine(argv=("{argv}", "{far}"), takes=frozenset({"argv"})),),
}
"""``via`` -> engines. ``join`` has none: such a node starts on its own."""
COMMON: Final = frozenset({"via", "command", "labels", "workers"})
_TEXTS: Final = ("host", "image", "container", "pod", "namespace", "address", "python")
_PATHS: Final = frozenset({"python"})
"""Keys whose values may contain spaces."""
_SEVERAL: Final = frozenset({"{args}", "{argv}", "{far}"})
_KEY: Final = re.compile(r"\{(\w+)\}")


class NodeFault(NamedTuple):
    """An error in the settings of a node: the key, the message, and a hint."""

    key: str
    message: str
    hint: str


def engine_of(settings: NodeSettings) -> Engine | None:
    """Return the engine of ``settings``; None for ``via: join``, or without the key that selects an engine."""
    for engine in ENGINES.get(settings.via, ()):
        if engine.by is None or getattr(settings, engine.by) is not None:
            return engine
    return None


def command_line(settings: NodeSettings, far: Sequence[str], fresh: str) -> tuple[str, ...]:
    """Return the command line that runs ``far`` on the node and connects its standard streams.

    ``fresh`` is a unique name for this start of a node. Raises ValueError if the node has no command line.
    """
    engine = engine_of(settings)
    if engine is None:
        raise ValueError(f"via: {settings.via} has no command line")
    there = (*shlex.split(settings.command), *far)
    filled: dict[str, str | None] = {
        **{key: getattr(settings, key) for key in _TEXTS},
        "python": settings.python or sys.executable,
        "resources": msgspec.json.encode(settings.resources).decode(),
        "fresh": fresh,
        "quoted": shlex.join(there),
    }
    several: dict[str, Sequence[str]] = {"{args}": settings.args, "{argv}": settings.argv, "{far}": there}
    words: list[str] = []
    for word in engine.argv:
        if word in _SEVERAL:
            words += several[word]
            continue
        named = [filled[key] for key in _KEY.findall(word)]
        if None not in named:
            words.append(_KEY.sub(lambda match: filled[match[1]] or "", word))
    return tuple(words)


def hello_seconds(settings: NodeSettings) -> float:
    """Return the timeout for the first answer of a node."""
    engine = engine_of(settings)
    return 60.0 if engine is None else engine.hello_seconds


def engine_environment(settings: NodeSettings, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the part of the kernel's ``environ`` for an engine's program; it contains no provider keys."""
    engine = engine_of(settings)
    return worker_environment(environ, () if engine is None else engine.environment)


def node_faults(settings: NodeSettings) -> Iterator[NodeFault]:
    """Yield the errors in the settings of one node."""
    yield from _key_faults(settings)
    yield from _word_faults(settings)
    for label in settings.labels:
        if _LABEL.fullmatch(label) is None:
            yield NodeFault(
                "labels",
                f"{label[:60]!r} is not a valid label",
                "use letters, digits and . _ - / =, at most 63 characters",
            )
    if len(set(settings.labels)) < len(settings.labels) or len(settings.labels) > MOST_WORDS:
        yield NodeFault("labels", "has duplicate or too many labels", f"use at most {MOST_WORDS} different labels")
    if settings.via == "ray" and settings.least > settings.most:
        yield NodeFault("least", f"{settings.least} is more than most: {settings.most}", "raise most, or lower least")


def _key_faults(settings: NodeSettings) -> Iterator[NodeFault]:
    engines = ENGINES.get(settings.via, ())
    engine = engine_of(settings)
    if engines and engine is None:
        keys = [one.by for one in engines if one.by is not None]
        hint = f"set {keys[0]}: NAME, or use awk node add --{keys[0]} NAME"
        yield NodeFault("via", f"{settings.via} needs {' or '.join(keys)}", hint)
        return
    allowed = COMMON if engine is None else COMMON | engine.takes | {engine.by}
    plain = NodeSettings(via=settings.via)
    for key in NodeSettings.__struct_fields__:
        if getattr(settings, key) != getattr(plain, key) and key not in allowed:
            yield NodeFault(key, f"is not supported by via: {settings.via}", "remove it, or choose another via")


def _word_faults(settings: NodeSettings) -> Iterator[NodeFault]:
    for key in _TEXTS:
        text = getattr(settings, key)
        if text is None:
            continue
        if text == "" or text.startswith("-") or not _is_plain(text):
            yield NodeFault(key, f"{text[:60]!r} is not a valid argument", "write a plain name or address")
        elif " " in text and key not in _PATHS:
            yield NodeFault(key, f"{text[:60]!r} contains a space", f"write one {key}; each node has its own entry")
    for key in ("args", "argv"):
        words = getattr(settings, key)
        if len(words) > MOST_WORDS or not all(map(_is_plain, words)):
            hint = f"write at most {MOST_WORDS} words without control characters"
            yield NodeFault(key, "contains an invalid argument", hint)
    if settings.argv and settings.argv[0].startswith("-"):
        yield NodeFault("argv", "starts with an option", "start with the program")
    try:
        program = shlex.split(settings.command)
    except ValueError:
        program = []
    if not program or program[0].startswith("-") or not _is_plain(settings.command):
        yield NodeFault("command", "is not a valid program", "write command: agent-worker, or its path on the node")


def _is_plain(text: str) -> bool:
    return text.isprintable() and len(text) <= MOST_CHARACTERS
