from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from refusals import refuses
from sentence_transformers import SentenceTransformer
from small_students import compact_block, own_vectors, static_block, transformer_block

from pipeline.data.common.texts import text_id
from pipeline.params.finetune import Finetune
from pipeline.params.students import TransformerStudent
from pipeline.tasks import pairs
from pipeline.train.finetuning.last_layer import append_projection, check_last_layer
from pipeline.train.finetuning.shared.finetuning import Finetuning, chosen_triplets
from pipeline.train.loop.checkpoint import Checkpoint
from pipeline.train.losses.shared.hsic import Hsic
from pipeline.train.students.kinds import compact, static, transformer
from pipeline.train.students.shared.base.interface import Encoded

TRIPLETS = [
    ("a small tame cat", "kitten", ["tiger", "puppy"]),
    ("a young dog", "puppy", ["wolf", "tiger", "tabby"]),
    ("water from clouds", "rain", []),
    ("a young cat", "kitten", ["a young dog"]),
    ("a small tame cat", "tabby", ["whale"]),
    ("kitten", "a small tame cat", []),
]
"""The first and fourth share a positive, the first and fifth an anchor; the last turns the first round. So
`tabby` is a hard negative of the second alone, and of the first none."""
TEXTS = sorted({text for anchor, positive, hard in TRIPLETS for text in (anchor, positive, *hard)})
TEMPERATURE = 0.1
ALL_ROWS = list(range(len(TRIPLETS)))
TUNED = {"data": ["mine"], "projection": 3}
HSIC = {"weight": 0.7, "loss": {"kind": "hsic", "variant": "code"}}


@pytest.fixture
def student(parts) -> static.Static:
    return static.build(static_block(), parts)


@pytest.fixture
def encoder(parts):
    return transformer.build(transformer_block(), parts)


def triplets(task: str = "mine") -> pl.DataFrame:
    columns = {
        "left_id": [text_id(anchor) for anchor, _, _ in TRIPLETS],
        "right_id": [text_id(positive) for _, positive, _ in TRIPLETS],
        "negative_ids": [[text_id(text) for text in hard] for _, _, hard in TRIPLETS],
    }
    return pairs.make(task, "train", columns)


def texts() -> pl.DataFrame:
    table = {"text_id": [text_id(text) for text in TEXTS], "text": TEXTS}
    return pl.DataFrame(table, schema={"text_id": pl.UInt64, "text": pl.String}).sort("text_id")


def params(**changes) -> Finetune:
    base = {"data": ["mine"], "epochs": 1, "batch_size": len(TRIPLETS), "lr": 0.05, "evaluations": 1}
    return Finetune.model_validate({**base, "temperature": TEMPERATURE, **changes})


def finetuning(student, **changes) -> Finetuning:
    return Finetuning(student, triplets(), [texts()], params(**changes), Path("mined/triplets.parquet"))


def run(student, scores, checkpoint: Path, **changes):
    left = iter(scores)
    made, state = finetuning(student, **changes), Checkpoint(checkpoint)
    bfloat16 = changes.get("precision") == "bfloat16"
    return made.run("tiny", lambda: next(left), state, 1e9, bfloat16=bfloat16)


def loss_by_hand(student, rows: list[int], most: int = 8) -> float:
    """IBKD eq. 10 over texts that are no known positive of the anchor, nor it theirs, nor the anchor."""
    positives = [TRIPLETS[row][1] for row in rows]
    hard = {text for row in rows for text in TRIPLETS[row][2][:most]} - set(positives)
    costs = []
    for place, row in enumerate(rows):
        anchor, positive, _ = TRIPLETS[row]
        own = {anchor, *(other for one, other, _ in TRIPLETS if one == anchor)}
        own |= {one for one, other, _ in TRIPLETS if other == anchor}
        others = [*positives[:place], *positives[place + 1 :], *sorted(hard)]
        vectors = own_vectors(student, [anchor, positive, *(text for text in others if text not in own)])
        vectors = vectors.astype(np.float64) / np.linalg.norm(vectors, axis=1, keepdims=True)
        powers = np.exp(vectors[1:] @ vectors[0] / TEMPERATURE)
        costs.append(-np.log(powers[0] / powers.sum()))
    return float(np.mean(costs))


@pytest.mark.parametrize("most", [0, 1, 2, 8])
def test_the_loss_is_infonce_over_positives_and_the_first_hard_negatives(student, tmp_path, most):
    expected = loss_by_hand(student, ALL_ROWS, most)
    curve = run(student, [0.0, 0.0], tmp_path / "state", negatives=most)
    assert curve[-1].train_loss == pytest.approx(expected, rel=1e-5)


def test_only_the_batchs_own_triplets_count(student, tmp_path):
    """A known positive of an anchor is left out even where its triplet is in another batch."""
    seen = [np.random.default_rng([seed, 0]).permutation(len(TRIPLETS)).tolist() for seed in range(3)]
    for seed, order in enumerate(seen):
        expected = np.mean([loss_by_hand(student, order[at : at + 2]) for at in (0, 2, 4)])
        path = tmp_path / f"state{seed}"
        curve = run(student, [0.0, 0.0], path, batch_size=2, lr=1e-12, seed=seed)
        assert curve[-1].train_loss == pytest.approx(expected, rel=1e-4)


