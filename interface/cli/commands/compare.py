"""``awk run --compare``: run a comparison and print its runs and result."""

import fcntl
import os
import random
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from interface import offline
from interface.autostart import make_private
from interface.cli.commands.compare_arm import COULD_NOT_WORK, ArmRun
from interface.cli.context import Context
from interface.cli.exits import Exit, Interrupted, interruptible
from interface.cli.output import Screen, escape, one_line, table
from interface.cli.prompts import agrees_to_trust, can_ask
from interface.client import new_key
from interface.comparison import ALPHA, MARGIN, order, report
from interface.discovery import URL, Project
from interface.failure import Failure
from interface.trust_file import TrustFile
from osfiles.atomic_write import replacing
from protocol.api.runs import RunRequest
from protocol.comparison import COMPARISONS, RECORD, ArmFigures, ArmName, ComparedRun, ComparedTerms, Comparison
from protocol.names import number_of


def union_lines(terms: ComparedTerms) -> list[str]:
    each, solo = terms.request, terms.solo
    money = [] if each.max_cost_usd is None else [f"${each.max_cost_usd:g}"]
    money += [] if each.max_tokens is None else [f"{each.max_tokens:,} tokens"]
    whole = [] if terms.total_cost_usd is None else [f"${terms.total_cost_usd:g}"]
    whole += [] if terms.total_tokens is None else [f"{terms.total_tokens:,} tokens"]
    ends = f", {' and '.join(whole)} for all" if whole else ""
    return [
        f"team: {', '.join(map(one_line, solo.members))}; one agent: {solo.agent}, with all their prompts and tools",
        *(f"  {one_line(note)}" for note in solo.notes),
        f"at most {terms.repeat} pairs of runs, {' and '.join(money)} for each run{ends}; seed {terms.seed}",
        f"success: {one_line(terms.check)}"
        if terms.check is not None
        else "no --check: nothing will be said of quality",
    ]


def run_line(run: ComparedRun, repeat: int) -> str:
    success = "" if run.success is None else ", check passed" if run.success else ", check failed"
    why = f" ({one_line(run.why)[:100]})" if run.why else ""
    took = run.figures
    cost = "" if took.cost_usd is None else f", ${took.cost_usd:.4f}"
    head = f"pair {run.pair}/{repeat}, {run.arm}: {run.status} after {took.seconds:.1f}s"
    return f"{head}{success}{why}, {took.tokens:,.0f} tokens{cost}"


def comparison_lines(seen: Comparison, screen: Screen) -> list[str]:
    lines = arms_table(seen.arms, screen)
    lines += [
        f"{name}, team minus solo: {_percent(one.mean)}, between {_percent(one.low)} and {_percent(one.high)}"
        f"{'' if name == 'success' else ' of what both took'}"
        for name, one in seen.differences.items()
    ]
    if seen.differences:
        units = {"cost_usd": "USD", "tokens": "tokens", "mixed": "USD, or tokens where no price is known"}
        lines.append(f"({seen.level:.1%} for each interval, at every look; cost in {units[seen.measure]})")
    style = {"team": "green", "solo": "green"}.get(seen.verdict, "yellow")
    lines.append(f"verdict: {screen.style(seen.verdict, style)}: {seen.quality}")
    if seen.verdict == "undecided" and seen.cheaper is not None:
        lines.append(f"cheaper: {seen.cheaper}")
    if seen.why:
        lines += [escape(line) for line in f"it ended early: {seen.why}".split("\n")]
    return lines


def arms_table(arms: Mapping[ArmName, ArmFigures], screen: Screen) -> list[str]:
    header = ["ARM", "SUCCESS", "TOKENS", "COST", "TIME", "HOPS", "COORDINATION", "REWORK"]
    rows: list[list[str]] = []
    for name, arm in arms.items():
        one = arm.figures
        coordination = f"{one.coordination.messages:.0%} of messages, {one.coordination.tokens:.0%} of tokens"
        success = "-" if arm.success is None else f"{arm.success:.0%}"
        cost = "-" if one.cost_usd is None else f"${one.cost_usd:.4f}"
        again = one.rework.retries + one.rework.returned + one.rework.rejected
        took = [f"{one.tokens:,.0f}", cost, f"{one.seconds:.1f}s", f"{one.hops:.1f}", coordination, f"{again:.1f}"]
        rows.append([name, success, *took])
    return table(header, rows, screen) if rows else []


