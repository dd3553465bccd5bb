"""Workflows of other repositories, from a real git server: pinned, read as data, and asked about when they move."""

import os
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from kernel.agents.catalog import Catalog
from kernel.agents.trust import Untrusted
from kernel.git.fetch import BadObjects, FetchGit, GitObject, files_of, parse_objects
from kernel.procs.launcher import Launcher
from kernel.source.diagnostics import BadDefinition
from kernel.workflows.find import Checkout, pin, pinned
from kernel.workflows.prepare import PreparedWorkflow, prepare
from kernel.workflows.remote import Remotes
from protocol.api.workflows import StartRequest
from protocol.errors import Refused
from protocol.remote_ref import parse_remote
from protocol.trust import Grant
from tests.git_host import SERVED, GitHost, git_host
from tests.kernel.git.git_project import launched

REVIEW = """\
agents:
  carol:
    model: mock/x
    prompt: { system_file: prompts/carol.md }
    mock: [{ text: hi }]
setup:
  - shell: cat ${{ source.dir }}/VERSION
    as: version
kickoff: "@carol ${{ version }} of ${{ source.ref }} at ${{ source.commit }} from ${{ source.url }}"
"""
NAME = f"github:{SERVED}@v1/flows/review.yaml"


@pytest.fixture
def host(tmp_path: Path) -> Generator[GitHost]:
    with git_host(tmp_path / "host") as served:
        served.write("flows/review.yaml", REVIEW)
        served.write("prompts/carol.md", "You are Carol.\n")
        served.write("VERSION", "one\n")
        served.publish("v1")
        yield served


@dataclass
class Stage:
    """A project, and what fetches for it."""

    host: GitHost
    folder: Path
    launcher: Launcher
    environ: dict[str, str]

    @property
    def root(self) -> Path:
        return self.folder / "project"

    @property
    def remotes(self) -> Remotes:
        """As a new kernel has it."""
        return Remotes(
            self.folder / "state", self.root, launcher=self.launcher, environ=self.environ, own_bin=frozenset()
        )

    async def fetch(self, name: str = NAME, *, update: bool = False) -> Checkout:
        return await self.remotes.checkout(name, update=update)

    def prepared(self, checkout: Checkout, *consents: Grant, trusted: bool = False) -> PreparedWorkflow:
        asked = StartRequest(workflow=str(checkout.remote), trust=trusted)
        return prepare(Catalog(self.root), asked, checkout=checkout, environ={}, kept=lambda: consents)


@asynccontextmanager
async def stage(tmp_path: Path, host: GitHost) -> AsyncGenerator[Stage]:
    for folder in ("project", "state"):
        (tmp_path / folder).mkdir()
    async with launched(tmp_path) as launcher:
        yield Stage(host, tmp_path, launcher, {"PATH": os.environ["PATH"], **host.environ})


def consent(error: Untrusted) -> Grant:
    """What the user agrees to who agrees to all that was asked."""
    (want,) = error.wants
    return Grant(subject=want.subject, demands=want.demands, digest=want.digest, at="")


async def test_a_remote_workflow_is_fetched_pinned_and_told_where_it_came_from(tmp_path: Path, host: GitHost) -> None:
    async with stage(tmp_path, host) as on:
        found = await on.fetch()
        commit = host.git("rev-parse", "HEAD")
        assert (found.commit, (found.folder / "VERSION").read_text()) == (commit, "one\n")
        prepared = on.prepared(found, trusted=True)
        assert prepared.loaded.path == NAME
        (carol,) = prepared.loaded.members
        assert (carol.definition.prompt.system, carol.definition.prompt.system_file) == ("You are Carol.\n", None)
        assert {name: value for name, value in prepared.values.items() if name.startswith("source.")} == {
            "source.dir": str(found.folder),
            "source.ref": "v1",
            "source.commit": commit,
            "source.url": f"{host.environ['AGENT_WORKER_GITHUB_URL']}/{SERVED}.git",
        }
        assert pinned(on.root, found.remote) is None
        pin(on.root, found)
        lock = msgspec.json.decode((on.root / ".workflows/remote.lock").read_bytes())
        assert lock == {f"github:{SERVED}@v1": {"commit": commit, "digest": found.digest}}


