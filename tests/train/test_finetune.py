from pathlib import Path

import polars as pl
import pytest
import torch
from finetune_runs import ANIMALS, DEV, finetune, finetune_params, named_in, write_dev, write_inputs
from refusals import refuses
from ruamel.yaml import YAML
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

from pipeline.core import machine, seal
from pipeline.data.common.texts import text_id
from pipeline.tasks import pairs
from pipeline.train.finetuning.finetune import main


@pytest.fixture
def run(folder, parts):
    """Fine-tune a student of a kind; the metrics. The folder of the distilled one is `distilled`."""

    def finetuned(kind: str, block: dict | None) -> dict:
        write_inputs(kind, block, parts)
        finetune()
        return seal.read_json(Path("metrics.json"), "finetune")

    return finetuned


def spearman(folder: str) -> float:
    """Of the dev task, with a saved student."""
    from scipy.stats import spearmanr

    model = SentenceTransformer(folder, device="cpu")
    left, right = (model.encode([row[side] for row in DEV], normalize_embeddings=True) for side in (0, 1))
    return float(spearmanr((left * right).sum(axis=1), [row[2] for row in DEV])[0])


def files(folder: str) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()
    }


def test_better_weights_ship_with_their_card(run):
    metrics = run("transformer", finetune_params())
    assert metrics["kept"] == "finetuned"
    assert metrics["dev_after"] == pytest.approx(spearman("out"), abs=1e-4)
    assert metrics["dev_before"] == pytest.approx(spearman("distilled"), abs=1e-4)
    assert metrics["dev_after"] > metrics["dev_before"]
    assert metrics["triplets"] == 36
    card = Path("out/README.md").read_text()
    assert "of 8 dimensions" in card
    assert "Then fine-tuned on triplets: " in card


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_dev_tasks_are_scored_in_the_precision_of_the_training(run, precision, monkeypatch):
    monkeypatch.setattr(machine, "gain", lambda *_: 2.0)  # measuring calls layers of its own
    given = set()

    def note(module: torch.nn.Module, _inputs: tuple, output: torch.Tensor) -> None:
        if isinstance(module, torch.nn.Linear):
            given.add((torch.is_grad_enabled(), output.dtype))

    with torch.nn.modules.module.register_module_forward_hook(note):
        run("transformer", finetune_params(precision=precision))
    assert given == {(training, getattr(torch, precision)) for training in (True, False)}


def test_a_task_with_labels_trains_its_classifier_at_every_evaluation(folder, parts):
    write_inputs("transformer", finetune_params(evaluations=2), parts)
    document = YAML().load(Path("params.yaml"))
    task = {"kind": "classification", "train": "train.tsv", "test": "test.tsv", "split": "dev", "seeds": 1}
    document["evaluate"]["tasks"] = {"whose": task, "reported": {"kind": "sts", "path": "test.tsv"}}
    YAML().dump(document, Path("params.yaml"))
    rows = [(f"{whose} {one}", whose) for one in ANIMALS for whose in ("my", "your")]
    columns = {
        "left_id": [text_id(text) for text, _ in rows],
        "right_id": [None] * len(rows),
        "subset": [*["train"] * 8, *["dev"] * 2, *["test"] * 2],
        "label": [label for _, label in rows],
    }
    write_dev(pairs.make("whose", "dev", columns), named_in([(text,) for text, _ in rows]))
    finetune()
    curve = pl.read_csv("curve.tsv", separator="\t")
    assert curve["dev_score"].is_in([0.0, 0.5, 1.0]).all()  # the accuracy on two rows
    assert len(curve) >= 3


def test_without_a_better_dev_score_the_distilled_student_is_copied(run):
    metrics = run("transformer", finetune_params(lr=1e-12))
    assert metrics["kept"] == "distilled"
    assert metrics["dev_after"] == metrics["dev_before"]
    assert files("out") == files("distilled")


