"""A message about a task names keys that params.yaml may have, of each kind that stands for another too."""

import pytest
from named_keys import named_keys
from refusals import refuses

from pipeline.params.evaluate import Evaluate
from pipeline.prepare.tasks import evaluation

PPDB = "phrase_1\tphrase_2\tlabel\n"
SENTENCES = "sentence\tlabel\n" + "".join(f"sentence {n}\t{n % 2}\n" for n in range(8))
NLI = "sentence1\tsentence2\tgold_label\n"
ENTAILED = NLI + "".join(f"one {n}\tother {n}\tentailment\n" for n in range(30))
TURNEY = "query\tlabel\tcandidate_1\tcandidate_2\tcandidate_3\tcandidate_4\n"
BIRD = "term1\tterm2\trelatedness score\n"
MEN = "MEN_dataset_natural_form_full"
HERE = {"path": "."}


def pearl(one, **settings):
    return {"kind": "pearl", **HERE, "sets": [one], **settings}


CASES = {
    "pearl: no tables": (pearl("autofj"), {}, "tables"),
    "pearl: no tables in their folder": (
        pearl("autofj", tables="fj"),
        {"fj/x/left.csv": "title\na\n"},
        "tables",
    ),
    "pearl: no bird": (pearl("bird"), {}, "path"),
    "pearl: bird of one score": (pearl("bird"), {"bird/bird.tsv": BIRD + "a\tb\t1\n"}, "path"),
    "pearl: no choice": (pearl("turney"), {}, "path"),
    "pearl: answers that are others": (
        pearl("turney"),
        {"turney/turney.tsv": TURNEY + "a\tb\tb\t\t\t\n"},
        "path",
    ),
    "pearl: no entities": (pearl("umls"), {}, "path"),
    "pearl: no candidates": (pearl("umls"), {"umls/umls_test_samples.tsv": "query\tlabel\na\tA\n"}, "path"),
    "pearl: another's candidates": (
        pearl("yago"),
        {"yago/yago_test_samples.tsv": "query\tlabel\na\tA\n", "kb/yago_kb.tsv": "entity_name\nB\n"},
        "path",
    ),
    "pearl: one class to cluster": (pearl("conll"), {"conll/conll.tsv": "entity\tlabel\na\tA\n"}, "path"),
    "pearl: one class to train on": (pearl("ppdb"), {"ppdb/ppdb.tsv": PPDB + "a\tb\tpos\n" * 9}, "path"),
    "paraphrase: no file": ({"kind": "paraphrase", "path": "x.tsv"}, {}, "path"),
    "paraphrase: one class": (
        {"kind": "paraphrase", "path": "x.tsv"},
        {"x.tsv": PPDB + "".join(f"a {n}\tb {n}\tpos\n" for n in range(20))},
        "path",
    ),
    "paraphrase: a class that no row is left of": (
        {"kind": "paraphrase", "path": "x.tsv", "max_train": 3},
        {"x.tsv": PPDB + "".join(f"a {n}\tb {n}\t{n}\n" for n in range(20))},
        "max_train",
    ),
    "sts sets: no file": ({"kind": "sts_sets", **HERE}, {}, "path"),
    "word sets: no file": ({"kind": "word_similarity_sets", **HERE, "sets": ["simlex"]}, {}, "path"),
    "word sets: one score": (
        {"kind": "word_similarity_sets", **HERE, "sets": ["men"]},
        {MEN: "a b 1\nc d 1\n"},
        "path",
    ),
    "words: one score": (
        {"kind": "word_similarity", "path": "x.csv"},
        {"x.csv": "sentence1,sentence2,score\na,b,1\n"},
        "score",
    ),
    "sst2: too few to choose settings by": (
        {"kind": "sst2", **HERE},
        {"train.tsv": SENTENCES, "dev.tsv": "sentence\tlabel\na\t1\n"},
        "path",
    ),
    "mnli: one label": (
        {"kind": "mnli", **HERE},
        {"train.tsv": ENTAILED, "dev_matched.tsv": NLI + "a\tb\tneutral\n", "dev_mismatched.tsv": ENTAILED},
        "path",
    ),
    "mnli: a label that no row is left of": (
        {"kind": "mnli", **HERE, "genres": "matched"},
        {
            "train.tsv": ENTAILED + "".join(f"x {n}\ty {n}\tneutral\n" for n in range(30)),
            "dev_matched.tsv": NLI + "a\tb\tcontradiction\n",
        },
        "path",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_message_names_keys_that_the_block_has(folder, case):
    block, files, key = CASES[case]
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    tasks = {"mine": block}
    with refuses(f"evaluate.tasks.mine.{key}") as error:
        evaluation(Evaluate.model_validate({"tasks": tasks}).tasks, None)
    assert named_keys(error.value, tasks)
    assert "mine_" not in str(error.value)


@pytest.mark.parametrize("most", [1, 2])
def test_too_few_supersenses(grouped, most):
    tasks = {"senses": {"kind": "wordnet_supersense", "max_train": most}}
    with refuses("evaluate.tasks.senses leaves", "evaluate.tasks.senses.max_train") as error:
        evaluation(Evaluate.model_validate({"tasks": tasks}).tasks, lambda: grouped)
    assert named_keys(error.value, tasks)


def test_a_key_that_is_not_there_is_seen():
    for wrong in ("evaluate.tasks.mine_autofj.path", "evaluate.tasks.mine.train", "correct `gold`"):
        with pytest.raises(AssertionError, match=r"params\.yaml has no"):
            named_keys(wrong, {"mine": pearl("autofj")})
