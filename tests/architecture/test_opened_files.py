"""Every file that is opened by its path, and who gets what is in it.

What reaches somebody who is trusted less (the holder of a token, a node, a sandbox, the page, an archive) is opened by
kernel.source or osfiles: without following links, a regular file only, of bounded size. Any other way to open a file by
its path fails here until it is listed, with the reason why nobody else has a say in what is there.
"""

import ast
from typing import Final

import pytest

from tests.architecture.sources import ROOT, Source, dotted, product

SAFE: Final = frozenset(
    {
        *("open_file", "open_path", "copy_path", "copy_open", "read_here", "folder_files", "first_line", "read_bytes"),
        *("copy_index", "copy_settings", "read_text", "read_tree", "_copy", "copy_one"),
    }
)
"""Functions that open, or call what opens, with O_NOFOLLOW, a check of the kind of file and a limit."""

SYSTEM: Final = "a file of the system's (/proc, /sys, /dev), or of our own package"
STATE: Final = "a file of ours in the directory of state, which is 0700; nobody else is told what it holds"
NAMED: Final = "named by the person who types the command, who alone is told"
MADE: Final = "made by us a moment ago, in a folder that is ours alone"

OPENED: Final[dict[str, str]] = {
    "interface/discovery.py::lives": SYSTEM,
    "interface/failure.py::line_of": NAMED,
    "interface/cli/generated_commands.py::verbs": SYSTEM,
    "kernel/source/backup_file.py::_nameless": "made here: O_TMPFILE, or a new name with O_NOFOLLOW",
    "kernel/procs/process_limits.py::open_standard": SYSTEM,
    "kernel/git/file_exchange.py::recorded": STATE,
    # awk: it runs with the rights of who types it, and tells nobody else.
    "interface/autostart.py::Starter._gave_up": STATE,
    "interface/cli/archive.py::Archive.__init__": NAMED,
    "interface/cli/commands/agent_edit.py::edit_by_hand": MADE,
    "interface/cli/commands/agent_edit.py::_new_folder": "an empty file of the user's, that must not be there",
    "interface/cli/commands/compare.py::Comparing.__init__": STATE,
    "interface/cli/commands/compare.py::Comparing._play": STATE,
    "interface/cli/commands/compare_arm.py::ArmRun._judge": STATE,
    "interface/cli/commands/project_setup.py::run_init": SYSTEM,
    "interface/cli/commands/agent_context.py::run_memory_eval": NAMED,
    "interface/cli/commands/decisions.py::rules_of": NAMED,
    "interface/cli/commands/send.py::_send_batch": NAMED,
    "interface/cli/commands/skills.py::run_skills_install_self": SYSTEM,
    "interface/cli/main.py::_opened": SYSTEM,
    "interface/cli/output.py::_to_nowhere": SYSTEM,
    "interface/cli/reports/writing.py::RunnerFiles._read": NAMED,
    "interface/cli/reports/writing.py::check_writable": NAMED,
    "interface/trust_file.py::is_below": SYSTEM,
    # The kernel.
    "kernel/agents/cli_extras.py::_copied": "written to an opened folder of a home that is ours, O_EXCL",
    "kernel/agents/personal_context.py::PersonalContexts.blank_logs": STATE,
    "kernel/agents/schedule.py::local_zone": SYSTEM,
    "kernel/operations/page.py::files": SYSTEM,
    "kernel/boot/discovery_record.py::boot_id": SYSTEM,
    "kernel/boot/discovery_record.py::listen": STATE,
    "kernel/boot/discovery_record.py::process_start_time": SYSTEM,
    "kernel/boot/discovery_record.py::withdraw": STATE,
    "kernel/fault_injection.py::_Crash.__init__": "a test's",
    "kernel/inspect/backup.py::_same": "compared with what a restore puts there; nobody is told what it holds",
    "kernel/inspect/backup.py::backup.fill": MADE,
    "kernel/inspect/doctor.py::sandbox": SYSTEM,
    "kernel/procs/command.py::_keep_head": "the new file of what a command printed, O_EXCL",
    "kernel/procs/command.py::_give": MADE,
    "kernel/procs/node/__main__.py::_take_standard_streams": SYSTEM,
    "kernel/procs/node/fence.py::_memory_bytes": SYSTEM,
    "kernel/procs/node/fence.py::TermFile.highest": STATE,
    "kernel/procs/node/fence.py::holder_of": STATE,
    "kernel/procs/procfs.py::_lines": SYSTEM,
    "kernel/procs/procfs.py::_environment": SYSTEM,
    "kernel/procs/procfs.py::_read": SYSTEM,
    "kernel/procs/procfs.py::boot_id": SYSTEM,
    "kernel/procs/attempt_dir.py::_signature": STATE,
    "kernel/services/embeddings.py::EmbeddingClient.__post_init__": STATE,
    "kernel/services/health.py::_free_in": SYSTEM,
    "kernel/services/health.py::_free_in_machine": SYSTEM,
    "kernel/services/health.py::_groups": SYSTEM,
    "kernel/services/installed_rules.py::find_installed": SYSTEM,
    "kernel/services/login_document.py::read_login": "the user's login, a link may lead to it; a part is lent",
    "kernel/services/logins.py::Logins._lock": STATE,
    "kernel/services/logins.py::Logins._put_home": STATE,
    "kernel/services/logins.py::Logins._record": STATE,
    "kernel/services/node_listener.py::_private_text": STATE,
    "kernel/services/node_listener.py::certificate_in": STATE,
    "kernel/services/node_listener.py::NodeListener._open": STATE,
    "kernel/services/prune.py::prune_files": "the directory of state itself",
    "kernel/services/working_directory.py::Placeholders.__init__": STATE,
    "kernel/services/working_directory.py::Placeholders.hold": "an empty file that is made, O_EXCL",
    "kernel/source/backup_file.py::_plain": NAMED,
    "kernel/source/backup_file.py::unpack": STATE,
    "kernel/source/restore_journal.py::_put_file": "written beside what is set aside, O_EXCL",
    "kernel/source/restore_journal.py::finish": STATE,
    "kernel/source/safe_paths.py::copy_open": "the new file of a copy, O_EXCL",
    "kernel/source/standby_place.py::copy_base": NAMED,
    "kernel/store/schema.py::_apply_next": SYSTEM,
    "kernel/store/snapshot.py::check_snapshot": SYSTEM,
    "kernel/git/clone.py::store_pack": MADE,
    "kernel/git/node_sync.py::NodeSync.bring": MADE,
    "kernel/workflows/remote.py::_read_commit": STATE,
    "kernel/workflows/setup.py::_copy_one": "the new file of a copy, O_EXCL and O_NOFOLLOW",
    "osfiles/safe_open.py::open_regular": "it is the safe opener: all of its flags are in FILE",
    "osfiles/atomic_write.py::open_new": "a new file, O_EXCL and O_NOFOLLOW",
}