def test_training_brings_anchors_to_their_positives(student, tmp_path):
    before = loss_by_hand(student, ALL_ROWS)
    run(student, [0.0, 1.0], tmp_path / "state", epochs=15)
    assert loss_by_hand(student, ALL_ROWS) < 0.5 * before


@pytest.mark.parametrize(
    ("scores", "changed"), [([0.5, 0.5], False), ([0.5, 0.4], False), ([0.5, 0.6], True)]
)
def test_the_distilled_weights_are_kept_unless_the_dev_score_rises(student, tmp_path, scores, changed):
    before = own_vectors(student, TEXTS)
    curve = run(student, scores, tmp_path / "state")
    assert [-point.dev_value for point in curve] == scores
    assert (own_vectors(student, TEXTS).tobytes() != before.tobytes()) == changed


def test_hsic_of_the_anchors_is_added(encoder, tmp_path):
    anchors = [TRIPLETS[row][0] for row in np.random.default_rng([0, 0]).permutation(len(TRIPLETS))]
    encoded = encoder.encode(tokens := encoder.tokenise(anchors), embedded=True)
    embedded = encoded.embedded.detach().split(tokens.lengths.tolist())
    means = torch.stack([part.double().mean(dim=0) for part in embedded])
    criterion = Hsic(params(hsic=HSIC).hsic.loss, code_gamma=0.1)
    expected = loss_by_hand(encoder, ALL_ROWS) + 0.7 * criterion.of(means, encoded.vectors.detach().double())
    curve = run(encoder, [0.0, 0.0], tmp_path / "state", hsic=HSIC)
    assert curve[-1].train_loss == pytest.approx(expected.item(), rel=1e-5)
    assert curve[-1].measures == pytest.approx(criterion.measures(), rel=1e-4)


def gradients(parts, state: Path, **changes) -> list[np.ndarray]:
    """Of one step, which covers all triplets."""
    encoder = transformer.build(transformer_block(), parts)
    run(encoder, [0.0, 0.0], state, **changes)
    return [parameter.grad.numpy() for parameter in encoder.module.parameters() if parameter.grad is not None]


def test_a_step_in_small_parts_has_the_same_gradients(parts, tmp_path):
    flat = {"hsic": HSIC, "temperature": 5.0}
    whole = gradients(parts, tmp_path / "whole", **flat)
    assert 0.1 < np.sqrt(sum(np.square(gradient).sum() for gradient in whole)) < 0.9, "not clipped"
    for size in (1, 5, 100):
        split = gradients(parts, tmp_path / f"split{size}", **flat, micro_batch=size)
        for one, other in zip(whole, split, strict=True):
            np.testing.assert_allclose(other, one, atol=1e-6)


def test_bfloat16_computes_nearly_the_same_and_trains_float32_weights(parts, encoder, tmp_path):
    one = run(transformer.build(transformer_block(), parts), [0.0, 1.0], tmp_path / "one")
    other = run(encoder, [0.0, 1.0], tmp_path / "other", precision="bfloat16")
    assert other[-1].train_loss == pytest.approx(one[-1].train_loss, rel=0.05)
    assert other[-1].train_loss != one[-1].train_loss
    assert {parameter.dtype for parameter in encoder.module.parameters()} == {torch.float32}


def test_a_table_with_sparse_gradients_trains_too(parts, tmp_path):
    student = static.build(static_block(train={"sparse": True}), parts)
    before = loss_by_hand(student, ALL_ROWS)
    run(student, [0.0, 1.0], tmp_path / "state", epochs=15)
    assert loss_by_hand(student, ALL_ROWS) < 0.5 * before


@pytest.mark.parametrize(
    ("kind", "block"),
    [(transformer, transformer_block()), (compact, compact_block())],
    ids=["transformer", "compact"],
)
def test_a_projection_starts_as_the_main_directions_and_is_saved_with_the_model(parts, tmp_path, kind, block):
    encoder = kind.build(block, parts)
    before = own_vectors(encoder, TEXTS).astype(np.float64)
    append_projection(encoder, encoder.tokenise(TEXTS), 3)
    weights, bias = encoder.module[-1].linear.weight.detach().double().numpy(), encoder.module[-1].linear.bias
    _, _, directions = np.linalg.svd(before / np.linalg.norm(before, axis=1, keepdims=True))
    np.testing.assert_allclose(np.abs(weights @ directions[:3].T), np.eye(3), atol=1e-5)
    assert bias.tolist() == [0, 0, 0]
    np.testing.assert_allclose(own_vectors(encoder, TEXTS), before @ weights.T, atol=1e-5)
    trained = encoder.module[-1].linear.weight
    run(encoder, [0.0, 1.0], tmp_path / "state")
    assert not np.allclose(trained.detach().numpy(), weights, atol=1e-3)

    encoder.save(tmp_path / "student")
    plain = SentenceTransformer(str(tmp_path / "student"), device="cpu")
    np.testing.assert_allclose(plain.encode(TEXTS), own_vectors(encoder, TEXTS), atol=1e-5)
    assert plain.get_embedding_dimension() == 3
    again = kind.load(block, tmp_path / "student")
    np.testing.assert_array_equal(own_vectors(again, TEXTS), own_vectors(encoder, TEXTS))