@pytest.mark.promise("P19", "XF06")
async def test_a_moved_tag_changes_nothing_until_it_is_asked_for_and_agreed_to(tmp_path: Path, host: GitHost) -> None:
    async with stage(tmp_path, host) as on:
        first = await on.fetch()
        with pytest.raises(Untrusted, match=first.commit) as caught:
            on.prepared(first)
        agreed = consent(caught.value)
        assert on.prepared(first, agreed).spec.vouched == ()
        pin(on.root, first)
        host.write("VERSION", "two\n")
        moved = host.publish("v1")
        host.asked.clear()
        assert await on.fetch() == first
        assert host.asked == []
        second = await on.fetch(update=True)
        assert (second.commit, (second.folder / "VERSION").read_text()) == (moved, "two\n")
        with pytest.raises(Untrusted, match=f"changed since it was trusted: it comes from .*{moved}"):
            on.prepared(second, agreed)
        assert (await on.fetch()).commit == first.commit


async def test_a_pinned_commit_is_fetched_again_where_it_is_not_here(tmp_path: Path, host: GitHost) -> None:
    async with stage(tmp_path, host) as on:
        first = await on.fetch()
        pin(on.root, first)
        host.write("VERSION", "two\n")
        host.publish("v1")
        on.folder = tmp_path / "elsewhere"
        on.root.mkdir(parents=True)
        pin(on.root, first)
        again = await on.fetch()
        assert (again.commit, again.digest, again.folder != first.folder) == (first.commit, first.digest, True)


@pytest.mark.promise("P19")
async def test_what_was_fetched_and_changed_since_is_not_used(tmp_path: Path, host: GitHost) -> None:
    async with stage(tmp_path, host) as on:
        first = await on.fetch()
        pin(on.root, first)
        (first.folder / "VERSION").chmod(0o600)
        (first.folder / "VERSION").write_text("evil")
        assert (await on.fetch()) == first
        assert (first.folder / "VERSION").read_text() == "one\n"
        (first.folder / "more").symlink_to("/etc")
        assert (await on.fetch()) == first
        assert not (first.folder / "more").is_symlink()


@pytest.mark.promise("XF05")
async def test_a_repository_cannot_have_anything_followed_or_run(tmp_path: Path, host: GitHost) -> None:
    """Links, submodules, hooks, filters, attributes: only plain files come of it."""
    canary = tmp_path / "pwned"
    host.write(".gitattributes", "*.md filter=evil\n*.txt filter=lfs export-ignore ident eol=crlf\n")
    host.write(".lfsconfig", f"[lfs]\n url = file://{tmp_path}\n")
    host.write(".gitmodules", f'[submodule "x"]\n path = sub\n url = file://{tmp_path}\n update = !touch {canary}\n')
    host.write(".githooks/post-checkout", f"#!/bin/sh\ntouch {canary}\n")
    host.write("a.txt", "$Id$\n")
    (host.work / "secrets").symlink_to(tmp_path)
    (host.work / "passwd.yaml").symlink_to("/etc/passwd")
    host.git("update-index", "--add", "--cacheinfo", f"160000,{host.git('rev-parse', 'HEAD')},sub")
    host.publish("v1")
    evil = tmp_path / "home"
    evil.mkdir()
    (evil / ".gitconfig").write_text(
        f'[core]\n fsmonitor = touch {canary}\n[filter "evil"]\n smudge = touch {canary}\n'
    )
    async with stage(tmp_path, host) as on:
        on.environ |= {
            "HOME": str(evil), "GIT_SSH_COMMAND": f"touch {canary}", "GIT_EXTERNAL_DIFF": f"touch {canary}",
            "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": f"touch {canary}",
        }  # fmt: skip
        found = await on.fetch()
        assert [path for path in found.folder.rglob("*") if path.is_symlink()] == []
        assert (found.folder / "a.txt").read_bytes() == b"$Id$\n"
        assert not (found.folder / "sub").exists()
        with pytest.raises(Refused, match=r"file passwd\.yaml not found"):
            on.prepared(await on.fetch(f"github:{SERVED}@v1/passwd.yaml"), trusted=True)
        assert not canary.exists()
        assert list((on.folder / "state/remotes").glob("fetching*")) == []


