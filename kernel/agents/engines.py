"""Engines: how each kind of node is reached, as a table of command lines; and what is wrong with a node's settings.

Nothing here goes through a shell of this machine: a command line is a list of words. Only ``ssh`` hands its words to a
shell at the far end, so they are quoted for it.
"""

import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from kernel.agents.environment import worker_environment
from protocol.project import NodeSettings

RAY_RELAY: Final = str(Path(__file__).parent.parent / "procs" / "ray_relay.py")
"""Run as a file, so that a Python without our packages can run it."""
QUEUED_SECONDS: Final = 7 * 86400.0
"""For an engine that has a queue: who gives up loses his place in it."""
PULLED_SECONDS: Final = 900.0
"""For one that may have to fetch an image first."""
MOST_WORDS: Final = 100
MOST_CHARACTERS: Final = 4096
_LABEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/=-]{0,62}", re.ASCII)
_PROXIES: Final = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """One way to start a node. A word of ``argv`` in which a key is named that is not set is left out.

    ``{args}``, ``{argv}``, ``{far}`` stand for several words, ``{quoted}`` for those of ``far`` as a shell reads them.
    """

    argv: tuple[str, ...]
    by: str | None = None
    """The key that has to be set, and by which two engines of one ``via`` are told apart."""
    takes: frozenset[str] = frozenset()
    """Other keys that it takes, beside those that all do."""
    hello_seconds: float = 60.0
    """For the node to answer: a machine may have to start Python first."""
    environment: tuple[str, ...] = ()
    """Variables of the kernel's environment that it gets, beside those that every program gets."""


ENGINES: Final[Mapping[str, tuple[Engine, ...]]] = MappingProxyType(
    {
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
                argv=(
                    *("{python}", "-I", RAY_RELAY, "--address={address}", "--resources={resources}"),
                    *("--", "{far}"),
                ),
                takes=frozenset({"address", "resources", "python", "least", "most"}),
                hello_seconds=QUEUED_SECONDS,
                environment=("RAY_ADDRESS",),
            ),
        ),
        "command": (Engine(argv=("{argv}", "{far}"), takes=frozenset({"argv"})),),
    }
)
"""``via`` to engines. ``join`` is in none: such a node starts by itself."""
COMMON: Final = frozenset({"via", "command", "labels", "workers"})
_TEXTS: Final = ("host", "image", "container", "pod", "namespace", "address", "python")
_PATHS: Final = frozenset({"python"})
"""Those of them that may have blanks."""
_SEVERAL: Final = frozenset({"{args}", "{argv}", "{far}"})
_KEY: Final = re.compile(r"\{(\w+)\}")


class NodeFault(NamedTuple):
    """A mistake in the settings of a node: the key, what is wrong with it, and what to do."""

    key: str
    message: str
    hint: str


def engine_of(settings: NodeSettings) -> Engine | None:
    """The engine that ``settings`` mean; None where the node dials home, or a key is missing."""
    for engine in ENGINES.get(settings.via, ()):
        if engine.by is None or getattr(settings, engine.by) is not None:
            return engine
    return None


def command_line(settings: NodeSettings, far: Sequence[str], fresh: str) -> tuple[str, ...]:
    """The command line whose standard streams are those of ``far``, run there by the program that ``settings`` name.

    ``fresh`` is a name that no other start of a node has. Raises ValueError where there is none.
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
    """The time for a node to answer for the first time."""
    engine = engine_of(settings)
    return 60.0 if engine is None else engine.hello_seconds


def engine_environment(settings: NodeSettings, environ: Mapping[str, str]) -> dict[str, str]:
    """The part of the kernel's ``environ`` that an engine's program sees: no key of a provider is in it."""
    engine = engine_of(settings)
    return worker_environment(environ, () if engine is None else engine.environment)


def node_faults(settings: NodeSettings) -> Iterator[NodeFault]:
    """The mistakes in the settings of one node."""
    yield from _key_faults(settings)
    yield from _word_faults(settings)
    for label in settings.labels:
        if _LABEL.fullmatch(label) is None:
            yield NodeFault("labels", f"{label[:60]!r} is no label", "letters, digits and . _ - / =, at most 63")
    if len(set(settings.labels)) < len(settings.labels) or len(settings.labels) > MOST_WORDS:
        yield NodeFault("labels", "has a label twice, or too many", "name each once")
    if settings.via == "ray" and settings.least > settings.most:
        yield NodeFault("least", f"{settings.least} is more than most: {settings.most}", "raise most, or lower it")


def _key_faults(settings: NodeSettings) -> Iterator[NodeFault]:
    engines = ENGINES.get(settings.via, ())
    engine = engine_of(settings)
    if engines and engine is None:
        keys = [one.by for one in engines if one.by is not None]
        hint = f"write {keys[0]}: NAME beside it, or --{keys[0]} NAME after awk node add"
        yield NodeFault("via", f"{settings.via} needs {' or '.join(keys)}", hint)
        return
    allowed = COMMON if engine is None else COMMON | engine.takes | {engine.by}
    plain = NodeSettings(via=settings.via)
    for key in NodeSettings.__struct_fields__:
        if getattr(settings, key) != getattr(plain, key) and key not in allowed:
            yield NodeFault(key, f"is not taken by via: {settings.via}", "remove it, or say another via")


def _word_faults(settings: NodeSettings) -> Iterator[NodeFault]:
    for key in _TEXTS:
        text = getattr(settings, key)
        if text is None:
            continue
        if text == "" or text.startswith("-") or not _is_plain(text):
            yield NodeFault(key, f"{text[:60]!r} cannot be given to a program", "write a plain name or address")
        elif " " in text and key not in _PATHS:
            yield NodeFault(key, f"{text[:60]!r} has a blank in it", f"write one {key}; each node has its own entry")
    for key in ("args", "argv"):
        words = getattr(settings, key)
        if len(words) > MOST_WORDS or not all(map(_is_plain, words)):
            hint = f"write at most {MOST_WORDS} words without control characters"
            yield NodeFault(key, "has a word that cannot be given to a program", hint)
    if settings.argv and settings.argv[0].startswith("-"):
        yield NodeFault("argv", "begins with an option", "begin with the program")
    try:
        program = shlex.split(settings.command)
    except ValueError:
        program = []
    if not program or program[0].startswith("-") or not _is_plain(settings.command):
        yield NodeFault("command", "is no program", "write command: agent-worker, or its path on that machine")


def _is_plain(text: str) -> bool:
    return text.isprintable() and len(text) <= MOST_CHARACTERS
