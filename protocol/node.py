"""Frames between a kernel and a node: a machine on which attempts run while the log stays with the kernel.

On the wire a frame is a length and a body in MessagePack, tagged ``t`` (kernel.procs.node.wire). A session lasts as
long as its transport: nothing is sent again.

A channel is a stream of bytes inside the transport: three for each process (``channel_of``), one for each connection
to the daemon's MCP. The reader grants the writer credit; the writer never has more than that on its way.
"""

import base64
import binascii
from typing import Annotated, Final

import msgspec

from protocol.instruction import Count
from protocol.ipc import Bound, Exited, Kill, Order

NODE_PROTOCOL: Final = 2
"""The newest version. From version 3 on the one before is accepted too; version 1 was never released."""
LEASE_SECONDS: Final = 15.0
"""From a beat that the kernel has echoed: for so long a node may run what it was given."""
BEAT_SECONDS: Final = 3.0
MARGIN_SECONDS: Final = 1.0
"""What a kernel waits after a lease is over: for trees to end, and for clocks that differ by a little."""

PREAMBLE: Final = b"\0agent-worker-node\n"
"""What a node says before its first frame, once the kernel has spoken: what a shell prints before is passed over."""
FRAME_LIMIT_BYTES: Final = 2 * 1024 * 1024
"""A whole command with its environment fits; bytes of a channel come in pieces of CHUNK_BYTES."""
CHUNK_BYTES: Final = 64 * 1024
CHANNEL_WINDOW_BYTES: Final = 256 * 1024
"""What one channel may have on its way, or waiting to be read."""
QUEUE_WINDOW_BYTES: Final = 4 * 1024 * 1024
"""Unsent bytes of one side before bytes of channels wait."""
QUEUE_LIMIT_BYTES: Final = 16 * 1024 * 1024
"""Unsent bytes of one side at most: a session whose other side reads nothing ends here."""
MOST_CONNECTIONS: Final = 1024
"""To the daemon's MCP, of one node."""
MOST_PROCESSES: Final = 4096


def agree(ours: tuple[int, int], theirs: tuple[int, int]) -> int | None:
    """Return the newest version that both sides speak; None if there is none. Each is (oldest, newest)."""
    newest = min(ours[1], theirs[1])
    return newest if newest >= max(ours[0], theirs[0]) else None


SPOKEN: Final = (max(NODE_PROTOCOL - 1, 2), NODE_PROTOCOL)
"""Oldest and newest version spoken here."""


class LeaseTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The time for which a node may work without a word from its kernel: the same on both sides; tests have others."""

    lease_seconds: float = LEASE_SECONDS
    beat_seconds: float = BEAT_SECONDS
    margin_seconds: float = MARGIN_SECONDS


Number = Annotated[int, msgspec.Meta(ge=1, le=2**48)]
"""Of a process or a connection: counted from 1 within a session by whoever opens them."""
Bytes = Annotated[int, msgspec.Meta(ge=1, le=CHANNEL_WINDOW_BYTES)]
Word = Annotated[str, msgspec.Meta(max_length=256)]
Path = Annotated[str, msgspec.Meta(max_length=4096)]
Sentence = Annotated[str, msgspec.Meta(max_length=2000)]


class _Frame(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", tag=str.lower, omit_defaults=True):
    pass


# -- greetings ------------------------------------------------------------------------------------------


class KernelHello(_Frame, frozen=True, kw_only=True, tag="kernel"):
    """The first frame of all. ``term`` grows with every start of a kernel of this project; a lower one is refused."""

    project: Word
    term: Count
    protocol: tuple[Count, Count] = SPOKEN
    version: Word = ""


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A node's own account of itself: to be shown, and to place work by. Nobody else is bound by it."""

    version: Word = ""
    cpus: Count = 1
    memory_bytes: Count = 0
    gpus: Count = 0
    home: Path = ""
    path: Annotated[str, msgspec.Meta(max_length=16384)] = ""
    state_dir: Path = ""
    """Its own folder, which has ``run/<attempt>/`` for each process."""
    mcp_url: Path = ""
    """Where processes there reach the daemon's MCP."""


class NodeHello(_Frame, frozen=True, kw_only=True, tag="node"):
    """Answer to ``kernel``: nothing of an earlier session is left. ``protocol`` is the version used from here on."""

    protocol: Count
    facts: NodeFacts


class Refusal(_Frame, frozen=True, kw_only=True, tag="refusal"):
    """Answer to ``kernel``, and the last frame. ``code``: version, project, term or busy."""

    code: Word
    why: Sentence


Greeting = KernelHello | NodeHello | Refusal

# -- the lease ------------------------------------------------------------------------------------------


class Beat(_Frame, frozen=True, kw_only=True, tag="beat"):
    """Node to kernel: the time by the node's own clock, which counts while the machine sleeps."""

    at_ms: Count


class Echo(_Frame, frozen=True, kw_only=True, tag="echo"):
    """Kernel to node: the beat came. The node's lease lasts from that time on."""

    at_ms: Count