async def test_a_private_repository_is_fetched_with_what_the_users_git_knows(tmp_path: Path, host: GitHost) -> None:
    host.authorization = "Basic YW5uYTpzZWNyZXQ="  # anna:secret
    home = tmp_path / "home"
    home.mkdir()
    async with stage(tmp_path, host) as on:
        on.environ["HOME"] = str(home)
        with pytest.raises(Refused, match="git fetch failed") as caught:
            await on.fetch()
        assert "private" in (caught.value.hint or "")
        helper = "!f() { cat >> $HOME/asked; echo username=anna; echo password=secret; }; f"
        (home / ".gitconfig").write_text(f'[credential]\n useHttpPath = true\n helper = "{helper}"\n')
        found = await on.fetch()
        assert (found.folder / "VERSION").read_text() == "one\n"
        assert f"path={SERVED}.git" in (home / "asked").read_text()
        kept = [path.read_bytes() for path in on.folder.rglob("*") if path.is_file() and home not in path.parents]
        assert not any(b"secret" in data or b"YW5uYTpzZWNyZXQ=" in data for data in kept)


@pytest.mark.promise("XF05")
async def test_a_configuration_of_the_project_is_not_asked_for_passwords(tmp_path: Path, host: GitHost) -> None:
    """Only the user's own says who is asked; a folder above the state directory is no part of it."""
    host.authorization = "Basic YW5uYTpzZWNyZXQ="
    canary = tmp_path / "pwned"
    host.git("init", "--quiet", str(tmp_path))
    (tmp_path / ".git/config").write_text(f'[credential]\n helper = "!touch {canary}"\n')
    async with stage(tmp_path, host) as on:
        with pytest.raises(Refused, match="git fetch failed"):
            await on.fetch()
    assert not canary.exists()


async def test_what_nobody_used_for_a_month_is_removed_and_what_is_pinned_stays(tmp_path: Path, host: GitHost) -> None:
    async with stage(tmp_path, host) as on:
        first = await on.fetch()
        pin(on.root, first)
        host.write("VERSION", "two\n")
        host.publish("v1")
        second = await on.fetch(update=True)
        died = on.folder / "state/remotes/fetching-died"
        died.mkdir()
        for path in (*on.folder.glob("state/remotes/*/*/*.sha256"), died):
            os.utime(path, (0, 0))
        host.write("VERSION", "three\n")
        host.publish("v1")
        third = await on.fetch(update=True)
        assert [one.folder.exists() for one in (first, second, third)] == [True, False, True]
        assert sorted(path.name for path in on.folder.glob("state/remotes/*")) == ["owner"]


@pytest.mark.promise("XF04")
@pytest.mark.parametrize(
    ("name", "code"),
    [
        (f"github:{SERVED}@v9/flows/review.yaml", "fetch_failed"),
        ("github:owner/nothing@v1/flows/review.yaml", "fetch_failed"),
        (f"github:{SERVED}@{'0' * 40}/flows/review.yaml", "fetch_failed"),
        ("github:owner/--upload-pack=x@v1/a.yaml", "bad_request"),
    ],
)
async def test_what_is_not_there_is_said_and_leaves_nothing(
    tmp_path: Path, host: GitHost, name: str, code: str
) -> None:
    async with stage(tmp_path, host) as on:
        with pytest.raises(Refused) as caught:
            await on.fetch(name)
        assert caught.value.code == code
        assert (host.asked == []) == (code == "bad_request")
        assert [path for path in (on.folder / "state").rglob("*") if path.name != "remotes"] == []


@pytest.mark.promise("XF04")
async def test_no_other_transport_is_taken_even_where_a_url_asks_for_one(tmp_path: Path, host: GitHost) -> None:
    canary, folder = tmp_path / "pwned", tmp_path / "workshop"
    folder.mkdir()
    async with stage(tmp_path, host) as on:
        git = FetchGit(folder, launcher=on.launcher, environ=on.environ, own_bin=frozenset())
        for url in (
            f"ext::sh -c touch% {canary}",
            f"file://{host.folder}/{SERVED}.git",
            f"{host.folder}/{SERVED}.git",
            "ssh://-oProxyCommand=x/y",
            "--upload-pack=x",
        ):
            with pytest.raises(Refused, match="only https and http"):
                await git.fetch(url, "v1")
    assert list(folder.iterdir()) == []
    assert not canary.exists()