class Apart:
    """A student whose `encode` does not see what is appended to its model."""

    def __init__(self, student, same) -> None:
        self.module, self.encode = student.module, same.encode


class LastFirst:
    """A student whose `encode` takes the last module of its model for its own."""

    def __init__(self, student) -> None:
        self.module, self._width = student.module, student.module[-1].linear.in_features

    def encode(self, tokens):
        pooled = torch.linspace(-1, 1, len(tokens) * self._width).reshape(len(tokens), self._width)
        return Encoded(self.module[-1].linear(pooled), None)


@pytest.mark.parametrize("dim", [3, 8])
@pytest.mark.parametrize("kind", [Apart, LastFirst])
def test_a_projection_that_encode_does_not_run_is_refused(parts, kind, dim):
    first, second = (transformer.build(transformer_block(), parts) for _ in range(2))
    student = Apart(first, second) if kind is Apart else LastFirst(first)
    with refuses("finetune.projection", "`encode`", "null"):
        append_projection(student, first.tokenise(TEXTS), dim)


@pytest.mark.parametrize(
    ("asked", "key"),
    [({"finetune": TUNED}, "finetune.projection"), ({"whitening": {"dim": 3}}, "whitening")],
)
def test_a_last_layer_is_refused_where_none_can_be_appended(parts, asked, key):
    encoder, block = transformer.build(transformer_block(), parts), transformer_block().model_dump()
    wanted = TransformerStudent.model_validate({**block, **asked})
    check_last_layer(wanted, encoder)
    encoder.module = torch.nn.ModuleDict()
    with refuses(f"{key} appends a layer", "null"):
        check_last_layer(wanted, encoder)
    check_last_layer(transformer_block(), encoder)


def test_a_projection_to_the_same_dimension_changes_no_cosine(encoder):
    before = own_vectors(encoder, TEXTS)
    append_projection(encoder, encoder.tokenise(TEXTS[:3]), 8)
    after = own_vectors(encoder, TEXTS)
    np.testing.assert_allclose(after @ after.T, before @ before.T, rtol=1e-4, atol=1e-5)


def test_texts_that_no_triplet_names_are_not_tokenised(student):
    others = [f"text {number} of other data" for number in range(9)]
    more = {"text_id": [text_id(text) for text in others], "text": others}
    table = pl.concat([texts(), pl.DataFrame(more, schema=texts().schema)]).sort("text_id")
    some_at_a_time = table.iter_slices(4)
    chosen = Finetuning(student, triplets(), some_at_a_time, params(), Path("mined/triplets.parquet"))
    np.testing.assert_array_equal(chosen.tokens.ids, finetuning(student).tokens.ids)


@pytest.mark.parametrize("missing", ["kitten", "rain", "whale", "a young cat"])
def test_an_unknown_text_names_the_file_and_the_text(student, missing):
    known = texts().filter(pl.col("text") != missing)
    with refuses("mined/triplets.parquet", f"text_id {text_id(missing)})"):
        Finetuning(student, triplets(), [known], params(), Path("mined/triplets.parquet"))


def test_only_the_chosen_data_is_taken():
    table = pl.concat([triplets("mine"), triplets("other"), triplets("third")])
    chosen = chosen_triplets(table, params(data=["mine", "third"]), Path("t"))
    assert chosen["task"].unique().sort().to_list() == ["mine", "third"]
    assert len(chosen) == 2 * len(TRIPLETS)


@pytest.mark.parametrize("rows", [0, 1])
def test_too_few_triplets_name_the_file_and_the_data(rows):
    table = pl.concat([triplets("mine").head(rows), triplets("other")])
    with refuses("corpus/triplets.parquet", f" {rows} triplets", "mine, third", "add some to finetune.data"):
        chosen_triplets(table, params(data=["mine", "third"]), Path("corpus/triplets.parquet"))


def test_a_labelled_pair_is_no_negative_the_other_way_round(student, monkeypatch):
    """`a small tame cat` calls `tabby` its positive, and is a positive of `kitten`."""
    turned = [("tabby", "whale", []), *TRIPLETS]
    monkeypatch.setattr("test_finetuning.TRIPLETS", turned)
    made = finetuning(student)
    texts, left_out = made._batch(np.array([0, len(turned) - 1]))
    named = ["tabby", "kitten", "whale", "a small tame cat"]
    assert made._ids[texts].tolist() == [text_id(one) for one in named]
    assert left_out.tolist() == [[False, True], [False, False]]
