"""End a run that is over: the verdict and the end are one transaction, so nothing can be said in between."""

from typing import NamedTuple

from kernel.policy.ending import by_agent, by_output, by_verdict
from kernel.policy.verdict import Verdict, verdict
from kernel.store import answers, finals
from kernel.store.commits.ballot import expire_ballots
from kernel.store.commits.stop_workflow import stop_workflow
from kernel.store.transaction import Transaction
from kernel.store.workflows import running_runs


class Judged(NamedTuple):
    """Whether the answer with the number ``seq`` fits the shape that the run's answer must have: why not, or None."""

    seq: int
    misfit: str | None


def end_run(tx: Transaction, run: int, judged: Judged | None = None) -> bool:
    """End ``run`` if it still runs and is over now. False: it goes on, or ended meanwhile, or another answer came."""
    progress = next(iter(running_runs(tx.conn, tx.now_ms, run)), None)
    over = None if progress is None else verdict(progress, tx.now_ms)
    if progress is None or not isinstance(over, Verdict):
        return False
    expected = finals.expected(tx.conn, run)
    if expected.exit_from is not None:
        over = by_agent(over, finals.chosen(tx.conn, run, expected.exit_from))
    if expected.schema is not None:
        if judged is None or judged.seq != finals.last_reply(tx.conn, run, expected.exit_from).seq:
            return False
        over = by_output(over, judged.misfit)
    expire_ballots(tx, over=progress.space)  # though no alarm has come yet: what was decided in time counts
    if expected.verdict is not None:
        over = by_verdict(over, answers.of_run(tx.conn, run, expected.verdict.id))
    stop_workflow(tx, progress.space, over.status, over.exit_code, over.reason)
    return True
