from refusals import refuses

from pipeline.params.evaluate import Evaluate
from pipeline.prepare.tasks import evaluation
from pipeline.tasks.scoring import main_metrics, split_of
from pipeline.tasks.subtasks import one_by_one

MRPC = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
QQP = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"
MNLI = "\t".join(
    "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse "
    "sentence2_parse sentence1 sentence2 label1 gold_label".split()
)
VERDICTS = ("entailment", "neutral", "contradiction")


def sst2(start, count, header="sentence\tlabel"):
    rows = [f'a "film {n} of {start}\t{n % 2}' for n in range(count)]
    return "\n".join([header, *rows] if header else rows) + "\n"


def mrpc(start, count, header=MRPC):
    rows = [f'{n % 2}\t{n}\t{n}\t"Left {n} of {start}\tRight {n} of {start}' for n in range(count)]
    return "\ufeff" + "\r\n".join([header, *rows]) + "\r\n"


def qqp(start, count):
    rows = [f"{n}\t1\t2\tWhat is {n} of {start}?\tWho is {n} of {start}?\t{n % 2}" for n in range(count)]
    return "\n".join([QQP, *rows]) + "\n"


def mnli(start, count, header=MNLI):
    middle = "\t".join("tree" for _ in range(4))
    rows = [
        f"{n}\t{n}n\t{n}e\tfiction\t{middle}\tPremise {n} of {start}\tClaim {n} of {start}\tneutral\t"
        f"{VERDICTS[n % 3]}"
        for n in range(count)
    ]
    return "\n".join([header, *rows]) + "\n"


def write(folder, **files):
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        path = folder / name.replace("__", "-")
        (path if path.suffix or "-" in path.name else path.with_suffix(".tsv")).write_text(content)
    return folder


def read(kind, folder, **fields):
    mine = {"kind": kind, "path": str(folder), **fields}
    blocks = Evaluate.model_validate({"tasks": {"reported": {"kind": "sts", "path": "x"}, "mine": mine}})
    tasks = one_by_one({name: task for name, task in blocks.tasks.items() if name != "reported"})
    return tasks, evaluation(tasks, None)


def counts(found, task="mine"):
    return dict(found.pairs.filter(task=task)["subset"].value_counts().iter_rows())


def sides(found, subset, row=0):
    """left, right and label of a pair, as texts."""
    text = dict(found.texts.select("text_id", "text").iter_rows()) | {None: None}
    left, right, label = found.pairs.filter(subset=subset).select("left_id", "right_id", "label").row(row)
    return text[left], text[right], label


def test_sst2_of_glue_scores_dev_and_never_reads_the_secret_test(tmp_path):
    write(tmp_path, train=sst2(1, 40), dev=sst2(2, 6), test="index\tsentence\n0\tsecret\n")
    tasks, found = read("sst2", tmp_path)
    assert counts(found) == {"train": 36, "dev": 4, "test": 6}
    assert sides(found, "test", 1) == ('a "film 1 of 2', None, "1")
    assert main_metrics(tasks) == {"mine": "accuracy"}


def test_sst2_of_senteval_has_all_three(tmp_path):
    parts = {"sentiment__train": 20, "sentiment__dev": 5, "sentiment__test": 7}
    write(tmp_path, **{name: sst2(name, count, header="") for name, count in parts.items()})
    assert counts(read("sst2", tmp_path)[1]) == {"train": 20, "dev": 5, "test": 7}


def test_mrpc_scores_microsofts_test_file_where_it_is_and_glues_dev_elsewhere(tmp_path):
    write(tmp_path, train=mrpc(1, 40), dev=mrpc(2, 6), test=mrpc(9, 5, header="index\t1\t2\t3\t4"))
    tasks, found = read("mrpc", tmp_path)
    assert counts(found) == {"train": 36, "dev": 4, "test": 6}
    assert sides(found, "test", 1) == ('"Left 1 of 2', "Right 1 of 2", "1")
    assert main_metrics(tasks) == {"mine": "f1"}
    (tmp_path / "msr_paraphrase_train.txt").write_text(mrpc(3, 60))
    (tmp_path / "msr_paraphrase_test.txt").write_text(mrpc(4, 8))
    found = read("mrpc", tmp_path)[1]
    assert counts(found) == {"train": 54, "dev": 6, "test": 8}
    assert sides(found, "test")[0] == '"Left 0 of 4'


def test_lines_that_qqp_breaks_in_two_are_left_out_and_counted(tmp_path):
    broken = "900\t1\t2\tWhat is\n this?\tWho is this?\t1\n901\t1\t2\t\tEmpty?\t0\n"
    write(tmp_path, train=qqp(1, 40) + broken, dev=qqp(2, 6))
    tasks, found = read("qqp", tmp_path)
    assert counts(found) == {"train": 36, "dev": 4, "test": 6}
    assert found.dropped == {"mine": {"broken_train_line": 3}}
    assert sides(found, "test", 1) == ("What is 1 of 2?", "Who is 1 of 2?", "1")
    assert main_metrics(tasks) == {"mine": "f1"}


def test_mnli_is_two_tasks(tmp_path):
    dev = MNLI.replace("label1", "label1\tlabel2")
    other = mnli(3, 6, header=dev).replace("\tneutral\t", "\tneutral\tneutral\t")
    write(tmp_path, train=mnli(1, 90), dev_matched=mnli(2, 9), dev_mismatched=other)
    tasks, found = read("mnli", tmp_path, head="linear", max_train=60)
    assert {name: (task.genres, task.head) for name, task in tasks.items()} == {
        "mine_matched": ("matched", "linear"),
        "mine_mismatched": ("mismatched", "linear"),
    }
    assert main_metrics(tasks) == dict.fromkeys(tasks, "accuracy")
    assert [counts(found, name)["test"] for name in tasks] == [9, 6]
    assert [sum(counts(found, name).values()) for name in tasks] == [69, 66]
    alone, found = read("mnli", tmp_path, genres="mismatched", split="dev")
    assert list(alone) == ["mine"]
    assert list(split_of(found.pairs, "dev")) == ["mine"]
    assert sides(found, "test", 2) == ("Premise 2 of 3", "Claim 2 of 3", "contradiction")


def test_two_tasks_of_one_name_are_an_error():
    block = {"nli": {"kind": "mnli", "path": "x"}, "nli_matched": {"kind": "sst2", "path": "x"}}
    with refuses("evaluate.tasks.nli_matched", "rename one"):
        one_by_one(Evaluate.model_validate({"tasks": block}).tasks)


def test_a_folder_without_the_files_is_told_which_there_may_be(tmp_path):
    write(tmp_path, train=sst2(1, 40))
    with refuses(tmp_path, "sst2", "train.tsv and dev.tsv", "sentiment-train"):
        read("sst2", tmp_path)
    with refuses(tmp_path / "none", "mnli", "train.tsv"):
        read("mnli", tmp_path / "none")
