"""The card of a student's exports: what it says of its origins, and that the hub takes its head."""

import re
from pathlib import Path

import pytest
from huggingface_hub import ModelCard, metadata_load
from huggingface_hub.utils import validate_repo_id
from markdown_it import MarkdownIt
from small_params import small_params

from pipeline.export.card import card
from pipeline.export.shared.ledger import origins
from pipeline.export.shared.ledger.origins import Facts
from pipeline.export.shared.terms import licence_file
from pipeline.params.load import Params, check

FINETUNE = {"data": ["nli"], "epochs": 1, "batch_size": 8, "lr": 0.1}
MEASURE = {"split": "dev", "tasks": ["pairs"], "measure": "sts"}
TEACHER = {"kind": "transformer", "model": "owner/big"}
BIG = {"licences": ["apache-2.0"], "said": "apache-2.0, by its model card", "languages": ["en", "de"],
       "hub_id": "owner/big"}  # fmt: skip
NASTY = [
    "a|b",
    "`tick` and ``two``",
    "<script>alert(1)</script>",
    "one\n---\nlicense: mit\n---\n# two",
    "{{ 7 * 7 }} {% raw %} ${x}",
    "![x](http://e.vil/p.png) [l](javascript:0) **b** _i_ ~~s~~",
    "right\u202eleft\u0007",
    "- \\",
    "\\|\\",
    "&lt;b&gt; &#124; # not a heading",
]


def made(
    after: float = 0.5,
    prompts: dict[str, str] | None = None,
    facts: Facts | None = None,
    main: dict[str, str] | None = None,
    **blocks,
):
    """The card and LICENSE.md of the student `tiny`, whose scores were 0.5 before fine-tuning."""
    blocks.setdefault("evaluate", {"tasks": {"sts": {"kind": "sts", "path": "test.tsv"}}})
    params = check(small_params(**blocks), Path("params.yaml"))
    scores = {"teacher": 0.8, "distilled": 0.5, "finetuned": after}
    main = main or {"sts": "spearman"}
    metrics = {
        "dim": 8,
        "main": main,
        "builtin": [],
        "scores": {
            model: {task: {metric: score} for task, metric in main.items()} for model, score in scores.items()
        },
        "retention": {"finetuned": after / 0.8},
    }
    found = facts or Facts({"teacher": BIG}, {"origins": {}, "tables": {}})
    made_of = origins.of_student("tiny", params, found, finetuned=after != scores["distilled"])
    return card("tiny", params, {}, MEASURE, metrics, made_of, prompts or {}), licence_file("tiny", made_of)


def of_source(**keys: object) -> dict:
    return {"sources": [{"kind": "files", "path": "texts.csv", **keys}], "dev_fraction": 0.2}


def head(text: str, tmp_path: Path) -> dict:
    """The metadata as the hub's own library reads it, which must find no fault."""
    (tmp_path / "README.md").write_text(text)
    found = ModelCard.load(tmp_path / "README.md", ignore_metadata_errors=False).data
    assert metadata_load(tmp_path / "README.md") == found.to_dict()
    models = found.base_model if isinstance(found.base_model, list) else []
    for name in [*models, *(found.datasets or [])]:
        validate_repo_id(name)
    return found.to_dict()


@pytest.mark.parametrize(("after", "told"), [(0.6, True), (0.5, False)])
def test_fine_tuning_is_told_where_it_changed_the_student(after, told):
    text, _ = made(
        after,
        students={"tiny": {**small_params()["students"]["tiny"], "finetune": FINETUNE}},
        finetune={"data": {"nli": {"kind": "triplets", "path": "nli.tsv"}}, "mine": None},
        evaluate={"tasks": {"sts": {"kind": "sts", "path": "t.tsv"}, "dev": {"kind": "wordnet_relatedness"}}},
    )
    assert ("| triplets | `nli.tsv` |" in text) == told
    assert "texts.csv" in text


def test_pairs_of_a_task_are_told_by_its_files():
    tuned = {"data": ["theirs"], "loss": "cosines", "epochs": 1, "batch_size": 8, "lr": 1e-3}
    twins = {"kind": "pair_classification", "train": "twins.tsv", "test": "t.tsv", "split": "dev"}
    text, _ = made(
        0.6,
        students={"tiny": {**small_params()["students"]["tiny"], "finetune": tuned}},
        finetune={"data": {"theirs": {"kind": "task", "task": "twins"}}, "mine": {"negatives": 0}},
        evaluate={"tasks": {"sts": {"kind": "sts", "path": "t.tsv"}, "twins": twins}},
    )
    assert "| triplets | `twins.tsv` |" in text


