"""What must hold after every single job of the writer, whatever the world does: the promises as questions to rows."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

import apsw
import trio

from protocol.message import Event
from protocol.names import number_of
from tests.sim.plan import CALL_TOKENS
from tests.sim.polls import ALWAYS as POLLS_ALWAYS
from tests.sim.polls import judge_ballots
from tests.sim.provider import Providers
from tests.sim.witness import Witness

ALWAYS: Final = """
SELECT 'P3', 'two live attempts of ' || agent FROM instructions
  WHERE state IN ('leased', 'running') GROUP BY agent HAVING count(*) > 1
UNION ALL
SELECT 'P3', 'i' || i.id || ' is ' || i.state || ' and has ' || count(a.epoch) || ' open attempts'
  FROM instructions AS i LEFT JOIN attempts AS a ON a.instruction = i.id AND a.ended_ms IS NULL
  -- one that has replied ends when its worker has left
  GROUP BY i.id
  HAVING count(a.epoch) <> (i.state IN ('leased', 'running')) AND NOT (i.state = 'done' AND count(a.epoch) = 1)
    OR coalesce(max(a.epoch), i.epoch) <> i.epoch
UNION ALL
SELECT 'P3', 'a count of i' || id || ' is negative' FROM instructions
  WHERE min(attempts, crashes, preempted, entries, steps, kernel_deaths, not_before_ms) < 0
UNION ALL
SELECT 'P3', 'i' || id || ' is ' || state || ' and waits for ' || coalesce(waits_for, 'nothing') FROM instructions
  WHERE (state = 'waiting') <> (waits_for IS NOT NULL)
    AND NOT (state IN ('leased', 'running') AND waits_for = 'approval' AND wait_key LIKE 'a%')
UNION ALL
SELECT 'P1', 'the delivery of m' || d.message || ' is ' || d.state || ' and i' || i.id || ' is ' || i.state
  FROM deliveries AS d CROSS JOIN instructions AS i ON i.id = d.instruction
  WHERE (d.state = 'dead' AND i.state NOT IN ('failed', 'dead', 'cancelled'))
    OR (d.state <> 'dead' AND i.state IN ('failed', 'dead', 'cancelled'))
    OR (d.state IN ('queued', 'leased', 'injected') AND i.state IN ('done', 'incomplete'))
UNION ALL
SELECT 'P3', 'a' || a.id || ' is open and i' || i.id || ' is ' || i.state
  FROM approvals AS a CROSS JOIN instructions AS i ON i.id = a.instruction
  WHERE a.state = 'open' AND i.state IN ('done', 'incomplete', 'failed', 'dead', 'cancelled')
UNION ALL
SELECT 'P3', 'i' || i.id || ' waits for ' || coalesce(i.wait_key, 'nothing') || ', which is not open'
  FROM instructions AS i
  WHERE i.waits_for = 'approval' AND i.wait_key NOT IN (SELECT 'a' || a.id FROM approvals AS a WHERE a.state = 'open')
UNION ALL
SELECT 'P12', key || ' is half open and nobody tries it' FROM breakers WHERE state = 'half_open' AND probe IS NULL
"""

MINOR: Final = frozenset({"instruction.step", "attempt.started", "message", "worker.log"})
"""What changes nothing that ALWAYS asks about."""

LEASED: Final = """
SELECT i.agent, i.lane, a.state, a.hold_key, a.resume_at_ms,
  EXISTS (SELECT 1 FROM workflows AS w WHERE w.space = i.space AND w.state = 'running' AND w.paused)
FROM instructions AS i CROSS JOIN agents AS a ON a.key = i.agent WHERE i.id = ?
"""

BEFORE_IT: Final = """
SELECT id, lane FROM instructions
WHERE agent = :agent AND id <> :id AND state IN ('queued', 'yielded') AND not_before_ms < :now
  AND (lane < :lane OR (lane = :lane AND id < :id AND preempted = 0)) ORDER BY lane, id
"""

MORE_URGENT: Final = """
SELECT j.id FROM instructions AS j CROSS JOIN instructions AS i ON i.id = :id
WHERE j.agent = i.agent AND j.state IN ('queued', 'yielded') AND j.lane < i.lane AND j.not_before_ms < :now
  AND NOT i.promoted
