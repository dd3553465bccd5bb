"""Evidence recall over generated conversations: updates, order in time, two languages, abstention, junk; all exact."""

import random

import msgspec
import pytest

from kernel.inspect.memory_measures import memory_eval
from protocol.errors import Refused
from protocol.memory_eval import EvalConversation, EvalFile, EvalQuestion, EvalReport, EvalTurn, Outcome, judged

pytestmark = pytest.mark.promise("P47")

PEOPLE = ("ann", "bert", "carla", "dimitri", "elif", "farid", "grete", "hiro")
TOWNS = ("Lyon", "Oslo", "Porto", "Gdansk", "Kyoto", "Lima", "Quito", "Riga")
SMALL_TALK = ("good morning everybody", "lunch was fine", "see you later", "ok thanks", "the weather is grey again")


def turns(rng: random.Random, facts: list[tuple[str, str, str]], chatter: int) -> tuple[EvalTurn, ...]:
    """``facts`` (id, sender, text) in their order, with small talk between them."""
    said: list[EvalTurn] = []
    for id_, sender, text in facts:
        said += [
            EvalTurn(id=f"{id_}~{n}", sender=rng.choice(PEOPLE), text=rng.choice(SMALL_TALK))
            for n in range(rng.randrange(chatter + 1))
        ]
        said.append(EvalTurn(id=id_, sender=sender, text=text))
    return tuple(said)


def suite(seed: int, chatter: int = 4) -> EvalFile:
    """Conversations that are different for each seed, and what is asked of them."""
    rng = random.Random(seed)
    homes = [(f"h{n}", who, f"we moved to {rng.choice(TOWNS)} last week") for n, who in enumerate(PEOPLE)]
    later = [(f"l{n}", who, f"I moved to {rng.choice(TOWNS)} now") for n, who in enumerate(PEOPLE[:4])]
    chinese = [("c1", "li", "数据库昨天迁移完成"), ("c2", "li", "部署失败以后要回滚"), ("c3", "li", "会议改到星期五")]
    order = [(f"o{n}", "ops", f"release {n} of the parser went out to staging") for n in range(5)]
    updates = [
        EvalQuestion(question=f"where did {who} move", evidence=(f"l{n}",), kind="update")
        for n, who in enumerate(PEOPLE[:4])
    ]
    languages = [
        EvalQuestion(question=question, evidence=(evidence,), kind="two languages")
        for question, evidence in (("迁移了什么", "c1"), ("回滚", "c2"), ("星期五", "c3"), ("releasing parsers", "o4"))
    ]
    ordered = [
        EvalQuestion(question=f"when was release {n} of the parser", evidence=(f"o{n}",), kind="temporal order")
        for n in range(5)
    ]
    nothing = [EvalQuestion(question=text) for text in ("zeppelin invoices", "飞艇", "xylophone")]
    said = turns(rng, [*homes, *chinese, *order, *later], chatter)
    return EvalFile(conversations=(EvalConversation(turns=said, questions=(*updates, *languages, *ordered, *nothing)),))


def report(asked: EvalFile) -> EvalReport:
    return memory_eval(msgspec.json.encode(asked))


@pytest.mark.parametrize("seed", range(5))
def test_the_generated_suites_are_found(seed: int) -> None:
    found = report(suite(seed))
    assert set(found.kinds) == {"update", "two languages", "temporal order"}
    assert found.all.recall["10"] == 1.0 and found.all.recall["5"] >= 0.9
    assert found.abstained == 1.0


def test_junk_does_not_bury_what_matters() -> None:
    assert report(suite(1, chatter=80)).all.recall["10"] == 1.0


def test_recall_counts_the_share_of_the_evidence_at_each_depth() -> None:
    question = EvalQuestion(question="?", evidence=("a", "b"))
    units = (("a", "x"), *((f"n{n}",) for n in range(4)), ("y", "b"))
    found = judged([Outcome(question=question, units=units), Outcome(question=EvalQuestion(question="!"), units=())])
    assert (found.all.recall, found.all.turns_alone) == (
        {"5": 0.5, "10": 1.0, "20": 1.0},
        {"5": 0.5, "10": 0.5, "20": 0.5},
    )
    assert (found.all.questions, found.abstained) == (1, 1.0)


def test_a_file_that_is_none_is_refused() -> None:
    with pytest.raises(Refused, match="not a valid file of questions"):
        memory_eval(b'{"conversations": [{"turns": 3}]}')