LESS_TRUSTED: Final[dict[str, str]] = {
    "kernel/git/view.py::_copy": "a sandbox: exclude, attributes, shallow and index of the repository",
    "kernel/git/directory.py::first_line": "a sandbox: HEAD and the files of linked trees",
    "kernel/git/clone.py::_write": "a sandbox: the agent's clone",
    "kernel/git/tree_commits.py::take_over": "a tree: its index",
    "kernel/workflows/setup.py::_copy_one": "a tree: what .worktreeinclude names",
    "kernel/inspect/project_copy.py::_copy_files": "the runs of a comparison: the project",
    "kernel/inspect/backup.py::_files_in": "an archive: what agents keep",
    "kernel/inspect/backup.py::_has_branch": "who restores: whether a branch is there",
    "kernel/services/node_files.py::_packed": "a node: skills",
    "kernel/agents/context_files.py::ContextFiles.read": "the page and models: memory",
    "kernel/agents/context_files.py::put_note": "the page and models: notes",
    "kernel/services/mirror_files.py::DocumentFiles._read": "the page, models and nodes: documents",
    "kernel/services/logins.py::_copied": "the user's login: what a confined program made of its copy",
    "kernel/source/files.py::_FolderReading._below": "models and nodes: skills and own tools",
}
"""Who gets what is in a file, by the function that opens it."""


_DESCRIPTORS: Final = frozenset({"descriptor", "fd", "1"})


def opens_by_path(call: ast.Call) -> bool:
    """Whether ``call`` opens a file, by its path, in another way than kernel.source does."""
    name, text = dotted(call.func), ast.unparse(call)
    first = ast.unparse(call.args[0]) if call.args else ""
    if name in ("open", "io.open", "os.fdopen"):
        by_descriptor = first in _DESCRIPTORS or first.startswith(("os.open(", "open_", "os.memfd"))
        return not by_descriptor
    if name in ("os.open", "trio.open_file"):
        return not {"O_NOFOLLOW", "O_DIRECTORY", "FOLDER", "_DIRECTORY"} & {
            word for word in ("O_NOFOLLOW", "O_DIRECTORY", "FOLDER", "_DIRECTORY") if word in text
        }
    if name.startswith("shutil.copy"):
        return name != "shutil.copyfileobj"
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return method in ("read_bytes", "read_text") or (method == "open" and name in _PATHS)


_PATHS: Final = frozenset({"path.open", "file.open", "workflow.open", "target.open", "pack.open", "index.open"})
ROOMS: Final = ("kernel/", "interface/", "osfiles/")
"""A worker reads with the rights of its agent, and for it."""


def test_every_file_that_is_opened_by_its_path_is_listed() -> None:
    rooms = [source for source in product() if source.name.startswith(ROOMS)]
    found = {name for source in rooms for name, call in source.calls_by_function() if opens_by_path(call)}
    assert found - OPENED.keys() == set(), "open it with kernel.source.safe_paths, or say who has a say in it"
    assert OPENED.keys() - found == set()


@pytest.mark.promise("P15", "P28")
def test_what_reaches_who_is_trusted_less_is_opened_safely() -> None:
    calls: dict[str, set[str]] = {}
    for source in product():
        for name, call in source.calls_by_function():
            calls.setdefault(name, set()).add(dotted(call.func).rpartition(".")[2])
    for name, who in LESS_TRUSTED.items():
        assert calls[name] & SAFE, f"{name} reads for {who}"
        assert name not in OPENED or "O_EXCL" in OPENED[name]


@pytest.mark.parametrize(
    ("text", "by_path"),
    [
        ("open(path)", True), ("open(descriptor, 'rb')", False), ("open(open_file(a, b, 0))", False),
        ("Path(x).read_text()", True), ("shutil.copy2(a, b)", True), ("shutil.copytree(a, b)", True),
        ("os.open(path, os.O_RDONLY)", True), ("os.open(path, os.O_RDONLY | os.O_NOFOLLOW)", False),
    ],
)  # fmt: skip
def test_the_scan_finds_what_it_is_for(text: str, by_path: bool) -> None:
    """A gate that never closes is no gate."""
    [(_name, call), *_] = Source(ROOT / "kernel/app.py", text, ast.parse(text)).calls_by_function()
    assert opens_by_path(call) is by_path
