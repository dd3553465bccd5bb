"""``awk runs``, ``diff``, ``merge`` and ``worktree``: runs of workflows, and what their agents did in git."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Final

from interface.cli.command_parser import Subcommand, Subcommands, duration
from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import Screen, escape, one_line, table
from interface.cli.parsing import Arguments, argument, json_flag, switch
from interface.cli.requests import RUNS, count_flag, show_list
from interface.cli.targets import RUN, target, workflow_target
from interface.client import new_key, quoted
from interface.failure import Failure
from protocol.api.runs import DiffReport, MergeInfo, RemovedWorktrees, RunList, WorktreeList

STATUSES: Final = ("running", "stopped", "done", "failed", "incomplete", "rejected", "cancelled", "timeout")
DEFAULT_COUNT: Final = 100
_DIFF_STYLES: Final = {"+": "green", "-": "red", "@": "cyan", "d": "bold"}
_RUN: Final = argument("--run", metavar="RUN", help="only of this run (r12)")
ARGUMENTS: Final[Mapping[str, Arguments]] = {
    "runs": (
        argument("target", metavar="@WORKFLOW[:TAG]", nargs="?", help="only runs of this workflow (default: all tags)"),
        argument("--status", choices=STATUSES, help="only runs with this status"),
        argument("--since", type=duration, metavar="D", help="only runs started within 10m, 2h, 7d, ..."),
        partial(count_flag, default=DEFAULT_COUNT, what="number of latest runs"),
        json_flag,
    ),
    "diff": (
        argument("target", metavar="TARGET|RUN", help="alice@review[:tag], @review[:tag], or run (r12)"),
        switch("--stat", about="print only files and numbers of lines"),
        json_flag,
    ),
    "merge": (
        argument("target", metavar="RUN|@WORKFLOW[:TAG]", help="run (r12), or workflow (@review: latest run)"),
        argument("--agent", metavar="NAME", help="only the branch of this agent (default: all)"),
        argument("--into", metavar="BRANCH", help="target branch (default: base branch of the run)"),
        argument("--squash", action="store_const", const=True, help="create one commit, not one merge per branch"),
        argument("--check", metavar="CMD", help="shell command that must succeed before the branch changes"),
        argument("--return", action="store_true", dest="give_back", help="return conflicts to agents as work"),
        switch("--dry-run", about="print the result without changes or checks"),
        json_flag,
    ),
    "worktree list": (_RUN,),
    "worktree rm": (
        argument("agents", metavar="AGENT", nargs="*", help="only of these agents (default: all of the run)"),
        argument("--run", metavar="RUN", required=True, help="ended run (r12)"),
        switch("--force", about="also delete unmerged or uncommitted work"),
    ),
    "worktree prune": (_RUN,),
}


def run_runs(context: Context) -> int:
    query: dict[str, str] = {}
    if context.args.target is not None:
        asked = workflow_target(context.args.target)
        query["workflow"] = str(asked.workflow)
        if ":" in context.args.target:
            query["tag"] = asked.tag
    if context.args.status is not None:
        query["status"] = context.args.status
    if context.args.since is not None:
        query["since"] = str(max(0, round((context.clock.wall() - context.args.since) * 1000)))
    return show_list(context, "/runs", RUNS, runs_lines, query)


def runs_lines(found: RunList, screen: Screen) -> list[str]:
    rows: list[list[str]] = []
    for row in found.runs:
        cost = "-" if row.cost_usd is None else f"${row.cost_usd:.4f}"
        took = f"{row.duration_seconds:.1f}s"
        rows.append([row.id, row.run, row.status or row.state, row.started_at, took, row.verdict or "-", cost])
    header = ["ID", "WORKFLOW", "STATUS", "STARTED", "DURATION", "VERDICT", "COST"]
    return table(header, rows, screen, right=frozenset({"DURATION", "COST"})) if rows else ["there are no such runs"]


def run_diff(context: Context) -> int:
    if RUN.fullmatch(context.args.target):
        client = context.kernel()
        place = json.loads(client.get(f"/runs/{context.args.target}"))["run"]
        answer = client.get(f"/spaces/{quoted(place)}/diff", {"run": context.args.target})
        return context.answer(answer, diff_lines)
    asked = target(context.args.target)
    if asked.workflow is None:
        hint = f"name a run (awk runs) or the workflow: {asked.agent}@WORKFLOW"
        raise Failure("bad_target", f"{asked.agent} has no working tree in direct conversations", hint)
    query: dict[str, str] = {} if asked.agent is None else {"agent": asked.agent}
    if asked.agent is not None and not context.args.stat:
        query["patch"] = "1"
    return context.answer(context.kernel().get(f"/spaces/{quoted(asked.space)}/diff", query), diff_lines)


def diff_lines(found: DiffReport, screen: Screen) -> list[str]:
    lines: list[str] = []
    for tree in found.worktrees:
        stat = tree.stat
        done = f"files: {stat.files}, lines: +{stat.added} -{stat.deleted}, commits: {stat.commits}"
        done += f", since {one_line(tree.base[:12])}"
        lines.append(f"{screen.style(one_line(tree.agent), 'bold')}  {one_line(tree.branch)}  {done}")
        lines.append(f"  in {one_line(tree.path)}" if tree.state != "planned" else "  not made yet: it has not begun")
        lines += [f"  kept: {one_line(tree.kept_because)}"] if tree.kept_because else []
        lines += [f"  {one_line(commit.id[:12])} {one_line(commit.subject)}" for commit in tree.commits]
        lines += [f"  +{file.added} -{file.deleted}\t{one_line(file.path)}" for file in tree.files]
        for line in tree.patch.splitlines():
            style = _DIFF_STYLES.get(line[:1])
            lines.append(escape(line) if style is None else screen.style(escape(line), style))
        lines += ["  [... truncated; run git diff in the working tree ...]"] if tree.truncated else []
    return lines or ["no working trees"]


_OPEN: Final = frozenset({"requested", "merging", "checked"})
FILES: Final = 100
"""Maximum number of displayed files that prevent a merge; ``--json`` lists more."""


def run_merge(context: Context) -> int:
    args = context.args
    name = args.target if RUN.fullmatch(args.target) else str(workflow_target(args.target).space)
    client = context.kernel()
    names = ("agent", "into", "squash", "check", "give_back", "dry_run")
    request = {one: getattr(args, one) for one in names}
    body = client.post(f"/runs/{quoted(name)}/merge", request, key=new_key())
    answer = json.loads(body)
    while answer["state"] in _OPEN:
        try:  # no timeout: the check may take long
            query = {"id": str(answer["id"]), "wait": "true"}
            body = client.get(f"/runs/{answer['run']}/merge", query, wait_seconds=None)
        except Failure as failure:
            if failure.code != "not_found":
                raise
            raise Failure("not_found", f"{answer['id']} is no longer stored", f"{context.program} runs") from failure
        answer = json.loads(body)
    context.answer(body, merge_lines)
    return Exit.FAILED if answer["state"] == "refused" else Exit.OK


def merge_lines(info: MergeInfo, screen: Screen) -> list[str]:
    lines = [_head(info, screen)]
    for one in info.branches:
        what = "conflicts" if one.conflict else f"commits: {one.commits}" if one.commits else "nothing new"
        lines.append(f"  {one_line(one.agent)}  {one_line(one.branch)}  {what}")
    lines += [f"  {screen.style(one_line(name), 'red')}" for name in info.files[:FILES]]
    lines += [f"  [... {len(info.files) - FILES} more files: --json lists them ...]"] if len(info.files) > FILES else []
    if info.output:
        lines += ["it printed:", *(f"  {line}" for line in escape(info.output).rstrip("\n").split("\n"))]
    if info.returned_to:
        lines.append(f"given back as {', '.join(info.returned_to)}: awk show {info.returned_to[0]}")
    return lines


def _head(info: MergeInfo, screen: Screen) -> str:
    into = one_line(info.into)
    why = f": {one_line(info.why)}" if info.why else ""
    if info.state == "refused":
        return f"{info.run} {screen.style('not merged', 'red')} into {into}{why}"
    if info.state == "possible":
        check = f"; it would be checked by: {one_line(info.check)}" if info.check else ""
        return f"{info.run} would be merged into {into}{check}"
    if info.commit is None:
        return f"{info.run} is not merged into {into}{why or ': there was nothing to merge'}"
    return f"{info.run} {screen.style('merged', 'green')} into {into} at {info.commit[:12]}{why}"


WORKTREE_VERBS: Final = Subcommands(
    "worktree",
    (
        Subcommand("list", "List working trees"),
        Subcommand("rm", "Delete the working trees of an ended run"),
        Subcommand("prune", "Delete all working trees of ended runs that contain no unmerged work"),
    ),
)


def run_worktree_list(context: Context) -> int:
    query = {} if context.args.run is None else {"run": context.args.run}
    return context.answer(context.kernel().get("/worktrees", query), worktrees_lines)


def worktrees_lines(listed: WorktreeList, screen: Screen) -> list[str]:
    found = listed.worktrees
    rows = [[row.run, row.agent, row.state, str(row.ahead), row.branch, row.path] for row in found]
    lines = table(["RUN", "AGENT", "STATE", "COMMITS", "BRANCH", "PATH"], rows, screen, right=frozenset({"COMMITS"}))
    kept = [one_line(f"{row.branch} was not deleted: {row.kept_because}") for row in found if row.kept_because]
    return [*lines, *kept] if rows else ["no working trees"]


def run_worktree_rm(context: Context) -> int:
    return _remove(context, {"run": context.args.run, "agents": context.args.agents, "force": context.args.force})


def run_worktree_prune(context: Context) -> int:
    _remove(context, {} if context.args.run is None else {"run": context.args.run})
    return 0


def _remove(context: Context, asked: dict[str, object]) -> int:
    answer = context.kernel().post("/worktrees/remove", asked, key=new_key())
    context.answer(answer, removed_lines)
    return 1 if json.loads(answer)["kept"] else 0


def removed_lines(done: RemovedWorktrees, _screen: Screen) -> list[str]:
    lines = [one_line(f"removed {row.branch} of {row.run}") for row in done.removed]
    for row in done.kept:
        way = f"awk worktree rm {row.agent} --run {row.run} --force"
        lines.append(one_line(f"kept {row.branch}: {row.kept_because or 'the tree is in use'} (merge it, or {way})"))
    return lines or ["nothing to remove"]
