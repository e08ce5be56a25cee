"""`whitening`: a student's own vectors against scikit-learn's whitening, and as it ships."""

import json
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from exported_students import BUILDS
from finetune_runs import finetune, finetune_params, write_inputs
from model2vec import StaticModel
from refusals import refuses
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize
from sklearn.decomposition import PCA
from small_corpus import DEV, TRAIN, write_texts
from small_students import own_vectors, static_block, transformer_block

from pipeline.core import kept_rows
from pipeline.data.common.texts import text_id
from pipeline.data.student import student_folder
from pipeline.export import export
from pipeline.export.shared.onnx_folder import GRAPHS
from pipeline.export.shared.session import OnnxEncoder
from pipeline.params.finetune import Whitening
from pipeline.params.runtime import Runtime
from pipeline.train.finetuning import last_layer
from pipeline.train.finetuning.last_layer import whiten
from pipeline.train.students.kinds import static, transformer

BY_ID = sorted(TRAIN, key=text_id)
WHITENING = {"dim": 3}


@pytest.fixture
def corpus(folder) -> Path:
    write_texts(folder, TRAIN, DEV)
    return folder / "corpus.parquet"


def whitened_by_sklearn(fitted: np.ndarray, vectors: np.ndarray, dim: int, found: np.ndarray) -> np.ndarray:
    """With the signs that `found` has: those of components are anybody's choice."""
    expected = PCA(dim, whiten=True, svd_solver="full").fit(fitted.astype(np.float64)).transform(vectors)
    return expected * np.sign((expected * found).sum(axis=0))


@pytest.mark.parametrize("kind", BUILDS)
@pytest.mark.parametrize("most", [1000, 12])
def test_vectors_are_whitened_as_by_sklearn(corpus, parts, kind, most):
    student = BUILDS[kind](parts)
    fitted, before = own_vectors(student, BY_ID[:most]), own_vectors(student, TRAIN + DEV)
    metrics = whiten("tiny", student, Whitening(dim=3, max_rows=most), corpus, {})
    after = own_vectors(student, TRAIN + DEV)
    np.testing.assert_allclose(after, whitened_by_sklearn(fitted, before, 3, after), atol=2e-3)
    assert metrics["whitened_texts"] == len(fitted)
    assert metrics["whitened_variance"] == pytest.approx(
        PCA(3, svd_solver="full").fit(fitted.astype(np.float64)).explained_variance_ratio_.sum(), rel=1e-4
    )
    if most > len(TRAIN):
        np.testing.assert_allclose(after[: len(TRAIN)].mean(axis=0), 0, atol=1e-3)
        np.testing.assert_allclose(np.cov(after[: len(TRAIN)].T), np.eye(3), atol=1e-3)


def test_prompts_stand_before_the_texts_that_it_is_fitted_on(corpus, parts):
    with_prompts, prompted = (BUILDS["transformer"](parts) for _ in range(2))
    whiten("tiny", with_prompts, Whitening(dim=3), corpus, {"text": "query: "})
    fitted = own_vectors(prompted, [f"query: {text}" for text in BY_ID])
    found = own_vectors(with_prompts, DEV)
    expected = whitened_by_sklearn(fitted, own_vectors(prompted, DEV), 3, found)
    np.testing.assert_allclose(found, expected, atol=2e-3)


def test_more_dimensions_than_the_vectors_vary_in(corpus, parts):
    with refuses("students.tiny.whitening.dim is 6", "3 directions", "choose 3 or less"):
        whiten("tiny", BUILDS["transformer"](parts), Whitening(dim=6, max_rows=4), corpus, {})


@pytest.mark.parametrize("kind", ["static", "transformer"])
@pytest.mark.parametrize("block", [None, finetune_params(), finetune_params(lr=1e-12)])
def test_it_ships_with_and_without_fine_tuning(corpus, parts, kind, block):
    write_inputs(kind, block, parts, whitening=WHITENING)
    finetune(corpus=corpus)
    metrics = json.loads(Path("metrics.json").read_text())
    assert (metrics["whitened_dim"], metrics["whitened_texts"]) == (3, len(TRAIN))
    shipped = SentenceTransformer("out", device="cpu")
    found = shipped.encode(TRAIN)
    assert found.shape == (len(TRAIN), 3)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    assert student_folder.similarity(Path("out")) == "cosine"
    card = Path("out/README.md").read_text()
    assert "of 3 dimensions" in card
    assert "Its last layer whitens its vectors" in card
    if kind == "static":
        np.testing.assert_allclose(StaticModel.from_pretrained("out").encode(TRAIN), found, atol=1e-5)
    else:
        assert isinstance(shipped[-1], Normalize)
        raw = SentenceTransformer(modules=list(shipped)[:-1], device="cpu").encode(TRAIN)
        np.testing.assert_allclose(np.cov(raw.T), np.eye(3), atol=1e-3)
    if metrics["kept"] in ("not fine-tuned", "distilled"):  # it is the distilled student's whitening
        module, own = {"static": (static, static_block()), "transformer": (transformer, transformer_block())}[
            kind
        ]
        one = module.load(own, Path("distilled"))
        before = own_vectors(one, TRAIN)
        white = PCA(3, whiten=True, svd_solver="full").fit_transform(before.astype(np.float64))
        unit = white / np.linalg.norm(white, axis=1, keepdims=True)
        np.testing.assert_allclose(np.abs((unit * found).sum(axis=0)), (unit * unit).sum(axis=0), rtol=1e-3)


