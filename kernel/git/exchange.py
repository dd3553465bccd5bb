"""Exchange of commits with a clone, in a sandbox or on another machine, as packs that are not trusted.

A pack is verified in a temporary view, and its objects are added to the project only if all checks pass. No ref, hook
or setting is transferred: the kernel asks the other side for the name of one commit. git verifies each object
(``index-pack --strict``: no ``.git`` in a path, no path out of the tree). This module checks the effect of a checkout:
it refuses submodules, links out of the tree, and attributes that would run a program of the user over files.
"""

import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kernel.git.fetch import BadObjects, parse_objects
from kernel.git.runner import Git, ProjectGit, failed
from kernel.git.view import View
from protocol.errors import Refused

PACK_BYTES: Final = 1024**3
"""Of all that an agent adds to its branch at once."""
_LIMITED: Final = f"--max-input-size={PACK_BYTES}"
_INDEX_PACK: Final = ("index-pack", "--stdin", "--strict", _LIMITED)
_LOOSE: Final = 100
"""Fewer objects than this are kept one by one, as git does itself."""
_HEADER_BYTES: Final = 12
COMMITS: Final = 10_000
"""Taken at once."""
FILES_BYTES: Final = 4 * 1024**3
"""Of all files that are new or changed, as they would be written: a small pack can hold much."""
BLOBS_BYTES: Final = 16 * 1024 * 1024
"""Of all links and attributes that are new."""
SHOWN: Final = 100
_LINK, _SUBMODULE, _GONE = "120000", "160000", "000000"
_SPACES: Final = b" \t\r\n"
"""Those that git knows: what else may look like one is a part of a name. Lines end with LF alone."""
_WORDS: Final = re.compile('[ \\t\\r\\n"]+')
_DRIVERS: Final = frozenset({"text", "binary", "union"})
"""Ways to merge that are git's own."""


class Change(NamedTuple):
    """A file that a commit has otherwise than each of its parents: its mode and content, and what that was before."""

    path: str
    mode: str
    blob: str
    before: tuple[str, ...]


def read_changes(raw: bytes) -> Iterator[Change]:
    """The changes in the output of ``git diff-tree --raw -z``, of merges as well. Raises ValueError."""
    words = raw.split(b"\0")
    for facts, path in zip(words[::2], words[1::2], strict=False):
        text = facts.decode("ascii")
        parents = len(text) - len(text.lstrip(":"))
        fields = text[parents:].split(" ")
        if not parents or len(fields) != 2 * parents + 3:
            raise ValueError(text)
        before = tuple(one for one in fields[parents + 1 : 2 * parents + 1] if one.strip("0"))
        yield Change(path.decode("utf-8", "surrogateescape"), fields[parents], fields[2 * parents + 1], before)


def change_fault(change: Change) -> str | None:
    """The reason why ``change`` is not taken, as far as its name and mode tell; None where nothing is against it."""
    parts = change.path.split("/")
    if change.mode == _GONE:
        return None
    if any(part.casefold() in (".git", "", ".", "..") for part in parts):
        return f"a path of git's own in it: {_shown(change.path)}"
    if change.mode == _SUBMODULE or parts[-1].casefold() == ".gitmodules":
        return f"a submodule in it: {_shown(change.path)}"
    return None


def link_fault(path: str, target: bytes) -> str | None:
    """The reason why the link ``path`` is not taken; None where it stays in the tree, whatever links it passes."""
    words = target.decode("utf-8", "surrogateescape").split("/")
    up = next((number for number, word in enumerate(words) if word != ".."), len(words))
    depth = path.count("/")
    inner = words[up:]
    if target.startswith(b"/") or up > depth or ".." in inner or b"\0" in target:
        return f"a link that leads out of the tree: {_shown(path)}"
    return f"a link into git's own folder: {_shown(path)}" if ".git" in (one.casefold() for one in inner) else None