def test_the_head_is_complete_and_the_hubs_library_takes_it(tmp_path):
    counted = {"rows_in": 10, "rows": 9, "files": [], "datasets": ["owner/texts"]}
    facts = Facts({"teacher": BIG}, {"origins": {"corpus.sources.0": counted}, "tables": {}})
    source = {"kind": "huggingface", "dataset": "owner/texts", "licence": "cc-by-sa-4.0", "language": "de"}
    text, licence = made(teacher=TEACHER, facts=facts, corpus={"sources": [source]})
    found = head(text, tmp_path)
    [result] = found.pop("model-index")[0]["results"]
    assert found == {
        "base_model": ["owner/big"],
        "datasets": ["owner/texts"],
        "language": ["de"],
        "library_name": "model2vec",
        "license": "cc-by-sa-4.0",
        "pipeline_tag": "sentence-similarity",
        "tags": ["sentence-transformers", "feature-extraction", "distillation"],
    }
    assert result["metrics"] == [{"type": "spearman", "value": 0.5}]
    assert result["task"]["type"] == "semantic-similarity"
    assert result["dataset"] == {"name": "sts", "type": "sts", "split": "test"}
    assert licence is None
    assert "| texts | `hub:owner/texts?split=train` | 9 of 10 | cc-by-sa-4.0, as params.yaml says |" in text


@pytest.mark.parametrize("tasks", [{}, {"sts": "spearman"}])
def test_agreement_with_the_teacher_is_no_result_on_a_task(tasks, tmp_path):
    text, _ = made(main={**tasks, "agreement": "overlap@10"})
    assert "| agreement | overlap@10 | 0.8000 | 0.5000 |" in text
    assert "agreement: the share of the ten texts" in text
    assert ("of the teacher's scores on average" in text) == bool(tasks)
    results = head(text, tmp_path).get("model-index", [{"results": []}])[0]["results"]
    assert [result["dataset"]["name"] for result in results] == [*tasks]


@pytest.mark.parametrize(
    ("licence", "identifier", "name"),
    [
        ("MIT", "apache-2.0", None),
        ("CC BY-NC 4.0", "cc-by-nc-4.0", None),
        ("GPL-3.0-only", "gpl-3.0", None),
        ("The licence of my company", "other", "the-licence-of-my-company"),
        (None, "other", "apache-2.0-and-unknown"),
        ("unknown", "other", "apache-2.0-and-unknown"),
    ],
)
def test_the_strictest_licence_is_named_and_unknown_ones_are(tmp_path, licence, identifier, name):
    text, file = made(teacher=TEACHER, corpus=of_source(licence=licence))
    found = head(text, tmp_path)
    assert (found["license"], found.get("license_name")) == (identifier, name)
    assert found.get("license_link") == (None if file is None else "LICENSE.md")
    assert (file is None) == (identifier != "other")
    assert ("**Unknown: `texts.csv`.**" in text) == (name is not None and "unknown" in name)


def undistilled(**changes) -> dict:
    """Params of a student that is not distilled."""
    tiny = small_params()["students"]["tiny"] | {"train": None, "loss": None, **changes}
    return {"students": {"tiny": tiny}, "teacher": TEACHER}


GLOVE, RANDOM = {"path": "/data/glove.txt"}, {"weights": "random", "projection": "none"}
PLAIN = {**GLOVE, "projection": "none"}
SMALL = {"model": "owner/small", "projection": "random"}


@pytest.mark.parametrize(
    ("changes", "keys", "said"),
    [
        ({"init": PLAIN}, ["init.path"], "the word vectors of `glove.txt`; scored beside `owner/big`."),
        (
            {"init": GLOVE},
            ["teacher", "init.path", "corpus.sources.0"],
            "the word vectors of `glove.txt`, with a start fitted by ridge regression to the `sentence` "
            "vectors of `owner/big`; scored beside `owner/big`.",
        ),
        (
            {"init": PLAIN, "whitening": {"dim": 4}},
            ["init.path", "corpus.sources.0"],
            "the word vectors of `glove.txt`; scored beside `owner/big`; its last layer whitens its vectors.",
        ),
        ({"init": {**PLAIN, "prompts": "teacher"}}, ["teacher", "init.path"], "`glove.txt`; scored"),
        (
            {"init": {**PLAIN, "pieces": "/data/en.model"}},
            ["init.path", "init.pieces"],
            "the word vectors of `glove.txt`; scored",
        ),
        (
            {"init": {"word_list": "/data/words.txt", "projection": "none"}},
            ["teacher", "init.word_list"],
            "it starts from a list of words, each encoded by `owner/big`; scored",
        ),
        ({"init": {"projection": "none"}}, ["teacher"], "`owner/big`; scored"),
        ({"init": {"projection": "none", "tokens": 99}}, ["teacher", "corpus.sources.0"], "`owner/big`;"),
        (
            {"kind": "transformer", "init": RANDOM},
            ["teacher"],
            "random weights in the shape of `owner/big`, with its tokenizer; scored",
        ),
        (
            {"kind": "transformer", "init": {**SMALL, "weights": "random"}},
            ["init.model"],
            "random weights in the shape of `owner/small`, with its tokenizer, with a random projection;",
        ),
        ({"kind": "compact", "init": {"table_dim": 4}}, ["teacher", "corpus.sources.0"], "`owner/big`;"),
    ],
)
def test_without_distillation_what_a_student_started_from_is_told_and_nothing_else(
    changes, keys, said, tmp_path
):
    small = {**BIG, "hub_id": "owner/small"}
    facts = Facts({"teacher": BIG, "students.tiny.init.model": small}, {"origins": {}, "tables": {}})
    text, _ = made(facts=facts, **undistilled(**changes))
    assert "not distilled: it starts from " in text
    assert said in text
    params = check(small_params(**undistilled(**changes)), Path("params.yaml"))
    found = [one.key for one in origins.of_student("tiny", params, facts, finetuned=False)]
    assert [key.removeprefix("students.tiny.") for key in found] == keys
    base = {"teacher": "owner/big", "init.model": "owner/small"}
    models = [base[key] for key in keys if key in base]
    assert head(text, tmp_path).get("base_model", []) == models
    assert head(text, tmp_path).get("language", []) == (["de", "en"] if models else [])


