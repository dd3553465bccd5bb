"""Frames between a kernel and a node: a machine on which attempts run while the log stays with the kernel.

A frame is sent as a length and a MessagePack body, tagged ``t`` (kernel.procs.node.wire). A session lasts as long as
its transport; no frame is sent again.

A channel is a stream of bytes inside the transport: three for each process (``channel_of``), one for each connection to
Daemon MCP. A reader grants credit: the writer never has more unacknowledged bytes than its credit.
"""

import base64
import binascii
from typing import Annotated, Final

import msgspec

from protocol.instruction import Count
from protocol.ipc import Bound, Exited, Kill, Order

NODE_PROTOCOL: Final = 2
"""Newest version. From version 3 on, the previous one is also accepted. Version 1 was never released."""
LEASE_SECONDS: Final = 15.0
"""Time for which a node may run its work, counted from the last beat that the kernel echoed."""
BEAT_SECONDS: Final = 3.0
MARGIN_SECONDS: Final = 1.0
"""Time that a kernel waits after a lease has expired: process trees have to end, and clocks may differ slightly."""

PREAMBLE: Final = b"\0agent-worker-node\n"
"""Bytes that a node sends after the kernel's first frame and before its own. Earlier output of a shell is ignored."""
FRAME_LIMIT_BYTES: Final = 2 * 1024 * 1024
"""Maximum size of a frame: enough for a command with its environment. Channel data is split into CHUNK_BYTES."""
CHUNK_BYTES: Final = 64 * 1024
CHANNEL_WINDOW_BYTES: Final = 256 * 1024
"""Maximum number of bytes of a channel that are in transit or not read yet."""
QUEUE_WINDOW_BYTES: Final = 4 * 1024 * 1024
"""Limit of the unsent bytes of one side. Above it, data of channels waits."""
QUEUE_LIMIT_BYTES: Final = 16 * 1024 * 1024
"""Maximum number of unsent bytes of one side. Above it the session ends, because the other side does not read."""
MOST_CONNECTIONS: Final = 1024
"""Maximum number of connections of a node to Daemon MCP."""
MOST_PROCESSES: Final = 4096


def agree(ours: tuple[int, int], theirs: tuple[int, int]) -> int | None:
    """Return the newest version in both ranges, or None if they share none. Each argument is (oldest, newest)."""
    newest = min(ours[1], theirs[1])
    return newest if newest >= max(ours[0], theirs[0]) else None


SPOKEN: Final = (max(NODE_PROTOCOL - 1, 2), NODE_PROTOCOL)
"""Oldest and newest supported version."""


class LeaseTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Times of the lease, the same on both sides. Tests use shorter ones."""

    lease_seconds: float = LEASE_SECONDS
    beat_seconds: float = BEAT_SECONDS
    margin_seconds: float = MARGIN_SECONDS


Number = Annotated[int, msgspec.Meta(ge=1, le=2**48)]
"""Number of a process or connection, counted from 1 in a session by the side that opens it."""
Bytes = Annotated[int, msgspec.Meta(ge=1, le=CHANNEL_WINDOW_BYTES)]
Word = Annotated[str, msgspec.Meta(max_length=256)]
Path = Annotated[str, msgspec.Meta(max_length=4096)]
Sentence = Annotated[str, msgspec.Meta(max_length=2000)]


class _Frame(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", tag=str.lower, omit_defaults=True):
    pass


# -- greetings ------------------------------------------------------------------------------------------


class KernelHello(_Frame, frozen=True, kw_only=True, tag="kernel"):
    """First frame of a session. ``term`` grows with every start of a project's kernel; nodes refuse a lower one."""

    project: Word
    term: Count
    protocol: tuple[Count, Count] = SPOKEN
    version: Word = ""


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that a node reports about itself, for display and for the placement of work."""

    version: Word = ""
    cpus: Count = 1
    memory_bytes: Count = 0
    gpus: Count = 0
    home: Path = ""
    path: Annotated[str, msgspec.Meta(max_length=16384)] = ""
    state_dir: Path = ""
    """Folder of the node process, with ``run/<attempt>/`` for each process."""
    mcp_url: Path = ""
    """URL at which processes on the node reach Daemon MCP."""


class NodeHello(_Frame, frozen=True, kw_only=True, tag="node"):
    """Answer to KernelHello, sent when no process of an earlier session is left. ``protocol`` is
    the version of this session."""

    protocol: Count
    facts: NodeFacts


class NodeRefusal(_Frame, frozen=True, kw_only=True, tag="refusal"):
    """Refusal of a kernel, the last frame of a session. ``code``: version, project, term or busy."""

    code: Word
    why: Sentence


Greeting = KernelHello | NodeHello | NodeRefusal

# -- the lease ------------------------------------------------------------------------------------------


class Beat(_Frame, frozen=True, kw_only=True, tag="beat"):
    """Node to kernel: the time of the node's clock, which also runs while the machine is suspended."""

    at_ms: Count


class Echo(_Frame, frozen=True, kw_only=True, tag="echo"):
    """Kernel to node: the beat of ``at_ms`` arrived. The lease counts from that time."""

    at_ms: Count


