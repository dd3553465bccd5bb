"""End a run that is over: the verdict and the end are one transaction, so nothing can be said in between."""

from kernel.policy.verdict import Verdict, verdict
from kernel.store.commits.stop_workflow import stop_workflow
from kernel.store.transaction import Transaction
from kernel.store.workflows import running_runs


def end_run(tx: Transaction, run: int) -> bool:
    """End ``run`` if it still runs and is over now. False: it goes on, or ended meanwhile."""
    progress = next(iter(running_runs(tx.conn, tx.now_ms, run)), None)
    over = None if progress is None else verdict(progress, tx.now_ms)
    if progress is None or not isinstance(over, Verdict):
        return False
    stop_workflow(tx, progress.space, over.status, over.exit_code, over.reason)
    return True
