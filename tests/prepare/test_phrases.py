"""PEARL's tasks, from small files in the layouts in which they are published."""

import json

import numpy as np
import polars as pl
import pytest
from refusals import refuses
from sklearn.linear_model import LogisticRegression

from pipeline.params.evaluate import Evaluate
from pipeline.params.phrases import PEARL_SETS
from pipeline.prepare.tasks import evaluation, sizes
from pipeline.tasks import classification
from pipeline.tasks.embeddings import Embeddings
from pipeline.tasks.scoring import main_metrics, score_tasks, split_of, text_ids
from pipeline.tasks.subtasks import one_by_one

TURNEY = (
    "double star | binary | double | star | dual | lumen | neutralism | keratoplasty\n"
    "bass fiddle | contrabass | bass | fiddle | pitch | violin | speedway | snood\n"
)
PPDB = "phrase_1\tphrase_2\tlabel\n" + "".join(
    f"phrase {n}\tother {n}\t{('neg', 'pos')[n % 2]}\n" for n in range(100)
)
NAMES = {
    "PER": ["Ann", "Bob", "Zoe"],
    "LOC": ["Rome", "Oslo", "NA"],
    "ORG": ["IBM", "UN", "EU"],
}
FILES = {
    "bird/bird.tsv": "term1\tterm2\trelatedness score\nad hoc\tad lib\t0.2\nair bag\tbag\t0.5\n",
    "turney/turney.tsv": "query\tlabel\tcandidate_1\tcandidate_2\tcandidate_3\tcandidate_4\n"
    "double star\tbinary\tdual\tlumen\tneutralism\tkeratoplasty\n",
    "ppdb/ppdb.tsv": PPDB,
    "ppdb/ppdb_filtered.tsv": PPDB.replace("phrase ", "filtered "),
    "autofj/autofj.tsv": "Dataset\tLeft\tRight\tMatches\nAmphibian\t3\t2\t2\n",
    "autofj/Amphibian/left.csv": 'id,title\n0,Cane toad\n1,"Toad, common"\n2,Palmate newt\n',
    "autofj/Amphibian/right.csv": "id,title\n0,Palmate Newt\n1,Common toad\n2,Strange newt\n",
    "autofj/Amphibian/gt.csv": "id_l,title_l,id_r,title_r\n"
    '2,Palmate newt,0,Palmate Newt\n1,"Toad, common",1,Common toad\n',
    "autofj/Galaxy/left.csv": "id,title\n0,NGC 1\n1,NGC 2\n",
    "autofj/Galaxy/right.csv": "id,title\n0,NGC1\n",
    "autofj/Galaxy/gt.csv": "id_l,title_l,id_r,title_r\n0,NGC 1,0,NGC1\n",
    "yago/yago_test_samples.tsv": "query\tlabel\nthe big apple\tNew York\ngotham\tNew York\nx\tUtopia\n",
    "umls/umls_test_samples.tsv": "query\tlabel\nflu\tInfluenza\n",
    "kb/yago_kb.tsv": "entity_name\nNew York\nOslo\nRome\nOslo\n",
    "kb/umls_kb.tsv": "entity_name\nInfluenza\nCold\n",
    "conll/conll.tsv": "entity\tlabel\n"
    + "".join(f"{name}\t{label}\n" for label, names in NAMES.items() for name in [*names, names[0]]),
    "bc5cdr/bc5cdr.tsv": "entity\tlabel\naspirin\tChemical\nasthma\tDisease\n",
}


@pytest.fixture
def pearl(tmp_path):
    put(tmp_path, FILES)
    return tmp_path