"""

STEPS_OF: Final = """
SELECT count(*) + (SELECT coalesce(i.waits_for = 'approval', 0) FROM instructions AS i WHERE i.id = :id)
FROM entries WHERE instruction = :id AND epoch = :epoch
"""
"""With the place that it left for want of an approval, which nobody took from it."""

COUNTED: Final = """
SELECT i.entries, count(e.k), coalesce(max(e.k), -1)
FROM instructions AS i LEFT JOIN entries AS e ON e.instruction = i.id
WHERE i.id = ? GROUP BY i.id
"""


_Leased = tuple[str, int, str, str | None, int, int]


@dataclass
class Inspector:
    """Looks at the rows after each job, on the writer's own connection."""

    witness: Witness
    providers: Providers
    ended: set[int] = field(default_factory=set)
    revived: set[int] = field(default_factory=set)
    """Tried again by a person."""
    queued_ms: dict[int, int] = field(default_factory=dict)
    """When each was put into its lane last."""
    changed_ms: dict[str, int] = field(default_factory=dict)
    """When each agent was held back or let go last."""
    overtaken: dict[int, int] = field(default_factory=dict)
    """Entries that each made though something more urgent was ready for its agent."""

    def __call__(self, conn: apsw.Connection, events: Sequence[Event], now_ms: int) -> None:
        """Judge the state after one job that told ``events``."""
        if all(event.type in MINOR for event in events):
            promises: Iterable[object] = ()
        else:
            promises = (*conn.execute(ALWAYS), *conn.execute(POLLS_ALWAYS))
        for promise, text in cast("Iterable[tuple[object, object]]", promises):
            self._blame(str(promise), str(text))
        for event in events:
            if event.type == "agent.changed" and event.agent is not None:
                self.changed_ms[event.agent] = now_ms
            number = number_of(event.instruction or "", "i")
            if number is not None:
                self._event(conn, event, number, now_ms)

    def remember(self) -> Callable[[], None]:
        """What makes it forget all that it sees from now on: of a transaction that is undone and run again."""
        kept = {name: value.copy() for name, value in vars(self).items() if isinstance(value, dict | set)}
        return lambda: vars(self).update(kept)

    def _event(self, conn: apsw.Connection, event: Event, number: int, now_ms: int) -> None:
        if event.type.startswith(("instruction.", "attempt.started")) and number in self.ended - self.revived:
            self._blame("P3", f"{event.type} of {event.instruction}, which had ended")
        match event.type:
            case "instruction.queued":
                self.queued_ms[number] = now_ms
            case "instruction.leased":
                self.overtaken[number] = 0
                self._leased(conn, number, now_ms)
            case "instruction.step":
                self._step(conn, number, now_ms)
            case "instruction.ended":
                self.ended.add(number)
                self.revived.discard(number)
            case "attempt.ended":
                self._attempt_ended(conn, number, event)
            case _:
                pass

    def _leased(self, conn: apsw.Connection, number: int, now_ms: int) -> None:
        agent, lane, state, hold_key, resume_at_ms, paused = cast(_Leased, conn.execute(LEASED, (number,)).fetchone())
        if state != "active" or hold_key is not None or resume_at_ms > now_ms or paused:
            why = f"state {state}, hold {hold_key}, resumes in {resume_at_ms - now_ms} ms, workflow paused {paused}"
            self._blame("P12", f"i{number} was leased although {agent} is held back: {why}")
        if self.changed_ms.get(agent) == now_ms:
            return  # who was let go in this very moment may have been chosen a commit earlier
        values = {"agent": agent, "id": number, "lane": lane, "now": now_ms}
        for other, other_lane in cast("list[tuple[int, int]]", conn.execute(BEFORE_IT, values).fetchall()):
            if self.queued_ms.get(other, 0) < now_ms:
                self._blame("P11", f"i{number} (lane {lane}) was leased before i{other} (lane {other_lane}) of {agent}")

    def _step(self, conn: apsw.Connection, number: int, now_ms: int) -> None:
        entries, rows, last = cast("tuple[int, int, int]", conn.execute(COUNTED, (number,)).fetchone())
        if not entries == rows == last + 1:
            self._blame("P5", f"i{number} counts {entries} entries and has {rows}, the last is {last}")
        urgent = [one for (one,) in conn.execute(MORE_URGENT, {"id": number, "now": now_ms})]
        if not any(self.queued_ms.get(one, 0) < now_ms for one in urgent):
            self.overtaken[number] = 0
            return
        self.overtaken[number] = self.overtaken.get(number, 0) + 1
        if self.overtaken[number] > 1:
            self._blame(
                "P11", f"i{number} made {self.overtaken[number]} entries while {urgent} of a better lane waited"
            )

    def _attempt_ended(self, conn: apsw.Connection, number: int, event: Event) -> None:
        attempt, outcome = str(event.data["attempt"]), event.data["outcome"]
        if outcome in {"rate_limited", "overloaded"}:
            self.providers.heard(attempt, str(outcome))
        if outcome == "yielded":
            values = {"id": number, "epoch": int(attempt.rpartition("-")[2])}
            (steps,) = conn.execute(STEPS_OF, values).fetchone() or (0,)
            if not steps:
                self._blame("P11", f"{attempt} was preempted before it had made an entry")

    def _blame(self, promise: str, text: str) -> None:
        self.witness.blame(trio.current_time(), promise, text)


