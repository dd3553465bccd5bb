"""How a run ends that one agent answers for, whose final answer must have a shape, or that is voted on. Pure."""

from dataclasses import dataclass, replace
from typing import Literal

from kernel.policy.verdict import FAILED, GRAVITY, REJECTED, Verdict
from protocol.errors import EXIT_OF_CAUSE

Choice = Literal["yes", "no"]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The agent whose work gives the run's exit code. ``status`` is that of its last instruction; None: it had none."""

    name: str
    status: str | None = None
    cause: str | None = None
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What the approval called ``name`` says, which decides over a run. ``choice`` None: nothing; ``why`` says so."""

    name: str
    choice: Choice | None = None
    why: str = ""


def by_agent(over: Verdict, chosen: Chosen) -> Verdict:
    """What ``over`` is where only the work of ``chosen`` counts. That the time was up counts all the same."""
    if over.status == "timeout" or (chosen.status is not None and not chosen.ended):
        return over
    if chosen.status is None:
        return over if over.exit_code else Verdict("failed", FAILED, f"{chosen.name} was given nothing to do")
    if chosen.status == "done":
        return Verdict("done", 0, f"{chosen.name} is done")
    why = f"{chosen.name}: {chosen.status}{f' ({chosen.cause})' if chosen.cause else ''}"
    if chosen.status == "incomplete":
        return Verdict("incomplete", 6, why)
    return Verdict("failed", EXIT_OF_CAUSE.get(chosen.cause or "", FAILED), why)


def by_output(over: Verdict, misfit: str | None) -> Verdict:
    """What ``over`` is where the final answer does not fit, and why."""
    if over.status != "done" or misfit is None:
        return over
    return Verdict("failed", FAILED, f"the final answer does not fit output_schema: {misfit}")


def by_verdict(over: Verdict, answer: Answer) -> Verdict:
    """What ``over`` is where a vote decides. Only a yes leaves what is done done; what is worse than a no stays.

    Without an answer it is incomplete: who relies on the exit code must not take a vote that nobody won for a yes.
    """
    if answer.choice == "no":
        rejected = Verdict("rejected", REJECTED, f"the verdict ({answer.name}) is no")
        return max(rejected, over, key=lambda one: GRAVITY.index(one.exit_code))
    if over.exit_code:
        return over
    if answer.choice is None:
        return Verdict("incomplete", 6, f"there is no verdict: {answer.why}")
    return replace(over, reason=f"{over.reason}, and the verdict ({answer.name}) is yes")