def attributes_fault(path: str, text: bytes, before: Sequence[bytes]) -> str | None:
    """The reason why the attributes in ``text`` are not taken: a line that is new has a program run over files."""
    known = {line.strip(_SPACES) for old in before for line in old.split(b"\n")}
    for line in (one.strip(_SPACES) for one in text.split(b"\n")):
        if line in known or line.startswith(b"#"):
            continue
        # A pattern in quotes may have no space behind it: the first word is the empty one before the quotes.
        for word in _WORDS.split(line.decode("utf-8", "replace"))[1:]:
            name, _, value = word.partition("=")
            if name == "filter" or (name == "merge" and value and value not in _DRIVERS):
                return f"an attribute that has a program run over files: {_shown(path)}: {_shown(word)}"
    return None


async def check_commits(git: ProjectGit, view: View, tip: str, known: Sequence[str]) -> None:
    """Raise Refused (setup_failed) where what ``tip`` has besides ``known`` holds something that is not taken."""
    listed = await git.said(view, "rev-list", f"--max-count={COMMITS + 1}", tip, "--not", *known)
    if listed.count(b"\n") > COMMITS:
        raise failed(f"it has more than {COMMITS} commits at once", "see what it is")
    words = ("diff-tree", "--stdin", "-r", "-c", "-z", "--root", "--raw", "--no-renames", "--no-abbrev")
    raw = await git.said(view, *words, "--no-commit-id", given=listed)
    try:
        changes = tuple(read_changes(raw))
    except (ValueError, UnicodeDecodeError) as error:
        raise failed(f"what it changes cannot be read: {str(error)[:SHOWN]!a}") from error
    for change in changes:
        _refuse(change_fault(change))
    await _check_size(git, view, changes)
    links = [one for one in changes if one.mode == _LINK]
    attributes = [
        one for one in changes if one.mode != _GONE and posixpath.basename(one.path).casefold() == ".gitattributes"
    ]
    before = {blob for one in attributes for blob in one.before}
    blobs = await _blobs(git, view, {one.blob for one in (*links, *attributes)} | before)
    for one in links:
        _refuse(link_fault(one.path, blobs[one.blob]))
    for one in attributes:
        _refuse(attributes_fault(one.path, blobs[one.blob], [blobs[blob] for blob in one.before]))


async def _check_size(git: ProjectGit, view: View, changes: Sequence[Change]) -> None:
    blobs = [one.blob for one in changes if one.mode not in (_GONE, _SUBMODULE)]
    names = sorted(set(blobs))
    given = "".join(f"{name}\n" for name in names).encode()
    printed = await git.said(view, "cat-file", "--batch-check=%(objectsize)", given=given)
    rows = printed.decode("ascii", "replace").split()
    if len(rows) != len(names) or not all(row.isdecimal() for row in rows):
        raise failed("the sizes of its files cannot be read")
    sizes = dict(zip(names, map(int, rows), strict=True))
    if sum(sizes[blob] for blob in blobs) > FILES_BYTES:
        raise failed(f"its files have more than {FILES_BYTES // 2**20} MiB", "see what they are")


async def _blobs(git: ProjectGit, view: View, names: set[str]) -> dict[str, bytes]:
    if not names:
        return {}
    given = "".join(f"{name}\n" for name in sorted(names)).encode()
    printed = await git.run(view, "cat-file", "--batch", given=given, limit_bytes=BLOBS_BYTES)
    if not printed.ok:
        raise failed(f"its links and attributes cannot be read: {git.why(printed)}")
    try:
        objects = parse_objects(printed.stdout)
    except BadObjects as error:
        raise failed(f"its links and attributes cannot be read: {error}") from error
    for name, one in objects.items():
        if one.kind != b"blob":
            raise failed(f"its links and attributes cannot be read: {name[:SHOWN]!a} is no file")
    return {name: one.data for name, one in objects.items()}


def _shown(text: str) -> str:
    return f"{text[:SHOWN]!a}"