# -- kernel -> node -------------------------------------------------------------------------------------


class Spawn(Order, frozen=True, kw_only=True, tag="spawn"):
    """Start a worker or a command."""

    process: Number


class Signal(_Frame, frozen=True, kw_only=True, tag="signal"):
    """Signal the child alone."""

    number: Annotated[int, msgspec.Meta(ge=1, le=64)]


class Destroy(_Frame, frozen=True, kw_only=True, tag="destroy"):
    """Kill the tree without the help of its keeper."""


class Tell(_Frame, frozen=True, kw_only=True, tag="tell"):
    """An order about ``process``: ``kill`` and ``bound`` are passed on to its keeper."""

    process: Number
    order: Kill | Bound | Signal | Destroy


class Release(_Frame, frozen=True, kw_only=True, tag="release"):
    """Nobody wants to know more of it: end what is left, remove its directory. The last frame about it."""

    process: Number


class Need(_Frame, frozen=True, kw_only=True, tag="need"):
    """Workers will import these."""

    modules: Annotated[tuple[Word, ...], msgspec.Meta(max_length=16)]


# -- node -> kernel -------------------------------------------------------------------------------------


class Spawned(_Frame, frozen=True, kw_only=True, tag="spawned"):
    """It has a keeper. ``pid`` is 0 where the child could not be started."""

    process: Number
    pid: Count
    keeper: Count


class NotSpawned(_Frame, frozen=True, kw_only=True, tag="notspawned"):
    """Nothing was started. ``in_use``: the attempt has a directory already."""

    process: Number
    why: Sentence
    in_use: bool = False


class ProcessEnded(_Frame, frozen=True, kw_only=True, tag="ended"):
    """Its keeper's last report: nothing of its tree is left."""

    process: Number
    exited: Exited


class Released(_Frame, frozen=True, kw_only=True, tag="released"):
    """The last frame about it: everything is closed, and its directory gone."""

    process: Number


class Opened(_Frame, frozen=True, kw_only=True, tag="opened"):
    """A process there has connected to the daemon's MCP."""

    connection: Number


# -- both ways: bytes ------------------------------------------------------------------------------------

Channel = Annotated[int, msgspec.Meta(ge=4, le=2**51)]
STDIN, STDOUT, STDERR, CONNECTION = 0, 1, 2, 3


def channel_of(number: int, role: int) -> int:
    """Return the channel of a process (``role`` STDIN, STDOUT or STDERR) or of a connection (CONNECTION)."""
    return 4 * number + role


class Data(_Frame, frozen=True, kw_only=True, tag="data"):
    """Bytes, at most as many as there is credit for."""

    channel: Channel
    data: Annotated[bytes, msgspec.Meta(min_length=1, max_length=CHUNK_BYTES)]


class End(_Frame, frozen=True, kw_only=True, tag="end"):
    """The sender writes no more; it still reads."""

    channel: Channel


class Close(_Frame, frozen=True, kw_only=True, tag="close"):
    """The sender neither writes nor reads any more. Its last frame about the channel."""

    channel: Channel


class Credit(_Frame, frozen=True, kw_only=True, tag="credit"):
    """The reader has taken ``size`` bytes, and as many more may come."""

    channel: Channel
    size: Bytes


ChannelFrame = Data | End | Close | Credit
KernelSays = Echo | Spawn | Tell | Release | Need | Data | End | Close | Credit
NodeSays = Beat | Spawned | NotSpawned | ProcessEnded | Released | Opened | Data | End | Close | Credit

# -- dialling home ---------------------------------------------------------------------------------------

JOIN_PREFIX: Final = "awk1."
JOIN_LINE_BYTES: Final = 512
"""The first bytes a node sends where it dials home: its token and a line feed. Then it waits for ``kernel``."""


class JoinWord(msgspec.Struct, frozen=True, kw_only=True):
    """All that a node needs to dial home: the argument of ``agent-worker node --join``. A secret: it has the token."""

    host: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    """Of the kernel's certificate in DER: no other one is spoken to."""
    token: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_-]{16,128}$")]
    node: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]

    def encode(self) -> str:
        """The word as text."""
        return JOIN_PREFIX + base64.urlsafe_b64encode(msgspec.msgpack.encode(self)).decode().rstrip("=")

    def line(self) -> bytes:
        """The first bytes that a node sends."""
        return f"{self.token}\n".encode()


def decode_join_word(text: str) -> JoinWord:
    """Read what ``JoinWord.encode`` wrote. Raises ValueError, which does not repeat what was read."""
    body = text.strip().removeprefix(JOIN_PREFIX)
    try:
        if body == text.strip() or len(body) > 4 * JOIN_LINE_BYTES:
            raise ValueError
        return msgspec.msgpack.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)), type=JoinWord)
    except (ValueError, binascii.Error, msgspec.DecodeError):
        raise ValueError(f"this is no join word: one begins with {JOIN_PREFIX} and comes from awk node add") from None