def test_a_kind_without_a_place_for_it_is_refused_before_anything_is_trained(corpus, parts, monkeypatch):
    write_inputs("static", finetune_params(), parts, whitening=WHITENING)
    monkeypatch.setattr(static, "load", lambda *_: SimpleNamespace(module=torch.nn.ModuleDict()))
    with refuses("students.tiny: whitening appends a layer", "null"):
        finetune(corpus=corpus)
    assert not Path("out").exists()
    assert not Path(".cache").exists()


def test_vectors_of_several_lengths_are_compared_by_cosine_once_they_are_whitened(corpus, parts):
    write_inputs("transformer", None, parts, whitening=WHITENING)
    one = BUILDS["transformer"](parts)
    student_folder.write(one, "distilled", Path("distilled"), similarity="euclidean", unit=False)
    finetune(corpus=corpus)
    assert student_folder.similarity(Path("distilled")) == "euclidean"
    assert student_folder.similarity(Path("out")) == "cosine"
    assert isinstance(SentenceTransformer("out", device="cpu")[-1], Normalize)


def test_a_projection_comes_before_it(corpus, parts):
    write_inputs("transformer", finetune_params(projection=4), parts, whitening=WHITENING)
    finetune(corpus=corpus)
    shipped = SentenceTransformer("out", device="cpu")
    assert [module.linear.weight.shape[0] for module in list(shipped)[2:-1]] == [8, 4, 3]


@pytest.mark.parametrize("kind", BUILDS)
def test_onnx_and_int8_have_it(corpus, parts, kind, folder):
    student = BUILDS[kind](parts)
    whiten("tiny", student, Whitening(dim=3), corpus, {})
    student_folder.write(student, "", folder / "saved")
    model = SentenceTransformer(str(folder / "saved"), device="cpu")
    export.write(model, folder / "saved", ["onnx", "onnx-int8"], folder / "exported", TRAIN)
    expected = model.encode(DEV)
    exact, small = (
        OnnxEncoder(folder / "exported", graph=GRAPHS[name]).encode(DEV) for name in ("onnx", "onnx-int8")
    )
    np.testing.assert_allclose(exact, expected, atol=1e-4)
    assert small.shape == (len(DEV), 3)
    cosines = (small * expected).sum(axis=1) / np.linalg.norm(small, axis=1)
    assert cosines.min() > 0.99
    assert not np.array_equal(small, exact)


def test_a_killed_run_keeps_the_vectors_that_it_has_made(corpus, parts, monkeypatch):
    """The second example of what is kept: not scored, and not of a task teacher."""
    monkeypatch.setattr(last_layer, "TEXTS_AT_A_TIME", 4)
    runtime, tokenised = Runtime(cache="kept", checkpoint_seconds=1), []
    monkeypatch.setattr(kept_rows.time, "monotonic", count(0, 2).__next__)

    def whitened(kill_at=None, block=None):
        student = BUILDS["transformer"](parts)
        tokenise = student.tokenise

        def noted(block):
            if len(tokenised) == kill_at:
                raise KeyboardInterrupt
            tokenised.append(block)
            return tokenise(block)

        student.tokenise = noted
        whiten("tiny", student, Whitening(dim=3), corpus, {}, runtime=runtime, block=block)
        student.tokenise = tokenise
        return own_vectors(student, DEV)

    with pytest.raises(KeyboardInterrupt):
        whitened(kill_at=3)
    assert tokenised == [BY_ID[:4], BY_ID[4:8], BY_ID[8:12]]
    found = whitened()
    assert [text for block in tokenised for text in block] == BY_ID
    assert list(Path("kept/training").iterdir()) == []
    np.testing.assert_array_equal(found, whitened())
    tokenised.clear()
    with pytest.raises(KeyboardInterrupt):
        whitened(kill_at=3)
    tokenised.clear()
    whitened(block={"init": {"pooling": "cls"}})  # the same weights make other vectors then
    assert [text for block in tokenised for text in block] == BY_ID