@pytest.mark.promise("XF04")
async def test_a_host_cannot_send_git_elsewhere(tmp_path: Path, host: GitHost) -> None:
    with git_host(tmp_path / "other") as other:
        other.write("flows/review.yaml", REVIEW)
        other.publish("v1")
        host.redirect_to = other.environ["AGENT_WORKER_GITHUB_URL"]
        async with stage(tmp_path, host) as on:
            with pytest.raises(Refused, match="git fetch failed"):
                await on.fetch()
        assert other.asked == []


async def test_a_lock_that_says_something_else_is_not_passed_over(tmp_path: Path, host: GitHost) -> None:
    async with stage(tmp_path, host) as on:
        first = await on.fetch()
        pin(on.root, first)
        lock = on.root / ".workflows/remote.lock"
        sound = lock.read_text()
        for wrong in (
            sound.replace(first.digest, "0" * 64),
            sound.replace(first.commit, "--upload-pack=x"),
            "{",
            "[]",
            sound.replace("digest", "dogest"),
        ):
            lock.write_text(wrong)
            with pytest.raises(BadDefinition, match=r"remote\.lock"):
                await on.fetch()
        lock.unlink()
        os.mkfifo(lock)
        with pytest.raises(BadDefinition, match="not a regular file"):
            await on.fetch()
        lock.unlink()
        lock.parent.rmdir()
        (tmp_path / "outside").mkdir()
        lock.parent.symlink_to(tmp_path / "outside")
        with pytest.raises(Refused):
            pin(on.root, first)
        assert list((tmp_path / "outside").iterdir()) == []


def _tree(*entries: bytes) -> dict[str, GitObject]:
    objects = {"c" * 40: GitObject(b"commit", b"tree " + b"a" * 40 + b"\nauthor x\n")}
    return objects | {"a" * 40: GitObject(b"tree", b"".join(entries)), "b" * 40: GitObject(b"blob", b"x")}


@pytest.mark.promise("XF05")
@pytest.mark.parametrize("name", [b"..", b".", b"", b"a/b", b"/etc/passwd", b".git", b".GIT"])
def test_a_tree_with_a_name_that_leads_elsewhere_is_refused(name: bytes) -> None:
    blob = bytes.fromhex("bb" * 20)
    with pytest.raises(BadObjects):
        files_of("c" * 40, _tree(b"100644 " + name + b"\0" + blob))
    assert [file.path for file in files_of("c" * 40, _tree(b"100644 ok\0" + blob))] == [b"ok"]


@pytest.mark.promise("XF05")
@pytest.mark.parametrize(
    "data", [b"100644 ok\0short", b"100644", b"100644 ok", b"40000 loop\0" + bytes.fromhex("aa" * 20)]
)
def test_a_tree_that_is_broken_or_endless_is_refused(data: bytes) -> None:
    with pytest.raises(BadObjects):
        files_of("c" * 40, _tree(data))
    with pytest.raises(BadObjects):
        parse_objects(b"no such\nthing")


@pytest.mark.promise("XF05")
def test_a_few_objects_that_pretend_to_be_billions_are_refused() -> None:
    objects = {"c" * 40: GitObject(b"commit", b"tree " + b"%040d" % 0 + b"\n")}
    for depth in range(60):
        below = bytes.fromhex(f"{depth + 1:040d}")
        objects[f"{depth:040d}"] = GitObject(b"tree", b"".join(b"40000 %d\0" % n + below for n in range(10)))
    objects[f"{60:040d}"] = GitObject(b"tree", b"")
    with pytest.raises(BadObjects, match="entries"):
        files_of("c" * 40, objects)
    blob = bytes.fromhex("bb" * 20)
    same = _tree(*(b"100644 %d\0" % n + blob for n in range(9)))
    with pytest.raises(BadObjects, match="64 MiB"):
        files_of("c" * 40, same | {"b" * 40: GitObject(b"blob", bytes(8 * 2**20))})


def test_a_remote_workflow_is_not_looked_for_among_files(tmp_path: Path) -> None:
    asked = StartRequest(workflow=str(parse_remote(NAME)))
    with pytest.raises(Refused, match="the first run fetches it"):
        prepare(Catalog(tmp_path), asked, environ={})