def put(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


def read(block):
    blocks = Evaluate.model_validate({"tasks": {"mine": block}}).tasks
    return one_by_one(blocks), evaluation(blocks, None)


def texts_of(found):
    known = dict(found.texts.select("text_id", "text").iter_rows()) | {None: None}
    columns = found.pairs.select("subset", "left_id", "right_id", "negative_ids").iter_rows()
    return [(subset, known[a], known[b], [known[one] for one in others]) for subset, a, b, others in columns]


def test_pearl_is_nine_tasks_each_with_pearls_metric(pearl):
    tasks, found = read({"kind": "pearl", "path": f"{pearl}/"})
    assert [*tasks] == [f"mine_{name}" for name in PEARL_SETS]
    assert main_metrics(tasks) == {
        "mine_bird": "pearson",
        "mine_turney": "accuracy",
        "mine_ppdb": "accuracy",
        "mine_ppdb_filtered": "accuracy",
        "mine_autofj": "recall@1",
        "mine_yago": "recall@1",
        "mine_umls": "recall@1",
        "mine_conll": "nmi",
        "mine_bc5cdr": "nmi",
    }
    counted = sizes(found.pairs, found.dropped)
    assert counted["mine_yago"]["dropped"] == {"entity_not_in_candidates": 1}
    assert counted["mine_conll"]["test"]["test"]["rows"] == 12
    groups = split_of(found.pairs, "test")
    ids = text_ids(groups)
    assert set(ids.tolist()) == set(found.texts["text_id"])
    vectors = np.random.default_rng(0).normal(size=(len(ids), 6))
    scores = score_tasks(
        groups, {name: task.scoring for name, task in tasks.items()}, Embeddings(ids, vectors)
    )
    assert {*scores} == {*tasks}
    assert scores["mine_turney"]["questions"] == 1
    assert scores["mine_yago"]["entities"] == 3


def test_some_of_pearl_and_tables_of_another_place(pearl, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("benchmark")
    put(elsewhere, {name.removeprefix("autofj/"): text for name, text in FILES.items() if "Galaxy" in name})
    tasks, found = read(
        {"kind": "pearl", "path": str(pearl), "sets": ["autofj", "turney"], "tables": str(elsewhere)}
    )
    assert {*tasks} == {"mine_autofj", "mine_turney"}
    assert set(found.pairs.filter(task="mine_autofj")["subset"]) == {"Galaxy"}


def test_a_table_is_a_subset_whose_left_titles_are_the_candidates(pearl):
    _, found = read({"kind": "fuzzy_join", "path": str(pearl / "autofj")})
    assert sorted(texts_of(found), key=str) == [
        ("Amphibian", "Common toad", "Toad, common", []),
        ("Amphibian", "Palmate Newt", "Palmate newt", []),
        ("Amphibian", None, "Cane toad", []),
        ("Galaxy", "NGC1", "NGC 1", []),
        ("Galaxy", None, "NGC 2", []),
    ]


def test_turneys_own_file_and_its_table_are_the_same_questions(tmp_path):
    (tmp_path / "turney.txt").write_text(TURNEY)
    _, own = read({"kind": "choice", "path": str(tmp_path / "turney.txt")})
    header = ["query", "label", *(f"candidate_{n}" for n in range(1, 5))]
    cells = [line.split(" | ") for line in TURNEY.splitlines()]
    rows = ["\t".join(row) for row in (header, *([*cell[:2], *cell[4:]] for cell in cells))]
    (tmp_path / "turney.tsv").write_text("\n".join(rows))
    _, table = read({"kind": "choice", "path": str(tmp_path / "turney.tsv")})
    assert own.pairs.equals(table.pairs)
    assert ("", "double star", "binary", ["dual", "lumen", "neutralism", "keratoplasty"]) in texts_of(own)


def test_a_question_whose_answer_is_among_the_others_is_left_out(tmp_path):
    (tmp_path / "x.jsonl").write_text(
        json.dumps({"q": "a", "a": "b", "o": "b "}) + "\n" + json.dumps({"q": "c", "a": "d", "o": "e"}) + "\n"
    )
    block = {
        "kind": "choice",
        "path": str(tmp_path / "x.jsonl"),
        "query": "q",
        "answer": "a",
        "others": ["o"],
    }
    _, found = read(block)
    assert texts_of(found) == [("", "c", "d", ["e"])]
    assert found.dropped == {"mine": {"answer_among_others": 1}}


def test_candidates_join_every_subset_of_entity_resolution(tmp_path):
    put(tmp_path, {"kb.csv": "name\nA\nB\n\nA\n", "er.csv": "query,entity,lang\na,A,en\nb,B,de\nc,C,de\n"})
    block = {"kind": "entity_resolution", "path": str(tmp_path / "er.csv"), "label": None, "subset": "lang"}
    _, found = read({**block, "candidates": str(tmp_path / "kb.csv"), "candidate": "name"})
    assert sorted(texts_of(found), key=str) == [
        ("de", "b", "B", []),
        ("de", None, "A", []),
        ("en", "a", "A", []),
        ("en", None, "B", []),
    ]
    assert found.dropped == {"mine": {"candidate_is_empty": 1, "entity_not_in_candidates": 1}}


def test_paraphrases_are_divided_by_hash_whatever_their_order(pearl):
    block = {"kind": "paraphrase", "path": str(pearl / "ppdb/ppdb.tsv")}
    _, found = read(block)
    counts = dict(found.pairs.group_by("subset").len().iter_rows())
    assert counts == {"train": 70, "dev": 15, "test": 15}
    header, *lines = PPDB.splitlines()
    (pearl / "ppdb/ppdb.tsv").write_text("\n".join([header, *reversed(lines)]))
    again = read(block)[1].pairs
    key = ["subset", "left_id", "right_id", "label"]
    assert again.select(key).sort(key).equals(found.pairs.select(key).sort(key))


def test_a_classifier_of_paraphrases_reads_the_two_vectors_alone(pearl, monkeypatch):
    """Whether signs agree is no linear function of [u, v], but one of u * v."""
    monkeypatch.setitem(classification.HEADS, "linear", (classification.linear, (1.0,)))
    rng = np.random.default_rng(0)
    lines = [f"left {n}\tright {n}\t{n % 2}" for n in range(400)]
    (pearl / "x.tsv").write_text("\n".join(["phrase_1\tphrase_2\tlabel", *lines]))
    block = {"kind": "paraphrase", "path": str(pearl / "x.tsv"), "head": "linear"}
    tasks, found = read(block)
    sign = {text: rng.choice([-1.0, 1.0]) for text in found.texts["text"]}
    for n in range(400):
        sign[f"right {n}"] = sign[f"left {n}"] * (1 if n % 2 else -1)
    table = found.texts.sort("text_id")
    vectors = np.array([[sign[text], 1.0] for text in table["text"]]) + 0.01 * rng.normal(size=(800, 2))
    embeddings = Embeddings(table["text_id"].to_numpy(), vectors)
    scores = score_tasks({"mine": found.pairs}, {"mine": tasks["mine"].scoring}, embeddings)["mine"]

    parts = {}
    for (part,), rows in found.pairs.group_by("subset"):
        both = [embeddings.of(rows[side].to_numpy()) for side in ("left_id", "right_id")]
        parts[part] = np.hstack(both), rows["label"].to_numpy()
    mean = parts["train"][0].mean(axis=0)
    scale = np.repeat([np.std(half - half.mean(axis=0)) for half in np.hsplit(parts["train"][0], 2)], 2)
    fitted = LogisticRegression(C=1.0, max_iter=1000).fit(
        (parts["train"][0] - mean) / scale, parts["train"][1]
    )
    assert scores["accuracy"] == pytest.approx(
        fitted.score((parts["test"][0] - mean) / scale, parts["test"][1])
    )
    assert scores["accuracy"] < 0.8
    other = {"kind": "pair_classification", "train": "a", "test": "b", "head": "linear", "metric": "accuracy"}
    with_products = Evaluate.model_validate({"tasks": {"x": other}}).tasks["x"].scoring
    assert score_tasks({"x": found.pairs}, {"x": with_products}, embeddings)["x"]["accuracy"] == 1


def test_rows_to_cluster_without_a_text_or_a_class_are_counted(tmp_path):
    pl.DataFrame({"entity": ["a", None, "b", "c"], "label": ["X", "X", "Y", None]}).write_parquet(
        tmp_path / "x.parquet"
    )
    _, found = read({"kind": "clustering", "path": str(tmp_path / "x.parquet"), "text": "entity"})
    assert sorted(found.pairs["label"]) == ["X", "Y"]
    assert found.dropped == {"mine": {"row_without_text_or_class": 2}}


FAULTS = {
    "one class": (
        {"kind": "clustering", "path": "x.tsv"},
        {"x.tsv": "text\tlabel\na\tX\nb\tX\n"},
        ("x.tsv", "1 classes", "evaluate.tasks.mine.label"),
    ),
    "no table": (
        {"kind": "fuzzy_join", "path": "tables"},
        {"tables/x.txt": ""},
        ("evaluate.tasks.mine", "tables", "left.csv, right.csv and gt.csv"),
    ),
    "a match that is no left title": (
        {"kind": "fuzzy_join", "path": "."},
        {"T/left.csv": "id,title\n0,a\n", "T/gt.csv": "id_l,title_l,id_r,title_r\n0,b,0,c\n"},
        ("T/gt.csv", "'b'", "left.csv", "get both again"),
    ),
    "a missing left table": (
        {"kind": "fuzzy_join", "path": "."},
        {"T/gt.csv": "id_l,title_l,id_r,title_r\n0,b,0,c\n"},
        ("T/left.csv",),
    ),
    "no other candidate": (
        {"kind": "choice", "path": "x.tsv", "others": ["o"]},
        {"x.tsv": "query\tlabel\to\na\tb\tc\nd\te\t\n"},
        ("x.tsv, row 2 ", "another candidate"),
    ),
    "no query": (
        {"kind": "choice", "path": "x.tsv", "others": ["o"]},
        {"x.tsv": "query\tlabel\to\n\tb\tc\n"},
        ("x.tsv, row 1 ", "query", "fill it"),
    ),
    "a short line of Turney's": (
        {"kind": "choice", "path": "t.txt"},
        {"t.txt": TURNEY + "half a line | x\n"},
        ("t.txt, line 3:", "remove the question"),
    ),
    "answers that are others": (
        {"kind": "choice", "path": "x.tsv", "others": ["o"]},
        {"x.tsv": "query\tlabel\to\na\tb\tb\n"},
        ("x.tsv", "evaluate.tasks.mine.others"),
    ),
    "candidates without a match": (
        {"kind": "entity_resolution", "path": "x.tsv", "label": None, "candidates": "kb.tsv"},
        {"x.tsv": "query\tentity\na\tA\n", "kb.tsv": "entity_name\nB\n"},
        ("kb.tsv", "x.tsv", "evaluate.tasks.mine.candidate"),
    ),
    "candidates that are not there": (
        {"kind": "entity_resolution", "path": "x.tsv", "label": None, "candidates": "kb.tsv"},
        {"x.tsv": "query\tentity\na\tA\n"},
        ("evaluate.tasks.mine.candidates", "kb.tsv", "correct the path"),
    ),
    "paraphrases of one class": (
        {"kind": "paraphrase", "path": "x.tsv"},
        {"x.tsv": PPDB.replace("neg", "pos")},
        ("evaluate.tasks.mine", "needs two"),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_name_the_file_and_the_fix(tmp_path, monkeypatch, fault):
    block, files, named = FAULTS[fault]
    monkeypatch.chdir(tmp_path)
    put(tmp_path, files)
    with refuses(*named):
        read(block)


def test_two_tasks_of_one_name():
    tasks = {"a": {"kind": "pearl", "path": "p"}, "a_bird": {"kind": "word_similarity", "path": "b"}}
    with refuses("evaluate.tasks.a_bird", "pearl", "rename one"):
        one_by_one(Evaluate.model_validate({"tasks": tasks}).tasks)
