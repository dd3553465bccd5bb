"""Programs that run without a kernel, in keepers of this process: version queries of backends, and git.

Workflows and skills of other repositories are fetched and stored as by a kernel. Fetched content is not executed,
trusted or pinned: the first run does that. Skills are only listed.
"""

import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory

import trio

from kernel.agents.backends import command_of, probe_backends
from kernel.agents.environment import worker_environment
from kernel.agents.providers import CauseError
from kernel.agents.skills import INSTRUCTIONS, read_skill
from kernel.git.fetch import BadObjects, FetchGit, File, files_of, parse_objects
from kernel.procs.command import VersionProbes
from kernel.procs.launcher import Launcher, choose_launcher
from kernel.source.files import MAX_BYTES, MAX_FILES, FolderFile
from kernel.workflows.find import Checkout
from kernel.workflows.remote import Remotes
from protocol.agent import AgentDefinition
from protocol.api.kernel import BackendList
from protocol.backends import COMMANDED, acp_program
from protocol.errors import Refused
from protocol.inspection import DoctorRow, FetchedSkill, FetchedSkills, SkillFile
from protocol.remote_ref import Remote, RemoteRejected, is_commit, is_remote, parse_remote_folder, repository_url


@asynccontextmanager
async def open_launcher(
    run_dir: Path, environ: Mapping[str, str], *, kind: str | None = "exec"
) -> AsyncGenerator[Launcher]:
    """Yield a launcher that works in ``run_dir``. Raises a Refused of the block as it is, not in a group.

    ``kind``: ``exec`` is faster for a few programs; None is a kernel's default, for many.
    """
    refused: Refused | None = None
    async with trio.open_nursery() as nursery:
        launcher = choose_launcher(kind, platform=sys.platform, run_dir=run_dir, environ=environ)
        await nursery.start(launcher.run)
        try:
            yield launcher
        except Refused as error:
            refused = error
        nursery.cancel_scope.cancel()
    if refused is not None:
        raise refused


def fetch_readonly(root: Path, state: Path | None, asked: str, environ: Mapping[str, str]) -> Checkout | None:
    """Return the files of the remote ``asked``, stored in the state directory ``state``; None for a local name.

    Raises Refused (bad_request, fetch_failed), BadDefinition for an invalid lock.
    """
    if not is_remote(asked):
        return None
    if state is None:
        raise Refused("bad_request", f"{asked[:100]} is not stored here", "name the state directory: --state DIR")
    return trio.run(_fetch, root, state, asked, environ)


async def _fetch(root: Path, state: Path, asked: str, environ: Mapping[str, str]) -> Checkout:
    with tempfile.TemporaryDirectory(prefix="awk-fetch-") as run_dir:
        async with open_launcher(Path(run_dir), environ) as launcher:
            remotes = Remotes(state, root, launcher=launcher, environ=environ, own_bin=frozenset())
            return await remotes.checkout(asked)


def fetch_skills(asked: str, environ: Mapping[str, str]) -> FetchedSkills:
    """Return the skills in the folder ``asked``: ``github:owner/repo@ref/path``.

    Raises Refused (bad_request, fetch_failed), BadDefinition if its only skill is invalid.
    """
    try:
        remote = parse_remote_folder(asked)
        url = repository_url(remote, environ)
    except RemoteRejected as error:
        raise Refused("bad_request", str(error), error.hint) from error
    commit, files = trio.run(_fetch_commit, remote, url, environ)
    skills: list[FetchedSkill] = []
    wrong: list[Refused] = []  # reported only if no skill is valid, or as skipped
    for path, own in _folders(remote, files).items():
        try:
            if len(own) > MAX_FILES or sum(len(file.data) for file in own) > MAX_BYTES:
                raise Refused("fetch_failed", f"{path} has more than {MAX_FILES} files, or {MAX_BYTES // 2**20} MiB")
            found = read_skill(path, tuple(sorted(own, key=lambda file: file.name.encode())), Path())
            skill = FetchedSkill(
                name=found.skill.name,
                description=found.skill.description,
                digest=found.digest,
                files=tuple(SkillFile(name=file.name, program=file.kind == "program", data=file.data) for file in own),
            )
            skills.append(skill)
        except Refused as error:
            wrong.append(error)
    if wrong and not skills:
        raise wrong[0]
    if not skills:
        hint = f"a skill is a folder with a {INSTRUCTIONS}"
        raise Refused("not_found", f"{remote} contains no skill", hint)
    names = [skill.name for skill in skills]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Refused("fetch_failed", f"{remote} has two skills named {twice}", "name the folder of one of them")
    skipped = tuple(error.text for error in wrong)
    return FetchedSkills(source=str(remote), commit=commit, skills=tuple(skills), skipped=skipped)


