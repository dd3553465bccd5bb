"""Clones of agents, in a sandbox or on another machine, and the untrusted packs they send.

The clone of a confined agent is a separate git directory. For all other programs the agent's tree
is a linked worktree of the project's repository. In the sandbox, a link file of the kernel replaces
the tree's ``.git`` and names the clone, which is the only writable git directory there. Objects of
the project are shared read-only. The kernel's git accesses the clone only inside the sandbox.

The agent's branch is transferred as data: the kernel asks for the name of one commit, and receives
a pack, but no ref, hook or setting. The pack is verified in a temporary view, and its objects are
added to the project only if all checks pass. ``index-pack --strict`` verifies each object: no
``.git`` in a path, no path out of the tree. Packs of a node are also refused if a checkout of them
would contain submodules, links out of the tree, or attributes that run a program of the user.
"""

import os
import posixpath
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import trio

from kernel.git.directory import GitDirectory
from kernel.git.fetch import BadObjects, parse_objects
from kernel.git.runner import COMMIT, Git, ProjectGit, failed
from kernel.git.view import GitView, copy_index, copy_settings, filter_sections, section, write_alternates
from kernel.store.transitions.worktrees import Worktree
from protocol.errors import Refused
from protocol.ipc import Sandbox

_CLONES: Final = ".clones"


def clone_of(tree: Worktree) -> str:
    """Return the path of the clone of ``tree``; the clone may not exist."""
    path = Path(tree.path)
    place, name = path.parents[2], path.relative_to(path.parents[2])
    return str(place / _CLONES / name)


def link_of(tree: Worktree) -> str:
    """Return the path of the file that replaces ``.git`` of ``tree`` in its agent's sandbox."""
    return f"{clone_of(tree)}.link"


def shared_objects(tree: Worktree) -> tuple[str, str]:
    """Return the folders of objects that the clone may read: a copy of borrowed objects, and the repository's own."""
    return f"{clone_of(tree)}.objects", f"{tree.repository}/objects"


def has_clone(tree: Worktree) -> bool:
    """Return whether the agent is confined: true from its first confined attempt until ``tree`` is removed."""
    return os.path.lexists(link_of(tree))


def remove_clone(tree: Worktree) -> None:
    """Remove the clone, if any. Blocks."""
    clone = clone_of(tree)
    with suppress(FileNotFoundError):
        os.unlink(link_of(tree))
    for path in (clone, f"{clone}.objects"):
        shutil.rmtree(path, ignore_errors=True)
    for folder in list(Path(clone).parents)[:3]:
        with suppress(OSError):
            folder.rmdir()


async def make_clone(git: ProjectGit, tree: Worktree, view: GitView) -> None:
    """Create the clone of ``tree`` from its ``view``. Raises Refused, SpawnTransient."""
    await trio.to_thread.run_sync(remove_clone, tree)  # an interrupted attempt may have left a part
    manner = await git.manner(GitDirectory(tree.git_dir, tree.repository, tree.path))
    if await trio.Path(tree.repository, "objects/info/alternates").exists():
        # The repository borrows objects from others, which are not visible in a sandbox.
        folder, _ = shared_objects(tree)
        await trio.Path(folder, "pack").mkdir(mode=0o700, parents=True)
        await git.said(view, "pack-objects", "--all", "--quiet", f"{folder}/pack/pack")
    refs = await git.said(view, "for-each-ref", "--format=%(objectname) %(refname)")
    tip = await git.said(view, "rev-parse", "--verify", f"refs/heads/{tree.branch}^{{commit}}")
    filters = await git.filters(view)
    # Configuration of the agent's git: data formats, the user's name and filters. The agent may change it.
    user = {key: value for key, value in (("name", manner.name), ("email", manner.email)) if value}
    rows = [manner.text, filter_sections(filters), section("core", {"logAllRefUpdates": "true"})]
    if user:
        rows.append(section("user", user))
    await trio.to_thread.run_sync(_write, tree, view, "".join(rows), refs, tip)


