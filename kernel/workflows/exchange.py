"""Commits that go to a clone on another machine, and come back: packs, of which nothing is believed.

What comes is verified in a view, which goes away with all of it where anything is wrong; only then it is added to the
project's objects. No ref, hook or setting comes along: of the other side there is one commit, whose name was asked for.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kernel.workflows.clone import PACK_BYTES, objects_behind
from kernel.workflows.foreign_commits import check_commits
from kernel.workflows.git_view import View
from kernel.workflows.project_git import ProjectGit, failed
from protocol.errors import Refused

COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LOOSE: Final = 100
"""Fewer objects than this are kept one by one, as git does itself."""
_FSCK: Final = (("transfer.fsckObjects", "true"), ("receive.fsckObjects", "true"), ("fetch.fsckObjects", "true"))


async def has_commit(git: ProjectGit, view: View, commit: str) -> bool:
    """Return whether ``commit`` is here."""
    return (await git.run(view, "cat-file", "-e", f"{commit}^{{commit}}")).ok


async def is_ancestor(git: ProjectGit, view: View, old: str, new: str) -> bool:
    """Return whether ``new`` is ``old``, or follows from it."""
    return (await git.run(view, "merge-base", "--is-ancestor", old, new)).ok


async def pack_commits(git: ProjectGit, view: View, tip: str, known: Sequence[str], into: Path) -> None:
    """Write all that ``tip`` has besides ``known`` into the new file ``into``. Raises Refused, SpawnTransient."""
    words = ("pack-objects", "--revs", "--thin", "--stdout", "--delta-base-offset", "--quiet")
    packed = await git.run(view, *words, given=wanted(tip, known), into=into, limit_bytes=PACK_BYTES)
    if not packed.ok:
        raise failed(f"{tip[:12]} cannot be packed for a node: {git.why(packed)}")


def wanted(tip: str, known: Sequence[str]) -> bytes:
    """The words by which git is told to pack ``tip`` without ``known``."""
    return "".join((f"{tip}\n", *(f"^{one}\n" for one in known))).encode()


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
    limited = f"--max-input-size={PACK_BYTES}"
    words = ("index-pack", "--stdin", "--fix-thin", "--strict", limited)
    try:
        await git.said(view, *words, given=pack, settings=_FSCK)  # into the view: it goes with that
        if not await has_commit(git, view, tip):
            raise failed(f"{tip[:12]} is not in what came")
        await git.said(view, "rev-list", "--objects", "--quiet", tip, "--not", *known)
        await _check_given(git, view, tip, known)
        await check_commits(git, view, tip, known)
    except Refused as refused:
        text = f"what came from the node is not taken: {refused.text}"
        raise Refused(refused.code, text, refused.hint) from refused
    with pack.open("rb") as file:
        count = int.from_bytes(file.read(12)[8:], "big")
    plain = ("unpack-objects", "-q", "--strict", limited)
    objects = {"GIT_OBJECT_DIRECTORY": objects_behind(view)}
    await git.said(view, *(plain if count < _LOOSE else words), given=pack, variables=objects)