def with_classifiers(given: dict, **blocks: dict) -> Params:
    """Params with a task and its classifiers."""
    tasks = {"said": {"kind": "sst2", "path": "s"}}
    whole = small_params(**given, evaluate={"tasks": tasks}, classifiers=blocks)
    return check(whole, Path("params.yaml"))


def test_the_teacher_of_a_classifiers_texts_is_among_what_it_is_made_of():
    start = {"student": "tiny", "start": "untrained", "task": "said", "train": {}}
    params = with_classifiers(undistilled(init=PLAIN), alone=start, taught={**start, "kd": {}})
    facts = Facts({"teacher": BIG}, {"origins": {}, "tables": {}})
    found = {name: origins.of_classifier(name, params, facts) for name in params.classifiers}
    keys = ["students.tiny.init.path", "evaluate.tasks.said"]
    assert [one.key for one in found["alone"]] == keys
    assert [one.key for one in found["taught"]] == ["teacher", *keys]


@pytest.mark.parametrize(
    ("model", "licence", "hub"),
    [
        ("owner/big", BIG["licences"], ("owner/big",)),
        ("owner/other", (), ("owner/other",)),
        ("/models/other", (), ()),
    ],
)
def test_a_model_that_is_fine_tuned_on_the_task_is_among_what_it_is_made_of(model, licence, hub):
    """Its licence is known where it is the teacher too; `look` reads no card of it."""
    kd = {"teacher": {"model": model}}
    block = {"student": "tiny", "start": "untrained", "task": "said", "kd": kd}
    params = with_classifiers(undistilled(init=PLAIN), one=block)
    facts = Facts({"teacher": BIG}, {"origins": {}, "tables": {}})
    first, *others = origins.of_classifier("one", params, facts)
    assert (first.key, first.name) == ("classifiers.one.kd.teacher.model", model.removeprefix("/models/"))
    assert (first.licence.names, first.hub_ids) == (tuple(licence), hub)
    assert "teacher" not in [one.key for one in others]


def test_what_is_not_known_is_left_out_and_said(tmp_path):
    silent = {"licences": [], "said": "unknown; check it", "languages": [], "hub_id": None}
    text, _ = made(teacher=TEACHER, facts=Facts({"teacher": silent}, {"origins": {}, "tables": {}}))
    found = head(text, tmp_path)
    assert not {"base_model", "language", "datasets"} & found.keys()
    assert (found["license"], found["license_name"]) == ("other", "unknown")
    assert "Its language is not named" in text


@pytest.mark.parametrize("nasty", NASTY)
def test_texts_of_users_are_shown_and_not_obeyed(tmp_path, nasty):
    teacher = {**BIG, "licences": [nasty], "said": f"{nasty}, by its model card"}
    source = {"path": f"data/{nasty}.txt", "licence": nasty}
    text, licence = made(
        teacher={"kind": "transformer", "model": f"/models/{nasty}", "revision": nasty},
        corpus=of_source(**source),
        facts=Facts({"teacher": teacher}, {"origins": {}, "tables": {}}),
        prompts={"query": nasty, "text": "", "document": "passage: "},
    )
    found = head(text, tmp_path)
    assert found["license"] == "other"
    body = text.split("\n---\n", 1)[1]
    markdown = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for page in (body, licence):
        tokens = [one for token in markdown.parse(page) for one in (token, *(token.children or []))]
        kinds = {token.type for token in tokens}
        assert not kinds & {"html_block", "image", "link_open", "hr", "em_open", "s_open"}
        assert {one.content for one in tokens if one.type == "html_inline"} <= {"<code>", "</code>"}
        titles = [tokens[place + 1].content for place, one in enumerate(tokens) if one.type == "heading_open"]
        assert "two" not in titles
        rows = {len(re.findall(r"<t[dh]\b", row)) for row in markdown.render(page).split("</tr>")} - {0}
        assert rows <= {4, 6}
        strong = [tokens[place + 1].content for place, one in enumerate(tokens) if one.type == "strong_open"]
        assert not [content for content in strong if content == "b"]
        # The teacher's name (without what stands before a slash), revision and licence; the source's two.
        shown = "".join(one.content for one in tokens if one.type in ("text", "code_inline"))
        expected = nasty.replace("\u202e", "\ufffd").replace("\u0007", "\ufffd")
        assert "".join(shown.split()).count("".join(expected.split())) >= 4