# -- kernel -> node -------------------------------------------------------------------------------------


class Spawn(Order, frozen=True, kw_only=True, tag="spawn"):
    """Order to start a worker or a command."""

    process: Number


class Signal(_Frame, frozen=True, kw_only=True, tag="signal"):
    """Order to send a signal to the child process only."""

    number: Annotated[int, msgspec.Meta(ge=1, le=64)]


class Destroy(_Frame, frozen=True, kw_only=True, tag="destroy"):
    """Order to kill the process tree directly, without the help of its keeper."""


class Tell(_Frame, frozen=True, kw_only=True, tag="tell"):
    """Order for ``process``. The node forwards ``kill`` and ``bound`` to the keeper."""

    process: Number
    order: Kill | Bound | Signal | Destroy


class Release(_Frame, frozen=True, kw_only=True, tag="release"):
    """Order to end a process's remaining tree and to delete its directory. The kernel's last
    frame about the process."""

    process: Number


class Need(_Frame, frozen=True, kw_only=True, tag="need"):
    """Order to preload ``modules``, because workers will import them."""

    modules: Annotated[tuple[Word, ...], msgspec.Meta(max_length=16)]


# -- node -> kernel -------------------------------------------------------------------------------------


class Spawned(_Frame, frozen=True, kw_only=True, tag="spawned"):
    """A process and its keeper were started. ``pid`` is 0 if the process's program could not be started."""

    process: Number
    pid: Count
    keeper: Count


class NotSpawned(_Frame, frozen=True, kw_only=True, tag="notspawned"):
    """No process was started. ``in_use``: the attempt already has a directory."""

    process: Number
    why: Sentence
    in_use: bool = False


class ProcessEnded(_Frame, frozen=True, kw_only=True, tag="ended"):
    """Last report of a process's keeper: no process of the tree is left."""

    process: Number
    exited: Exited


class Released(_Frame, frozen=True, kw_only=True, tag="released"):
    """Last frame about a process: its channels are closed and its directory is deleted."""

    process: Number


class Opened(_Frame, frozen=True, kw_only=True, tag="opened"):
    """A process on the node has connected to Daemon MCP."""

    connection: Number


# -- both ways: bytes ------------------------------------------------------------------------------------

Channel = Annotated[int, msgspec.Meta(ge=4, le=2**51)]
STDIN, STDOUT, STDERR, CONNECTION = 0, 1, 2, 3


def channel_of(number: int, role: int) -> int:
    """Return the channel of a process (``role`` STDIN, STDOUT or STDERR) or of a connection (CONNECTION)."""
    return 4 * number + role


class Data(_Frame, frozen=True, kw_only=True, tag="data"):
    """Bytes of a channel, within its credit."""

    channel: Channel
    data: Annotated[bytes, msgspec.Meta(min_length=1, max_length=CHUNK_BYTES)]


class End(_Frame, frozen=True, kw_only=True, tag="end"):
    """The sender has finished writing the channel, but still reads it."""

    channel: Channel


class Close(_Frame, frozen=True, kw_only=True, tag="close"):
    """The sender has finished writing and reading the channel. The sender's last frame about it."""

    channel: Channel


class Credit(_Frame, frozen=True, kw_only=True, tag="credit"):
    """The reader has consumed ``size`` bytes and accepts ``size`` further bytes."""

    channel: Channel
    size: Bytes


ChannelFrame = Data | End | Close | Credit
KernelSays = Echo | Spawn | Tell | Release | Need | Data | End | Close | Credit
NodeSays = Beat | Spawned | NotSpawned | ProcessEnded | Released | Opened | Data | End | Close | Credit

# -- joining ---------------------------------------------------------------------------------------------

JOIN_PREFIX: Final = "awk1."
JOIN_LINE_BYTES: Final = 512
"""Maximum length of a joining node's first line: its secret and a line feed. Then the node waits for ``kernel``."""


class JoinToken(msgspec.Struct, frozen=True, kw_only=True):
    """Join token: the argument of ``agent-worker node --join``, with which a node connects to the kernel. A secret."""

    host: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    """Digest of the kernel's certificate in DER. The node accepts no other certificate."""
    token: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_-]{16,128}$")]
    node: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]

    def encode(self) -> str:
        """Encode the join token as text."""
        return JOIN_PREFIX + base64.urlsafe_b64encode(msgspec.msgpack.encode(self)).decode().rstrip("=")

    def line(self) -> bytes:
        """Return the first line that a node sends."""
        return f"{self.token}\n".encode()


def decode_join_token(text: str) -> JoinToken:
    """Decode the text of ``JoinToken.encode``. Raises ValueError, whose text does not contain the token."""
    body = text.strip().removeprefix(JOIN_PREFIX)
    try:
        if body == text.strip() or len(body) > 4 * JOIN_LINE_BYTES:
            raise ValueError
        return msgspec.msgpack.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)), type=JoinToken)
    except (ValueError, binascii.Error, msgspec.DecodeError):
        text = f"invalid join token: a token starts with {JOIN_PREFIX} (awk node add prints a new one)"
        raise ValueError(text) from None