STRANGE_COUNTS: Final = """
SELECT 'P4', count(*) || ' times i' || cause || ' said: ' || text FROM messages
  WHERE kind = 'said' AND cause IS NOT NULL GROUP BY cause, text HAVING count(*) > 1
UNION ALL
SELECT 'P3', count(*) || ' replies of i' || cause FROM messages
  WHERE kind = 'reply' AND cause IS NOT NULL GROUP BY cause HAVING count(*) > 1
"""
RUNS: Final = """
SELECT 'P13', w.space || ' ended ' || w.status || ' and has i' || i.id || ', which is ' || i.state
  FROM workflows AS w CROSS JOIN instructions AS i ON i.run = w.id
  WHERE w.state = 'stopped' AND (i.state IN ('queued', 'leased', 'running', 'yielded', 'waiting')
    OR (w.mode = 'run' AND w.status = 'done' AND (i.state IN ('failed', 'dead', 'incomplete')
      OR (i.state = 'cancelled' AND i.ended_ms = w.ended_ms
        AND i.id NOT IN (SELECT value FROM json_each(:cancelled))))))
UNION ALL
SELECT 'P13', w.space || ' never ended' FROM workflows AS w WHERE w.mode = 'run' AND w.state = 'running'
UNION ALL
SELECT 'P27', w.space || ' took ' || sum(i.input_tokens + i.output_tokens) || ' of ' || w.budget_tokens || ' tokens'
  FROM workflows AS w CROSS JOIN instructions AS i ON i.run = w.id
  WHERE w.budget_tokens IS NOT NULL GROUP BY w.id
  HAVING sum(i.input_tokens + i.output_tokens) >= w.budget_tokens + :workers * :call
UNION ALL
SELECT 'P27', w.space || ' worked on ' || count(*) || ' instructions' FROM workflows AS w
  CROSS JOIN instructions AS i ON i.run = w.id AND i.epoch > 0
  WHERE w.mode = 'run' GROUP BY w.id HAVING count(*) > w.instructions_limit
UNION ALL
SELECT 'P4', 'i' || i.id || ' had asked ' || count(a.id) || ' and was told ' || sum(a.told) || ' answers'
  FROM instructions AS i CROSS JOIN instructions AS a ON a.asked_by = i.id
  WHERE i.state = 'done' AND i.entries > 0 GROUP BY i.id
  HAVING sum(a.told) <> count(a.id)
    OR count(a.id) <> (SELECT count(*) FROM entries AS e WHERE e.instruction = i.id AND e.kind = 'note')
"""
"""What must hold of runs, budgets and questions once all is over."""
SAID: Final = "SELECT count(*) FROM messages WHERE sender = 'user' AND text = ?"


def judge_end(
    conn: apsw.Connection, accepted: Iterable[tuple[str, str]], witness: Witness, workers: int, cancelled: Iterable[int]
) -> None:
    """What must hold once all is over: what was accepted is there once, nothing was said twice, runs kept to limits.

    ``workers`` is how many calls could be under way at once; ``cancelled`` what people wanted ended.
    """
    at = trio.current_time()
    judge_ballots(conn, witness)
    bounds = {"workers": workers, "call": CALL_TOKENS, "cancelled": json.dumps(list(cancelled))}
    for promise, text in (*conn.execute(STRANGE_COUNTS), *conn.execute(RUNS, bounds)):
        witness.blame(at, str(promise), str(text))
    for label, text in accepted:
        (count,) = conn.execute(SAID, (text,)).fetchone() or (0,)
        if count != 1:
            witness.blame(at, "P1/P2", f"message {label} was accepted and is there {count} times")