async def _fetch_commit(remote: Remote, url: str, environ: Mapping[str, str]) -> tuple[str, tuple[File, ...]]:
    with tempfile.TemporaryDirectory(prefix="agent-worker-") as name:
        folder = Path(name)
        (folder / "git").mkdir()
        (folder / "run").mkdir(mode=0o700)
        async with open_launcher(folder / "run", worker_environment(environ)) as launcher:
            git = FetchGit(folder / "git", launcher=launcher, environ=environ, own_bin=frozenset())
            commit = await git.fetch(url, remote.ref)
            if not is_commit(commit) or (is_commit(remote.ref) and commit != remote.ref):
                raise Refused("fetch_failed", f"{url} returned another commit than requested: {commit[:40]!a}")
            objects = await git.objects()
    try:
        return commit, files_of(commit, parse_objects(objects))
    except BadObjects as error:
        raise Refused("fetch_failed", f"{remote} cannot be used: {error}") from error


def _folders(remote: Remote, files: tuple[File, ...]) -> dict[str, list[FolderFile]]:
    top = PurePath(remote.path).parts
    inside = [(PurePath(file.path.decode("utf-8", "replace")).parts, file) for file in files]
    below = [(parts[len(top) :], file) for parts, file in inside if parts[: len(top)] == top and len(parts) > len(top)]
    if any(parts == (INSTRUCTIONS,) for parts, _ in below):
        return {top[-1] if top else remote.repo: [_as_file(parts, file) for parts, file in below]}
    names = sorted({parts[0] for parts, _ in below if parts[1:] == (INSTRUCTIONS,)})
    return {name: [_as_file(parts[1:], file) for parts, file in below if parts[0] == name] for name in names}


def _as_file(parts: tuple[str, ...], file: File) -> FolderFile:
    return FolderFile("/".join(parts), "program" if file.program else "file", file.data)


def backends(environ: Mapping[str, str]) -> BackendList:
    """Return the answer of ``GET /backends`` of a kernel with this ``environ``."""
    env = worker_environment(environ, own_bin=frozenset({os.path.dirname(sys.executable)}))
    return trio.run(_survey, env)


async def _survey(env: dict[str, str]) -> BackendList:
    with TemporaryDirectory(prefix="agent-worker-") as folder:
        async with open_launcher(Path(folder), env) as launcher:
            return BackendList(backends=await probe_backends(env, VersionProbes(launcher, Path(folder)).ask))


def program_rows(definitions: Iterable[AgentDefinition], root: Path, path: str) -> Iterator[DoctorRow]:
    """Yield the program that each agent's file names. Runs none: a project's may need trust."""
    for one in definitions:
        if one.backend not in COMMANDED or not one.command:
            continue
        try:
            program = command_of(one, root, path)[0]
        except CauseError as error:
            yield DoctorRow(check="backends", ok=False, detail=error.text, fix="install it, or correct the key command")
            continue
        tested = acp_program(one.command).tested
        known = f", tested with version {tested}" if tested and one.backend == "acp" else ""
        yield DoctorRow(check="backends", ok=True, detail=f"{one.name} runs {program}{known}")
