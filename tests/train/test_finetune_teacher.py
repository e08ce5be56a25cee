"""Stage `finetune_teacher`, and the teacher that the stages after it load."""

import random
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import teacher_runs
import torch
from distill_runs import noted
from encode_runs import write_texts
from finetune_runs import DEV, named_in
from killed import kill_after, starter
from published_sets import published_files
from refusals import refuses
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from small_teachers import TEACHERS, write_teacher
from teacher_runs import TUNED, document, tune, tuning, write_inputs

from pipeline.core import seal
from pipeline.data.common import texts
from pipeline.data.common.files.tables import read_table
from pipeline.params.finetune import Finetune
from pipeline.params.load import check, load
from pipeline.params.runtime import Runtime
from pipeline.tasks import pairs
from pipeline.teacher.encoding import encode
from pipeline.teacher.kinds import transformer
from pipeline.teacher.shared.members import load_teacher
from pipeline.train.finetuning.shared.finetuning import Finetuning
from pipeline.train.teacher_tuning.tuning import TeacherInTraining
from pipeline.vectors.sets import published

WORDS = [f"my {one}" for one in ("cat", "dog", "bird", "fish")]
REFUSED = {"chat template"}


@pytest.fixture(scope="module")
def model(parts, tmp_path_factory):
    """A BERT with prompts and a normalising layer."""
    encoder = Transformer(str(parts), max_seq_length=40)
    modules = [encoder, Pooling(encoder.get_embedding_dimension(), "mean"), Normalize()]
    whole = SentenceTransformer(modules=modules, device="cpu", prompts={"query": "query: "})
    folder = tmp_path_factory.mktemp("teacher") / "small-bert"
    whole.save_pretrained(str(folder), create_model_card=False)
    return folder


def encoded(out: str) -> np.ndarray:
    """Run `encode` on WORDS; the vectors, in the order of WORDS."""
    write_texts(WORDS)
    encode.main(texts_file=Path("corpus.parquet"), out=Path(out), tuned=TUNED)
    ids = np.array([texts.text_id(text) for text in WORDS], np.uint64)
    return np.concatenate([*published.open_set(Path(out), "sentence").of(ids, "sentence")])


def files(folder: Path | str) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()
    }


def tuned_model() -> Path:
    return TUNED / seal.read_json(TUNED / "manifest.json", "finetune_teacher")["model"]


def spearman(folder: Path) -> float:
    from scipy.stats import spearmanr

    model = SentenceTransformer(str(folder), device="cpu")
    left, right = (model.encode([row[side] for row in DEV], normalize_embeddings=True) for side in (0, 1))
    return float(spearmanr((left * right).sum(axis=1), [row[2] for row in DEV])[0])


def test_without_a_block_a_marker_is_written_and_the_teacher_stays_as_it_is(folder, model):
    write_inputs(model, None)
    tune()
    assert {*files(TUNED)} == {"manifest.json"}
    before = files(TUNED), Path("curve.tsv").read_bytes(), Path("metrics.json").read_bytes()
    Path("triplets.parquet").unlink()  # nothing is read
    tune()
    assert (files(TUNED), Path("curve.tsv").read_bytes(), Path("metrics.json").read_bytes()) == before
    encoded("with")
    (TUNED / "manifest.json").unlink()
    encoded("without")
    assert published_files(Path("with")) == published_files(Path("without"))


def test_the_recipe_of_stored_vectors_does_not_know_the_block(folder, model):
    blocks = [check(document(model, block), Path("params.yaml")).teacher for block in (None, tuning())]
    plain, to_be_tuned = (transformer.load(block, Runtime(device="cpu")).recipes for block in blocks)
    assert plain == to_be_tuned
    assert "finetune" not in plain["text"]