async def bring_back(git: ProjectGit, tree: Worktree, view: GitView, box: Sandbox) -> str:
    """Update the branch of ``tree`` from its agent's clone. ``view`` is the tree outside of the sandbox.

    Returns the branch's new commit. Raises SpawnTransient; Refused (setup_failed) if the commit is unusable.
    """
    branch = f"refs/heads/{tree.branch}"
    known = (await git.said(view, "rev-parse", "--verify", f"{branch}^{{commit}}")).decode().strip()
    clone = GitView(clone_of(tree), tree.path, box)
    asked = await git.run(clone, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{branch}^{{commit}}")
    tip = asked.stdout.decode("utf-8", "replace").strip()
    if not asked.ok or not COMMIT.fullmatch(tip):
        raise failed(f"the branch {tree.branch} cannot be read: {git.why(asked)}", f"see {clone_of(tree)}")
    if tip == known:  # the usual case after an attempt without commits
        return tip
    if not await has_commit(git, view, tip):  # otherwise nothing is new: a reset, or a commit of the project
        async with git.folder() as folder:
            pack = Path(folder, "pack")
            await write_pack(git, clone, tip, (known, tree.base), pack)
            await verify_pack(git, view, pack)
            await store_pack(git, view, pack)
    checked = ("rev-list", "--objects", "--quiet", tip, "--not", known, tree.base)
    await git.said(view, *checked)  # fails if an object is missing or the commits are not connected
    await git.said(view, "update-ref", branch, tip, known)  # fails if the branch has moved meanwhile
    index = {"GIT_INDEX_FILE": f"{tree.git_dir}/index"}
    await git.run(view, "read-tree", "--reset", tip, variables=index)  # may fail while another git holds the lock
    with suppress(OSError):
        await trio.to_thread.run_sync(copy_index, tree.git_dir, view.folder)
    return tip


async def unmerged(git: ProjectGit, tree: Worktree, view: GitView, box: Sandbox) -> int:
    """Return how many commits exist only in the clone, on branches that are not transferred; in doubt, 1."""
    clone = GitView(clone_of(tree), tree.path, box)
    refs = await git.said(view, "for-each-ref", "--format=^%(objectname)")
    words = ("rev-list", "--count", "--ignore-missing", "--all", "HEAD", "--stdin")
    counted = (await git.said(clone, *words, given=refs)).strip()
    return int(counted) if counted.isdigit() and len(counted) < 10 else 1  # in doubt, there is something to lose


def _write(tree: Worktree, view: GitView, config: str, refs: bytes, tip: bytes) -> None:
    clone = clone_of(tree)
    os.makedirs(f"{clone}/refs/heads", mode=0o700)
    os.makedirs(f"{clone}/info", mode=0o700)
    write_alternates(clone, shared_objects(tree))
    Path(clone, "config").write_text(config, "utf-8", "surrogateescape")
    without_branch = f"refs/heads/{tree.branch}"
    rows = (row for row in refs.splitlines() if row and not row.endswith(f" {without_branch}".encode()))
    Path(clone, "packed-refs").write_bytes(b"# pack-refs with: sorted \n" + b"".join(row + b"\n" for row in rows))
    branch = Path(clone, "refs/heads", tree.branch)
    branch.parent.mkdir(mode=0o700, parents=True)
    branch.write_bytes(tip)
    Path(clone, "HEAD").write_text(f"ref: refs/heads/{tree.branch}\n", "utf-8")
    copy_index(tree.git_dir, clone)
    copy_settings(view.folder, clone)
    link = Path(link_of(tree))
    Path(f"{link}.new").write_text(f"gitdir: {clone}\n", "utf-8", "surrogateescape")
    Path(f"{link}.new").rename(link)  # last, because the link proves a complete clone (has_clone)


PACK_BYTES: Final = 1024**3
"""Maximum size of an agent's additions to its branch in one transfer."""
_LIMITED: Final = f"--max-input-size={PACK_BYTES}"
_INDEX_PACK: Final = ("index-pack", "--stdin", "--strict", _LIMITED)
_LOOSE: Final = 100
"""Fewer objects than this are stored loose, as git itself does."""
_HEADER_BYTES: Final = 12
COMMITS: Final = 10_000
"""Maximum number of commits in one transfer."""
FILES_BYTES: Final = 4 * 1024**3
"""Maximum size after checkout of all new or changed files: a small pack can expand greatly."""
BLOBS_BYTES: Final = 16 * 1024 * 1024
"""Maximum size of the content of all new symbolic links and ``.gitattributes`` files."""
SHOWN: Final = 100
_LINK, _SUBMODULE, _GONE = "120000", "160000", "000000"
_SPACES: Final = b" \t\r\n"
"""White space as git defines it; git treats all other characters as part of a name."""
_WORDS: Final = re.compile('[ \\t\\r\\n"]+')
_DRIVERS: Final = frozenset({"text", "binary", "union"})
"""Merge drivers that are built into git."""


class CommitChange(NamedTuple):
    """A file that differs from all parents of a commit: mode, content, and content in each parent."""

    path: str
    mode: str
    blob: str
    before: tuple[str, ...]


def read_changes(raw: bytes) -> Iterator[CommitChange]:
    """Yield the changes in the output of ``git diff-tree --raw -z``, including merges. Raises ValueError."""
    words = raw.split(b"\0")
    for facts, path in zip(words[::2], words[1::2], strict=False):
        text = facts.decode("ascii")
        parents = len(text) - len(text.lstrip(":"))
        fields = text[parents:].split(" ")
        if not parents or len(fields) != 2 * parents + 3:
            raise ValueError(text)
        before = tuple(one for one in fields[parents + 1 : 2 * parents + 1] if one.strip("0"))
        yield CommitChange(path.decode("utf-8", "surrogateescape"), fields[parents], fields[2 * parents + 1], before)


def change_fault(change: CommitChange) -> str | None:
    """Return the reason why ``change`` is refused because of its name and mode, or None."""
    parts = change.path.split("/")
    if change.mode == _GONE:
        return None
    if any(part.casefold() in (".git", "", ".", "..") for part in parts):
        return f"a reserved git path: {_shown(change.path)}"
    if change.mode == _SUBMODULE or parts[-1].casefold() == ".gitmodules":
        return f"a submodule: {_shown(change.path)}"
    return None


def link_fault(path: str, target: bytes) -> str | None:
    """Return the reason why the link ``path`` is refused; None if it stays inside the tree."""
    words = target.decode("utf-8", "surrogateescape").split("/")
    up = next((number for number, word in enumerate(words) if word != ".."), len(words))
    depth = path.count("/")
    inner = words[up:]
    if target.startswith(b"/") or up > depth or ".." in inner or b"\0" in target:
        return f"a link that leads out of the tree: {_shown(path)}"
    return f"a link into the git folder: {_shown(path)}" if ".git" in (one.casefold() for one in inner) else None


def attributes_fault(path: str, text: bytes, before: Sequence[bytes]) -> str | None:
    """Return why the attributes ``text`` are refused, or None. Lines that are not in ``before`` may run no program."""
    known = {line.strip(_SPACES) for old in before for line in old.split(b"\n")}
    for line in (one.strip(_SPACES) for one in text.split(b"\n")):
        if line in known or line.startswith(b"#"):
            continue
        # After a quoted pattern, no space is required: the first word is the empty one before the quotes.
        for word in _WORDS.split(line.decode("utf-8", "replace"))[1:]:
            name, _, value = word.partition("=")
            if name == "filter" or (name == "merge" and value and value not in _DRIVERS):
                return f"an attribute that runs a program over files: {_shown(path)}: {_shown(word)}"
    return None


async def check_commits(git: ProjectGit, view: GitView, tip: str, known: Sequence[str]) -> None:
    """Raise Refused (setup_failed) if commits of ``tip`` that are not in ``known`` contain unsafe files."""
    listed = await git.said(view, "rev-list", f"--max-count={COMMITS + 1}", tip, "--not", *known)
    if listed.count(b"\n") > COMMITS:
        raise failed(f"more than {COMMITS} new commits", "inspect the branch")
    words = ("diff-tree", "--stdin", "-r", "-c", "-z", "--root", "--raw", "--no-renames", "--no-abbrev")
    raw = await git.said(view, *words, "--no-commit-id", given=listed)
    try:
        changes = tuple(read_changes(raw))
    except (ValueError, UnicodeDecodeError) as error:
        raise failed(f"the changes cannot be read: {str(error)[:SHOWN]!a}") from error
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


async def _check_size(git: ProjectGit, view: GitView, changes: Sequence[CommitChange]) -> None:
    blobs = [one.blob for one in changes if one.mode not in (_GONE, _SUBMODULE)]
    names = sorted(set(blobs))
    given = "".join(f"{name}\n" for name in names).encode()
    printed = await git.said(view, "cat-file", "--batch-check=%(objectsize)", given=given)
    rows = printed.decode("ascii", "replace").split()
    if len(rows) != len(names) or not all(row.isdecimal() for row in rows):
        raise failed("the file sizes cannot be read")
    sizes = dict(zip(names, map(int, rows), strict=True))
    if sum(sizes[blob] for blob in blobs) > FILES_BYTES:
        raise failed(f"the files exceed {FILES_BYTES // 2**20} MiB", "inspect the branch")


async def _blobs(git: ProjectGit, view: GitView, names: set[str]) -> dict[str, bytes]:
    if not names:
        return {}
    given = "".join(f"{name}\n" for name in sorted(names)).encode()
    printed = await git.run(view, "cat-file", "--batch", given=given, limit_bytes=BLOBS_BYTES)
    if not printed.ok:
        raise failed(f"links and attributes cannot be read: {git.why(printed)}")
    try:
        objects = parse_objects(printed.stdout)
    except BadObjects as error:
        raise failed(f"links and attributes cannot be read: {error}") from error
    for name, one in objects.items():
        if one.kind != b"blob":
            raise failed(f"links and attributes cannot be read: {name[:SHOWN]!a} is not a file")
    return {name: one.data for name, one in objects.items()}


def _shown(text: str) -> str:
    return f"{text[:SHOWN]!a}"


def _refuse(fault: str | None) -> None:
    if fault is not None:
        raise Refused("setup_failed", f"the commits contain {fault}", "inspect them on the node")


_FSCK: Final = (("transfer.fsckObjects", "true"), ("receive.fsckObjects", "true"), ("fetch.fsckObjects", "true"))


async def has_commit(git: ProjectGit, view: GitView, commit: str) -> bool:
    """Return whether ``commit`` exists in the repository."""
    return (await git.run(view, "cat-file", "-e", f"{commit}^{{commit}}")).ok


async def is_ancestor(git: ProjectGit, view: GitView, old: str, new: str) -> bool:
    """Return whether ``old`` is ``new`` or an ancestor of it."""
    return (await git.run(view, "merge-base", "--is-ancestor", old, new)).ok


async def write_pack(git: Git, view: GitView, tip: str, known: Sequence[str], into: Path, *how: str) -> None:
    """Write the objects of ``tip`` that ``known`` lacks to the new file ``into``. Raises Refused, SpawnTransient."""
    words = ("pack-objects", "--revs", "--stdout", "--delta-base-offset", "--quiet", *how)
    given = "".join((f"{tip}\n", *(f"^{one}\n" for one in known))).encode()
    packed = await git.run(view, *words, given=given, into=into, limit_bytes=PACK_BYTES)
    if not packed.ok:
        raise failed(f"{tip[:12]} cannot be packed{git.where}: {git.why(packed)}", f"see {view.top}{git.where}")


async def verify_pack(git: ProjectGit, view: GitView, pack: Path, *how: str) -> None:
    """Let git verify each object of ``pack`` in ``view``, which is temporary. Raises Refused, SpawnTransient."""
    await git.said(view, *_INDEX_PACK, *how, given=pack, settings=_FSCK)


async def store_pack(git: ProjectGit, view: GitView, pack: Path, *how: str) -> None:
    """Add the objects of the verified ``pack`` to the project. Raises Refused, SpawnTransient."""
    with pack.open("rb") as file:
        count = int.from_bytes(file.read(_HEADER_BYTES)[8:], "big")
    words = ("unpack-objects", "-q", "--strict", _LIMITED) if count < _LOOSE else (*_INDEX_PACK, *how)
    await git.said(view, *words, given=pack, variables={"GIT_OBJECT_DIRECTORY": objects_behind(view)})


def objects_behind(view: GitView) -> str:
    """Return the folder to which the project's objects are written."""
    return f"{os.path.realpath(f'{view.folder}/refs').removesuffix('/refs')}/objects"


async def _check_given(git: ProjectGit, view: GitView, tip: str, known: Sequence[str]) -> None:
    """Raise Refused if ``tip`` builds on commits of the project that the node did not receive.

    Otherwise the next update would send it these. Commits of the project's remotes are allowed: it may have them.
    """
    words = ("rev-list", "--count", tip, "--not", *known, "--remotes")
    if await git.said(view, *words) != await git.said(view, *words, "--all"):
        raise failed("the commits build on commits of the project that the node did not receive", "merge them here")


async def take_commits(git: ProjectGit, view: GitView, tip: str, known: Sequence[str], pack: Path) -> None:
    """Add the commits of ``tip`` that are not in ``known`` from ``pack`` to the project.

    No ref moves. Raises SpawnTransient; Refused (setup_failed) if a check fails: nothing is added.
    """
    try:
        await verify_pack(git, view, pack, "--fix-thin")
        if not await has_commit(git, view, tip):
            raise failed(f"{tip[:12]} is missing in the transferred pack")
        await git.said(view, "rev-list", "--objects", "--quiet", tip, "--not", *known)
        await _check_given(git, view, tip, known)
        await check_commits(git, view, tip, known)
    except Refused as refused:
        text = f"commits from the node are refused: {refused.text}"
        raise Refused(refused.code, text, refused.hint) from refused
    await store_pack(git, view, pack, "--fix-thin")
