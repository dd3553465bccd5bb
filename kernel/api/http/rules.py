"""Rules of a space: listed, defined and switched off by people, and tried on what was said in a run."""

import apsw

from kernel.api.http.route import Request
from kernel.api.http.runs import run_asked
from kernel.operations.context import KernelControl, ProjectFiles, StoreAccess
from kernel.operations.places import known_space
from kernel.policy.rule_check import check_rule
from kernel.policy.rules import normal
from kernel.store import agents, rules
from kernel.store.transaction import Transaction
from kernel.store.transitions import rules as transitions
from protocol.errors import Refused
from protocol.names import place_of, run_id
from protocol.rules import RuleDocument, RuleList, RuleRequest, RuleTrial, RuleTrialRequest, document


async def list_rules(call: Request[None], store: StoreAccess, files: ProjectFiles, kernel: KernelControl) -> RuleList:
    """GET /spaces/:space/rules: all of them, the oldest first, with those that are switched off, and the installed."""
    space = known_space(store, files, call.args["space"])
    found = await store.reader.read(rules.in_space, space)
    return RuleList(space=place_of(space), rules=found, total=len(found), installed=kernel.rules.listed())


async def show_rule(call: Request[None], store: StoreAccess, files: ProjectFiles) -> RuleDocument:
    """GET /spaces/:space/rules/:name: return one rule."""
    space, name = known_space(store, files, call.args["space"]), call.args["name"]
    found = await store.reader.read(rules.find, space, name)
    if found is None:
        raise Refused("not_found", f"{place_of(space)} has no rule {name[:40]!r}", "awk rule list shows them")
    return document(found)


async def define_rule(call: Request[RuleRequest], store: StoreAccess, files: ProjectFiles) -> RuleDocument:
    """POST /spaces/:space/rules: a person defines a rule, or another version of it, whoever had defined it."""
    space, spec = known_space(store, files, call.args["space"]), call.body.rule

    def change(tx: Transaction) -> RuleDocument:
        return document(transitions.define(tx, space, spec).rule)

    return await store.writer.commit(change)


async def switch_off_rule(call: Request[None], store: StoreAccess, files: ProjectFiles) -> RuleDocument:
    """DELETE /spaces/:space/rules/:name: it is kept, and does nothing until it is defined again."""
    space, name = known_space(store, files, call.args["space"]), call.args["name"]

    def change(tx: Transaction) -> RuleDocument:
        return document(transitions.switch_off(tx, space, name))

    return await store.writer.commit(change)


async def try_rule(call: Request[RuleTrialRequest], store: StoreAccess) -> RuleTrial:
    """POST /runs/:run/rules/test: what a rule would have done about each message of the run. Nothing is done."""
    return await store.reader.read(_trial, call.args["run"], call.body)


def _trial(conn: apsw.Connection, asked: str, body: RuleTrialRequest) -> RuleTrial:
    record = run_asked(conn, asked)
    if (body.rule is None) == (body.name is None):
        raise Refused("bad_request", "give either rule or name", "name is one of the workspace's rules")
    if body.name is not None:
        known = rules.find(conn, record.space, body.name)
        if known is None:
            raise Refused("not_found", f"{record.place} has no rule {body.name[:40]!r}", "awk rule list shows them")
        spec = known.rule
    else:
        assert body.rule is not None
        spec = normal(body.rule)
        check_rule(spec, tuple(one.name for one in agents.members(conn, record.space)))
    looked_at, total, firings = rules.trial(conn, record.space, record.id, spec)
    return RuleTrial(run=run_id(record.id), rule=spec.name, messages=looked_at, total=total, firings=firings)