def test_better_weights_are_the_teacher_of_all_that_follows(folder, model):
    write_inputs(model, tuning())
    tune()
    told = seal.read_json(Path("metrics.json"), "finetune_teacher")
    assert told["kept"] == "finetuned"
    assert told["triplets"] == 36
    assert told["dev_after"] > told["dev_before"]
    assert told["dev_before"] == pytest.approx(spearman(model), abs=1e-4)
    assert told["dev_after"] == pytest.approx(spearman(tuned_model()), abs=1e-4)
    assert len(pl.read_csv("curve.tsv", separator="\t")) >= 3
    original, tuned = (SentenceTransformer(str(one), device="cpu") for one in (model, tuned_model()))
    assert [type(one) for one in tuned] == [type(one) for one in original]
    assert (tuned.prompts, tuned.similarity_fn_name) == (original.prompts, original.similarity_fn_name)
    assert tuned.max_seq_length == original.max_seq_length
    stored, own = encoded("vectors"), tuned.encode(WORDS)
    np.testing.assert_allclose(stored, own, atol=1e-3)  # stored as float16
    assert np.abs(own - original.encode(WORDS)).max() > 0.05
    params = load(Path("params.yaml"))
    teacher = load_teacher(params.teacher, params.runtime, Path("data/members"), TUNED)
    np.testing.assert_allclose(teacher.encode(WORDS, ["sentence"])["sentence"], own, atol=1e-5)
    assert teacher.folders == (tuned_model(),)


def test_where_no_dev_score_rises_the_teacher_stays_and_its_vectors_are_those_in_the_store(folder, model):
    write_inputs(model, None)
    before = encoded("vectors")
    write_inputs(model, tuning(lr=1e-12))
    tune()
    assert seal.read_json(Path("metrics.json"), "finetune_teacher")["kept"] == "original"
    assert {*files(TUNED)} == {"manifest.json"}
    stored = files(".cache")
    np.testing.assert_array_equal(encoded("again"), before)
    assert files(".cache").keys() == stored.keys()


def test_a_plain_transformers_model_keeps_its_pooling(folder, parts):
    write_inputs(parts, tuning(), pooling="cls", precision="bfloat16")
    tune()
    tuned = tuned_model()
    weights = load_file(tuned / "model.safetensors").values()
    assert {one.dtype for one in weights} == {torch.float32}
    loaded = SentenceTransformer(str(tuned), device="cpu")
    assert loaded[1].pooling_mode == "cls"
    np.testing.assert_allclose(encoded("vectors"), loaded.encode(WORDS), rtol=0.1, atol=0.2)


def in_training(folder: Path) -> TeacherInTraining:
    block = check(document(folder, None), Path("params.yaml")).teacher
    loaded = transformer.load(block, Runtime(device="cpu"))
    return TeacherInTraining(loaded.module, loaded.max_length, 4096, str(folder))


@pytest.mark.parametrize("name", [name for name in TEACHERS if not name.startswith("no padding")])
def test_every_kind_of_teacher_is_trained_on_the_vectors_that_it_encodes(name, tmp_path):
    folder = write_teacher(name, tmp_path)
    if name in REFUSED:
        with refuses("teacher.finetune", str(folder), "modality_config", "set it to null"):
            in_training(folder)
        return
    expected = SentenceTransformer(str(folder), device="cpu").encode(WORDS)
    teacher = in_training(folder)
    vectors = teacher.encode(teacher.tokenise(WORDS)).vectors
    np.testing.assert_allclose(vectors.detach().numpy(), expected, atol=1e-4)
    vectors[:, 0].sum().backward()
    with_gradient = [one for one in teacher.module.parameters() if one.grad is not None and one.grad.any()]
    assert len(with_gradient) > 10
    with torch.no_grad():
        for one in with_gradient:
            one.sub_(0.1 * one.grad)
    changed = teacher.encode(teacher.tokenise(WORDS)).vectors.detach()
    assert (changed - vectors.detach()).abs().max() > 1e-3
    teacher.save(tmp_path / "saved")
    again = SentenceTransformer(str(tmp_path / "saved"), device="cpu").encode(WORDS)
    np.testing.assert_allclose(again, changed.numpy(), atol=1e-4)


def test_the_loss_of_a_batch_is_hpds_equation_1(folder, model):
    """-log(e^(cos(a_i, p_i) / t) / sum_j (e^(cos(a_i, p_j) / t) + e^(cos(a_i, n_j) / t)))."""
    write_inputs(model, tuning())
    named = [
        ("a cat here", "the cats there", "a small dog"),
        ("a dog here", "the dogs there", "a small bird"),
    ]
    columns = {
        side: [texts.text_id(row[at]) for row in named] for at, side in ((0, "left_id"), (1, "right_id"))
    }
    columns["negative_ids"] = [[texts.text_id(row[2])] for row in named]
    pairs.write(pairs.make("mine", "train", columns), Path("two.parquet"))
    table = read_table(Path("two.parquet"), pairs.PAIRS_SCHEMA, "prepare")
    settings = Finetune(data=("mine",), batch_size=2, temperature=0.05)
    finetuning = Finetuning(
        in_training(model), table, [named_in(named).sort("text_id")], settings, Path("two.parquet")
    )
    loss = finetuning._backward(np.arange(2), bfloat16=False)["loss"]
    own = SentenceTransformer(str(model), device="cpu")
    anchors, positives, negatives = (
        own.encode([row[at] for row in named], prompt="", normalize_embeddings=True).astype(np.float64)
        for at in range(3)
    )
    powers = np.exp(anchors @ np.concatenate([positives, negatives]).T / 0.05)
    expected = -np.log(powers[[0, 1], [0, 1]] / powers.sum(axis=1)).mean()
    assert loss == pytest.approx(expected, rel=1e-4)