def test_several_processes_are_refused(run, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with refuses("fine-tuning", "`python`", "`torchrun`"):
        run("static", None)
    assert not Path("out").exists()


def test_switched_off_the_distilled_student_is_copied(run):
    assert run("static", None)["kept"] == "not fine-tuned"
    assert files("out") == files("distilled")


@pytest.mark.parametrize(("lr", "kept"), [(0.01, "finetuned"), (1e-12, "untrained")])
def test_a_student_that_is_not_distilled_is_fine_tuned_from_its_start(folder, parts, lr, kept):
    write_inputs("transformer", finetune_params(lr=lr), parts, train=None, loss=None)
    finetune()
    metrics = seal.read_json(Path("metrics.json"), "finetune")
    assert metrics["kept"] == kept
    assert metrics["dev_before"] == pytest.approx(spearman("distilled"), abs=1e-4)
    assert metrics["dev_after"] == pytest.approx(spearman("out"), abs=1e-4)
    assert (metrics["dev_after"] > metrics["dev_before"]) == (kept == "finetuned")
    assert (files("out") == files("distilled")) == (kept == "untrained")
    if kept == "finetuned":
        assert "not distilled: it starts from" in Path("out/README.md").read_text()


def test_interpolated_weights_lie_between_the_distilled_and_the_fine_tuned_ones(run):
    def weights(folder: str) -> dict[str, torch.Tensor]:
        return {
            f"{path.relative_to(folder)} {name}": tensor
            for path in sorted(Path(folder).rglob("*.safetensors"))
            for name, tensor in load_file(path).items()
        }

    assert run("transformer", finetune_params(evaluations=1))["kept"] == "finetuned"
    whole = weights("out")
    metrics = run("transformer", finetune_params(evaluations=1, interpolation=0.25))
    assert metrics["kept"] == "finetuned"
    assert metrics["dev_after"] == pytest.approx(spearman("out"), abs=1e-4)
    assert metrics["reason"].endswith("at best; the fine-tuned weights' share is 0.25")
    before, between = weights("distilled"), weights("out")
    assert any(not torch.equal(before[name], whole[name]) for name in whole)
    for name, tensor in between.items():
        torch.testing.assert_close(tensor, 0.75 * before[name] + 0.25 * whole[name])


@pytest.mark.parametrize("share", [0.5, 1.0])
@pytest.mark.parametrize(("lr", "kept"), [(0.01, "finetuned"), (1e-12, "projected")])
def test_a_projection_always_ships_and_the_scores_before_and_after_are_told(run, lr, kept, share):
    metrics = run("transformer", finetune_params(lr=lr, projection=2, interpolation=share))
    assert metrics["kept"] == kept
    assert metrics["dev_before"] == pytest.approx(spearman("distilled"), abs=1e-4)
    assert metrics["dev_after"] == pytest.approx(spearman("out"), abs=1e-4)
    assert metrics["dev_projected"] != metrics["dev_before"]
    assert (metrics["dev_after"] == metrics["dev_projected"]) == (kept == "projected")
    assert SentenceTransformer("out", device="cpu").encode("a cat").shape == (2,)
    assert "of 2 dimensions" in Path("out/README.md").read_text()


def test_a_static_student_has_no_projection(run):
    with refuses("students.tiny.finetune.projection", "static"):
        run("static", finetune_params(projection=2))
    assert not Path("out").exists()


def test_kernels_of_hsic_are_in_the_curve_and_a_dead_one_is_named(run, capfd):
    dead = {"weight": 0.5, "loss": {"kind": "hsic", "variant": "paper", "gamma": 1e-9}}
    metrics = run("transformer", finetune_params(hsic=dead))
    assert metrics["saturated_kernels"] == "kernel_inputs, kernel_vectors"
    assert "set students.tiny.finetune.hsic.loss to variant: fixed" in capfd.readouterr().err
    curve = pl.read_csv("curve.tsv", separator="\t")
    assert {"dev_score", "kernel_inputs", "kernel_vectors"} <= set(curve.columns)


def test_hsic_of_a_static_student_is_refused(run):
    with refuses("students.tiny.finetune:", "static", "leave out hsic"):
        run("static", finetune_params(hsic={"loss": {"kind": "hsic"}}))


@pytest.mark.parametrize("kind", ["static", "transformer"])
def test_a_damaged_student_names_the_stage(folder, parts, kind):
    write_inputs(kind, finetune_params(), parts)
    weights = Path("distilled/model.safetensors")
    weights.write_bytes(weights.read_bytes()[:-100])
    with refuses(weights, "`dvc repro -f distill@"):
        finetune()


def test_triplets_that_mine_has_not_written_name_the_stage(run, folder):
    run("transformer", finetune_params(epochs=1))
    Path("mined.parquet").unlink()
    with refuses("mined.parquet", "`dvc repro mine`"):
        main(
            "tiny",
            *map(
                Path, ("distilled", "facts.json", "mined.parquet", "x", "dev", "out", "curve.tsv", "m.json")
            ),
        )