def _refuse(fault: str | None) -> None:
    if fault is not None:
        raise Refused("setup_failed", f"there is {fault}", "look at it on the node")


_FSCK: Final = (("transfer.fsckObjects", "true"), ("receive.fsckObjects", "true"), ("fetch.fsckObjects", "true"))


async def has_commit(git: ProjectGit, view: View, commit: str) -> bool:
    """Return whether ``commit`` is here."""
    return (await git.run(view, "cat-file", "-e", f"{commit}^{{commit}}")).ok


async def is_ancestor(git: ProjectGit, view: View, old: str, new: str) -> bool:
    """Return whether ``new`` is ``old``, or follows from it."""
    return (await git.run(view, "merge-base", "--is-ancestor", old, new)).ok


async def write_pack(git: Git, view: View, tip: str, known: Sequence[str], into: Path, *how: str) -> None:
    """Write all that ``tip`` has besides ``known`` into the new file ``into``. Raises Refused, SpawnTransient."""
    words = ("pack-objects", "--revs", "--stdout", "--delta-base-offset", "--quiet", *how)
    given = "".join((f"{tip}\n", *(f"^{one}\n" for one in known))).encode()
    packed = await git.run(view, *words, given=given, into=into, limit_bytes=PACK_BYTES)
    if not packed.ok:
        raise failed(f"{tip[:12]} cannot be packed{git.where}: {git.why(packed)}", f"see {view.top}{git.where}")


async def verify_pack(git: ProjectGit, view: View, pack: Path, *how: str) -> None:
    """Have git verify each object of ``pack``, in ``view``: it goes with that. Raises Refused, SpawnTransient."""
    await git.said(view, *_INDEX_PACK, *how, given=pack, settings=_FSCK)


async def store_pack(git: ProjectGit, view: View, pack: Path, *how: str) -> None:
    """Add the objects of ``pack``, which was verified, to the project. Raises Refused, SpawnTransient."""
    with pack.open("rb") as file:
        count = int.from_bytes(file.read(_HEADER_BYTES)[8:], "big")
    words = ("unpack-objects", "-q", "--strict", _LIMITED) if count < _LOOSE else (*_INDEX_PACK, *how)
    await git.said(view, *words, given=pack, variables={"GIT_OBJECT_DIRECTORY": objects_behind(view)})


def objects_behind(view: View) -> str:
    """The folder that objects of the project are written to."""
    return f"{os.path.realpath(f'{view.folder}/refs').removesuffix('/refs')}/objects"


async def _check_given(git: ProjectGit, view: View, tip: str, known: Sequence[str]) -> None:
    """Raise Refused where ``tip`` follows from commits of the project that nobody gave to the node, but by their name.

    It would be sent them next. What the project has from its remotes it may have from there, too.
    """
    words = ("rev-list", "--count", tip, "--not", *known, "--remotes")
    if await git.said(view, *words) != await git.said(view, *words, "--all"):
        raise failed("it follows from commits of the project that the node was not given", "merge them here")


async def take_commits(git: ProjectGit, view: View, tip: str, known: Sequence[str], pack: Path) -> None:
    """Add the commits of ``tip`` besides ``known``, which are in ``pack``, to the project. No ref moves.

    Raises Refused (setup_failed) where anything is wrong with them, and then nothing is added; SpawnTransient.
    """
    try:
        await verify_pack(git, view, pack, "--fix-thin")
        if not await has_commit(git, view, tip):
            raise failed(f"{tip[:12]} is not in what came")
        await git.said(view, "rev-list", "--objects", "--quiet", tip, "--not", *known)
        await _check_given(git, view, tip, known)
        await check_commits(git, view, tip, known)
    except Refused as refused:
        text = f"what came from the node is not taken: {refused.text}"
        raise Refused(refused.code, text, refused.hint) from refused
    await store_pack(git, view, pack, "--fix-thin")