def _percent(part: float) -> str:
    return f"{part:+.0%}"


REPEAT: Final = 10
"""Default number of pairs; nine wins of one side are decisive."""
_BASE: Final = "base"
_SOLO: Final = "solo"
_LOCK: Final = "lock"


def run_compare(context: Context) -> int:
    args = context.args
    given = {"--detach": args.detach, "--jsonl": args.jsonl, "--continue": args.go_on, "--update": args.update}
    wrong = next((flag for flag, value in given.items() if value), None)
    if wrong is not None:
        hint = "each run of a comparison starts empty and runs to its end"
        raise Failure("usage", f"{wrong} cannot be used in a comparison", hint)
    if context.environ.get(URL):
        raise Failure("usage", f"{URL} is set, but a comparison starts its own kernels", f"unset {URL}")
    home = os.path.join(context.project.state, COMPARISONS)
    if args.resume is not None:
        folder = os.path.join(home, args.resume)
        if number_of(args.resume, "c") is None or not os.path.isfile(os.path.join(folder, RECORD)):
            names = sorted(os.listdir(home)) if os.path.isdir(home) else []
            there = [name for name in names if os.path.isfile(os.path.join(home, name, RECORD))]
            hint = f"available comparisons: {', '.join(there)}" if there else "this project has no comparisons"
            raise Failure("not_found", f"comparison {args.resume[:40]!r} not found", hint)
        with _alone(folder):
            return Comparing(context, folder).go_on()
    folder = _new_folder(home)
    with _alone(folder):
        try:
            terms = _terms(context, folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        if args.dry_run:
            shutil.rmtree(folder, ignore_errors=True)
            if args.json:
                context.out.document(msgspec.json.encode(terms))
            else:
                context.out.lines(union_lines(terms))
            return Exit.OK
        context.out.notes(union_lines(terms))
        begun = Comparison(
            id=os.path.basename(folder), folder=folder, state="running", quality="", exit_code=Exit.INCOMPLETE,
            level=1 - ALPHA / 2, alpha=ALPHA, terms=terms,
        )  # fmt: skip
        keep(folder, begun)
        return Comparing(context, folder).go_on()


def _new_folder(home: str) -> str:
    make_private(home)
    number = max((number_of(name, "c") or 0 for name in os.listdir(home)), default=0)
    while True:
        number += 1
        folder = os.path.join(home, f"c{number}")
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            continue
        return folder


@contextmanager
def _alone(folder: str) -> Generator[None]:
    """Lock the folder of a comparison against other processes. Raises Failure if another process holds the lock."""
    descriptor = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise Failure("already_running", f"comparison {os.path.basename(folder)} is already running") from error
    finally:
        os.close(descriptor)


def _terms(context: Context, folder: str) -> ComparedTerms:
    args = context.args
    asked = context.workflow(args.workflow)
    if asked.startswith("github:"):
        raise Failure("usage", "the workflow is outside the project", "copy the file into .workflows first")
    home = os.path.realpath(os.path.dirname(os.path.dirname(context.project.state)))
    base, solo = os.path.join(folder, _BASE), os.path.join(folder, _SOLO)
    shell, copy_project = offline.shell_environment(context.environ), offline.project_copy.copy_project
    copy = copy_project(Path(context.project.root), base, home, shell)
    root = os.path.join(base, copy.inside)
    told = offline.preview.solo_workflow(Path(root), asked)
    cost, tokens = _least(args.max_cost, told.cost_usd), _least(args.max_tokens, told.tokens)
    repeat = args.repeat or REPEAT
    if cost is None and args.total_cost is not None:
        cost = args.total_cost / (2 * repeat)
    if tokens is None and args.total_tokens is not None:
        tokens = max(1, args.total_tokens // (2 * repeat))
    if cost is None and tokens is None:
        text = f"a comparison is up to {2 * repeat} runs without a cost limit"
        raise Failure("usage", text, "set --max-cost or --max-tokens per run, or --total-cost or --total-tokens")
    copy_project(Path(root), solo, home, shell, file=told.path, text=told.text)
    alone = os.path.join(solo, copy.inside)
    offline.plan(Project(alone, context.project.state), told.path, args.tag, context.params, context.environ)
    request = RunRequest(
        workflow=told.path,
        tag=args.tag,
        params=context.params,
        timeout_seconds=args.timeout,
        max_cost_usd=cost,
        max_tokens=tokens,
        exit_code_from=args.exit_code_from,
        approve=args.approve,
        agree=_agreed(context, root, alone, told.path),
    )
    return ComparedTerms(
        workflow=asked,
        solo=told,
        request=request,
        git=copy.git,
        inside=copy.inside,
        repeat=repeat,
        seed=random.SystemRandom().randrange(2**31) if args.seed is None else args.seed,
        margin=MARGIN if args.margin is None else args.margin,
        check=args.check,
        total_cost_usd=args.total_cost,
        total_tokens=args.total_tokens,
    )


def _agreed(context: Context, root: str, alone: str, path: str) -> tuple[str, ...]:
    """Return the digests of all demands of both arms, once the user trusts them. Raises Failure (untrusted).

    The single agent has the demands of all team members, so the user is asked about the team only.
    """
    state = context.project.state
    wanted, solo = (
        offline.trust_demands(Project(place, state), [path], context.environ).units for place in (root, alone)
    )
    kept = {one.digest for one in TrustFile(context.project).kept()}
    missing = [one for one in wanted if one.digest not in kept]
    if missing and not context.trusts:
        demands = "; ".join(str(demand) for one in missing for demand in one.demands)
        hint = "repeat with --trust, or review and trust the files: awk trust"
        refused = Failure("untrusted", f"not trusted yet: {demands[:500]}", hint, wants=msgspec.to_builtins(missing))
        if not can_ask(context) or not agrees_to_trust(context, refused):
            raise refused
    return tuple(one.digest for one in (*wanted, *solo))


def _least(*limits: Any) -> Any:
    return min((one for one in limits if one is not None), default=None)


def keep(folder: str, seen: Comparison) -> None:
    path = os.path.join(folder, RECORD)
    with replacing(path, beside=f"{path}.new") as file:
        file.write(msgspec.json.encode(seen))


class Comparing:
    """Comparison in progress, new or resumed."""

    def __init__(self, context: Context, folder: str) -> None:
        self._context = context
        self._folder = folder
        with open(os.path.join(folder, RECORD), "rb") as file:
            seen = msgspec.json.decode(file.read(), type=Comparison)
        args, terms = context.args, seen.terms
        if context.workflow(args.workflow) != terms.workflow:
            hint = f"name that workflow instead of {args.workflow[:60]}"
            raise Failure("usage", f"{seen.id} compares {terms.workflow}", hint)
        asked = {"repeat": args.repeat, "total_cost_usd": args.total_cost, "total_tokens": args.total_tokens}
        changed = {key: value for key, value in asked.items() if value is not None}
        self._seen = msgspec.structs.replace(
            seen, state="running", why="", terms=msgspec.structs.replace(terms, **changed)
        )

    def go_on(self) -> int:
        """Execute pairs of runs until the comparison ends, print the result, and return the exit code."""
        code: int | None = None
        try:
            with interruptible():
                self._pairs()
        except Interrupted as interrupted:
            code = interrupted.exit_code
            self._end("interrupted", "interrupted")
        except Failure as failure:
            self._end("failed", failure.text)
            self._context.out.note(self._way_on())
            raise
        seen = self._seen
        if seen.state == "failed":
            code = next(run.exit_code for run in reversed(seen.runs) if run.exit_code is not None)
        if code is not None:
            self._context.out.note(self._way_on())
        elif self._context.args.fail_on == "never":
            code = Exit.OK
        told = msgspec.structs.replace(seen, exit_code=seen.exit_code if code is None else int(code))
        out = self._context.out
        if self._context.args.json:
            out.document(msgspec.json.encode(told))
        else:
            out.lines(comparison_lines(told, out.screen))
        return told.exit_code

    def _way_on(self) -> str:
        terms = self._seen.terms
        words = f"{self._context.program} run {terms.workflow} --compare solo --resume {self._seen.id}"
        return f"note: results so far are in {self._folder}; continue with: {words}"

    def _pairs(self) -> None:
        while True:
            self._seen = report(self._seen)
            seen, terms = self._seen, self._seen.terms
            shown = seen.verdict != "undecided" or (terms.check is None and seen.cheaper is not None)
            if shown or seen.pairs >= terms.repeat:
                self._end("decided" if shown else "repeated")
                return
            pair = seen.pairs + 1
            done = {run.arm for run in seen.runs if run.pair == pair and run.state == "done"}
            left: list[ArmName] = [arm for arm in order(terms.seed, pair) if arm not in done]
            under_way = any(run.state == "running" for run in seen.runs)
            if not under_way and not self._can_pay(len(left)):
                self._end("out_of_money", "what is left is not enough for another pair")
                return
            for arm in left:
                if not self._play(pair, arm):
                    return

    def _can_pay(self, runs: int) -> bool:
        """Return whether the total limits suffice for ``runs`` more runs, each with its maximum cost and tokens."""
        seen, terms = self._seen, self._seen.terms
        usd, tokens, each = terms.total_cost_usd, terms.total_tokens, terms.request
        enough_usd = usd is None or (seen.spent_usd or 0.0) + runs * (each.max_cost_usd or 0.0) <= usd * (1 + 1e-9)
        return enough_usd and (tokens is None or seen.spent_tokens + runs * (each.max_tokens or 0) <= tokens)

    def _play(self, pair: int, arm: ArmName) -> bool:
        """Start or resume the run of ``arm``. Returns False, and ends the comparison, if the run could not work."""
        terms = self._seen.terms
        begun = [run for run in self._seen.runs if run.state == "running" and (run.pair, run.arm) == (pair, arm)]
        run = begun[0] if begun else ComparedRun(n=len(self._seen.runs) + 1, pair=pair, arm=arm, key=new_key())
        copy = os.path.join(self._folder, f"run-{run.n}")
        if not os.path.isdir(copy):
            shutil.rmtree(f"{copy}.new", ignore_errors=True)
            source = os.path.join(self._folder, _BASE if arm == "team" else _SOLO)
            if not os.path.isdir(source):
                raise Failure("not_found", f"the copies of {self._seen.id} were pruned", "start a new comparison")
            try:
                shutil.copytree(source, f"{copy}.new", symlinks=True)
                os.rename(f"{copy}.new", copy)
            except (OSError, shutil.Error) as error:
                raise Failure("failed", f"{source} cannot be copied: {str(error)[:500]}") from error
        project = os.path.normpath(os.path.join(copy, terms.inside))
        run = msgspec.structs.replace(run, project=project)
        self._note(run)
        playing = ArmRun(self._context, terms, run, project, self._note)
        try:
            run = playing.play(os.path.join(self._folder, f"run-{run.n}.jsonl"))
        finally:
            playing.stop()
        if run.exit_code in COULD_NOT_WORK:
            self._note(msgspec.structs.replace(run, state="dropped", why="it could not work"))
            self._end("failed", f"run {run.n} ({arm}) could not work: exit code {run.exit_code}")
            return False
        if not self._context.args.keep:
            playing.remove()
            shutil.rmtree(copy, ignore_errors=True)
            run = msgspec.structs.replace(run, project=None)
            self._note(run)
        self._context.out.note(run_line(run, terms.repeat))
        return True

    def _note(self, run: ComparedRun) -> None:
        others = [one for one in self._seen.runs if one.n != run.n]
        self._seen = msgspec.structs.replace(self._seen, runs=(*others, run))
        keep(self._folder, self._seen)

    def _end(self, state: Any, why: str = "") -> None:
        self._seen = report(msgspec.structs.replace(self._seen, state=state, why=why))
        keep(self._folder, self._seen)
