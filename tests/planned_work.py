"""What a plan counts with, of small params: a teacher and a student whose speeds are given."""

from dataclasses import replace
from typing import Any

from small_params import small_params

from pipeline.look.look import look, verdicts
from pipeline.params.load import Params
from pipeline.planning.probe import NOTHING
from pipeline.planning.sizes import Sizes, Texts
from pipeline.planning.student_probe import StudentSpeed
from pipeline.planning.work import Work


def params(**blocks: Any) -> Params:
    return Params.model_validate(small_params(**blocks))


def work(given: Params, corpus: int = 1000) -> Work:
    """Of a teacher that takes a millisecond a token and a student that takes a tenth."""
    facts = look(given)
    sets = {name: Texts() for name in ("wordnet", "back_translation", "transfer", "finetune")}
    sets |= {"corpus": Texts(corpus, 45.0), "eval": Texts(100, 45.0)}
    probe = replace(
        NOTHING,
        start=2.0,
        encode={"teacher": 1e-3},
        students={"tiny": StudentSpeed(0.0, 3e-4, 1e-4)},
        device="cpu",
    )
    possible = {name: one for name, one in verdicts(given, facts).items()}
    found = Sizes(sets, corpus * 4 // 5, corpus // 5)
    return Work(given, facts, possible, found, probe, missing=dict(sets))