def test_prompts_of_params_are_read_in_training_and_not_saved(folder, model, monkeypatch):
    seen: list[str] = []
    tokenise = TeacherInTraining.tokenise

    def noting(self: TeacherInTraining, content: list[str]) -> object:
        seen.extend(content)
        return tokenise(self, content)

    monkeypatch.setattr(TeacherInTraining, "tokenise", noting)
    write_inputs(model, tuning(epochs=1), prompts={"text": "about: "})
    tune()
    assert seen
    assert all(text.startswith("about: ") for text in seen)
    assert SentenceTransformer(str(tuned_model()), device="cpu").prompts["query"] == "query: "


def test_a_killed_run_goes_on_to_the_same_bytes(folder, model, processes):
    write_inputs(model, tuning(epochs=6))
    start = starter(processes, teacher_runs.tune_slowly, folder)
    start(folder / "undisturbed", 0).join()
    expected, steps = files(TUNED), noted(folder / "undisturbed").count("step")
    assert len(expected) > 3, (folder / "stderr").read_text()
    for path in sorted(TUNED.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    moments, taken = random.Random(5), 0
    for kill in range(3):
        log = folder / f"noted {kill}"
        process = start(log, 0.05)
        kill_after(process, lambda log=log: len(noted(log)) >= 3, moments, seconds=0.05)
        taken += len(noted(log))
    start(folder / "rest", 0).join()
    assert 0 < len(noted(folder / "rest")) <= steps - taken + 3
    assert files(TUNED) == expected


def refused(changes: dict, *words: str) -> None:
    params = document("a/model", tuning())
    for block, content in changes.items():
        params[block] = params[block] | content
    with refuses("params.yaml", *words):
        check(params, Path("params.yaml"))


def test_faults_of_params_name_the_key_and_the_fix():
    refused({"finetune": {"data": {}}}, "teacher.finetune.data names 'mine'", "finetune.data has nothing")
    tasks = {"tasks": {"pairs": {"kind": "sts", "path": "pairs.tsv"}}}
    refused({"evaluate": tasks}, "teacher.finetune: there is no dev task", "`split: dev`", "set it to null")
    refused({"teacher": {"trust_remote_code": True}}, "teacher.finetune:", "set it to null")
    refused({"teacher": {"finetune": tuning(hsic=None)}}, "teacher.finetune.hsic is unknown")
    members = [{"teacher": document("a/model", tuning())["teacher"]}]
    params = document("a/model", None) | {"teacher": {"kind": "ensemble", "members": members}}
    with refuses("teacher.members.0.teacher.finetune", "ensemble", "set it to null"):
        check(params, Path("params.yaml"))


def test_faults_of_inputs_name_the_stage(folder, model, monkeypatch):
    write_inputs(model, None)
    tune()
    write_inputs(model, tuning())
    with refuses(TUNED / "manifest.json", "`dvc repro -f finetune_teacher`"):
        encoded("vectors")
    Path("triplets.parquet").unlink()
    with refuses("triplets.parquet", "`dvc repro prepare`"):
        tune()
    (TUNED / "manifest.json").unlink()
    with refuses(TUNED / "manifest.json", "`dvc repro finetune_teacher`"):
        encoded("vectors")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with refuses("`python`", "`torchrun`"):
        tune()


def test_damaged_weights_are_found(folder, model):
    write_inputs(model, tuning(epochs=1))
    tune()
    weights = tuned_model() / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-9] ^= 4
    weights.write_bytes(content)
    with refuses(weights, "dvc repro -f finetune_teacher"):
        encoded("vectors")


def test_unknown_models_are_told_by_their_key(folder):
    write_inputs("./nowhere", tuning())
    with refuses("teacher.model", "./nowhere"):
        tune()
