"""The stage on students of all kinds, and its card's programs in environments with one runtime each."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from exported_students import BLOCKS, COMPARED
from huggingface_hub import ModelCard, metadata_load
from refusals import refuses
from runtime_environment import link_packages, run_alone
from sentence_transformers import SentenceTransformer
from small_students import TEXTS
from small_teachers import write_teacher

from pipeline.data.student import student_folder
from pipeline.export import parity
from pipeline.export.shared import onnx
from pipeline.export.shared.session import OnnxEncoder
from pipeline.export.snippets import TITLES
from pipeline.params.students import TransformerStudent
from pipeline.vectors.space import pca
from pipeline.vectors.space.geometry import normalised
from pipeline.vectors.space.pca import Pca

PRINT = """
import numpy
numpy.save("vectors.npy", {encode}({texts!r}))
names = {forbidden!r}
import importlib.util
assert not [name for name in names if importlib.util.find_spec(name)], names
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """Folders of one runtime and what it requires."""
    folder = tmp_path_factory.mktemp("packages")
    return {
        "onnx": link_packages(folder / "onnx", "onnxruntime", "tokenizers", "numpy"),
        "model2vec": link_packages(folder / "model2vec", "model2vec"),
        "sentence-transformers": link_packages(folder / "st", "sentence-transformers"),
    }


FORBIDDEN = {
    "onnx": ["torch", "transformers", "sentence_transformers", "model2vec", "onnx", "pipeline"],
    "model2vec": ["torch", "transformers", "sentence_transformers", "onnxruntime", "pipeline"],
    "sentence-transformers": ["model2vec", "onnxruntime", "pipeline"],
}


def programs(card: str) -> dict[str, str]:
    """The programs of a card by format."""
    names = {title: name for name, title in TITLES.items()}
    found = re.findall(r"### ([^\n]+)\n[^#]*?```python\n(.*?)```", card, flags=re.DOTALL)
    return {names[title]: program for title, program in found}


@pytest.mark.parametrize("kind", BLOCKS)
def test_every_kind_runs_from_its_card_in_an_environment_of_its_runtime(ran, packages, kind):
    run = ran(kind)
    formats = {"sentence-transformers", "onnx", "onnx-int8"} | ({"model2vec"} if kind == "static" else set())
    assert set(run["formats"]) == formats
    assert {path.name for path in Path("out/onnx").iterdir()} == {"model.onnx", "model_quantized.onnx"}
    found = programs(Path("out/README.md").read_text())
    assert set(found) == formats
    expected = student_folder.read(Path("finetuned"), "x").encode(COMPARED)
    for name, program in found.items():
        runtime = "onnx" if name.startswith("onnx") else name
        if runtime == "sentence-transformers":
            continue  # the import alone takes seconds: the next test has all kinds in one run
        call = "encode" if runtime == "onnx" else "model.encode"
        ending = PRINT.format(encode=call, texts=COMPARED, forbidden=FORBIDDEN[runtime])
        assert "(2, 8)" in run_alone(program + ending, packages[runtime], Path("out"))
        close = {"atol": 0.05} if name == "onnx-int8" else {"atol": 3e-6, "rtol": 1e-4}
        np.testing.assert_allclose(np.load("out/vectors.npy"), expected, **close)


def test_all_kinds_run_from_their_cards_where_sentence_transformers_is_alone(
    work, packages, tmp_path, monkeypatch
):
    whole, expected = "import os\n", {}
    for kind in BLOCKS:
        (tmp_path / kind).mkdir()
        monkeypatch.chdir(tmp_path / kind)
        work(kind, formats=["sentence-transformers"])
        program = programs(Path("out/README.md").read_text())["sentence-transformers"]
        ending = PRINT.format(
            encode="model.encode", texts=COMPARED, forbidden=FORBIDDEN["sentence-transformers"]
        )
        whole += f"os.chdir({str(Path('out').absolute())!r})\n{program}{ending}"
        expected[kind] = student_folder.read(Path("finetuned"), "x").encode(COMPARED)
    assert run_alone(whole, packages["sentence-transformers"], tmp_path).count("(2, 8)") == len(BLOCKS)
    for kind, vectors in expected.items():
        found = np.load(tmp_path / kind / "out/vectors.npy")
        np.testing.assert_allclose(found, vectors, atol=3e-6, rtol=1e-4)


def test_metrics_tell_size_parity_and_score_and_the_card_what_report_and_params_say(ran):
    run = ran("transformer")
    assert run["measure"] == "spearman"
    assert (run["split"], run["tasks"]) == ("dev", ["alike"])
    assert run["parity_texts"] == 12
    exact, small = run["formats"]["onnx"], run["formats"]["onnx-int8"]
    assert exact["max_distance"] < 1e-9
    assert exact["share"] == pytest.approx(1, abs=1e-3)
    assert small["share"] == pytest.approx(small["score"] / run["score"], abs=1e-5)
    needed = ("onnx/model.onnx", "tokenizer.json", "config.json")
    files = sum(Path("out", name).stat().st_size for name in needed)
    assert exact["megabytes"] == pytest.approx(files / 1e6, rel=1e-5)
    card = Path("out/README.md").read_text()
    assert "| alike | spearman | 0.6250 | 0.5000 |" in card
    assert "keeps 80.0% of the teacher's scores" in card
    assert "| texts | `texts.csv` | 8 of 9 | unknown: params.yaml names no licence |" in card
    assert "| the teacher | a hashing teacher |  | none: a hash function of the pipeline" in card
    assert "mean Spearman correlation over the dev pairs of alike" in card


@pytest.mark.parametrize("kind", BLOCKS)
def test_int8_gives_a_text_the_same_vector_alone_and_in_a_batch(ran, kind):
    ran(kind)
    encoder = OnnxEncoder(Path("out"), graph="onnx/model_quantized.onnx")
    content = [*TEXTS, *COMPARED]
    alone = np.concatenate([encoder.encode([text]) for text in content])
    np.testing.assert_allclose(encoder.encode(content), alone, atol=1e-5)


def test_searches_find_the_same_by_cosine_inner_product_and_distance(ran):
    run = ran("transformer")["formats"]
    assert run["onnx"]["overlaps"] == {"cosine": 1, "dot": 1, "euclidean": 1}
    vectors = student_folder.read(Path("out"), "x").encode(TEXTS)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_the_folder_is_the_trained_student_and_what_lies_beside_it(work):
    work("static", formats=["sentence-transformers", "model2vec"])
    trained = {path.name: path.read_bytes() for path in Path("finetuned").iterdir()}
    found = {path.name: path.read_bytes() for path in Path("out").iterdir()}
    for name in ("README.md", "seal.json"):
        assert found.pop(name) != trained.pop(name)
    assert "unknown" in found.pop("LICENSE.md").decode()
    assert found == trained


@pytest.mark.parametrize("kind", BLOCKS)
def test_others_may_read_all_files(usual, kind):
    root = usual(kind)
    for folder in ("finetuned", "out"):
        files = [path for path in (root / folder).rglob("*") if path.is_file()]
        modes = {path: path.stat().st_mode & 0o777 for path in files}
        assert set(modes.values()) == {0o644}, modes


def test_a_router_is_written_where_it_is_named_and_its_cards_program_runs(work, tmp_path):
    teacher = write_teacher("prompts", tmp_path / "teacher")
    Path("pca").mkdir()
    pca.write(Pca(np.zeros(16), np.eye(16), np.arange(16.0, 0, -1)), Path("pca/sentence.safetensors"))
    found = work("transformer", teacher=teacher, formats=["sentence-transformers", "router"])["formats"]
    assert set(found) == {"sentence-transformers", "router"}
    assert found["router"]["megabytes"] > found["sentence-transformers"]["megabytes"]
    assert found["router"]["max_distance"] < 1e-6
    model = SentenceTransformer("out/router", device="cpu")
    documents = SentenceTransformer(str(teacher), device="cpu").encode_document(TEXTS)
    np.testing.assert_allclose(model.encode_document(TEXTS), normalised(documents[:, :8]), atol=1e-5)
    np.testing.assert_allclose(
        model.encode_query(TEXTS), SentenceTransformer("finetuned", device="cpu").encode(TEXTS), atol=1e-5
    )
    program = programs(Path("out/README.md").read_text())["router"]
    result = subprocess.run(
        [sys.executable, "-c", program], cwd="out", capture_output=True, text=True, check=True
    )
    assert np.size(eval(result.stdout, {"tensor": np.array})) == 2


APART = {
    "a projection": (
        {"loss": {"kind": "infonce", "projection": "learned"}},
        "learned projection",
    ),
    "no distillation": ({"train": None, "loss": None}, "not trained on the teacher's vectors"),
}


@pytest.mark.parametrize("what", APART)
def test_a_student_that_no_teachers_documents_compare_with_is_exported_without_a_router(
    work, tmp_path, monkeypatch, capfd, what
):
    changed, why = APART[what]
    block = TransformerStudent.model_validate({**BLOCKS["transformer"].model_dump(), **changed})
    monkeypatch.setitem(BLOCKS, "transformer", block)
    Path("pca").mkdir()
    pca.write(Pca(np.zeros(16), np.eye(16), np.ones(16)), Path("pca/sentence.safetensors"))
    found = work("transformer", formats=["sentence-transformers", "router"])
    assert (set(found["formats"]), set(found["left_out"])) == ({"sentence-transformers"}, {"router"})
    told = found["left_out"]["router"]
    assert why in told
    said = f"export tiny: no router, for its vectors are not comparable with the teacher's: {told}"
    assert said in capfd.readouterr().err
    assert not Path("out/router").exists()
    assert "router" not in programs(Path("out/README.md").read_text())


def test_a_router_whose_teacher_is_not_here_leaves_nothing(work):
    Path("pca").mkdir()
    pca.write(Pca(np.zeros(16), np.eye(16), np.ones(16)), Path("pca/sentence.safetensors"))
    with refuses("export.formats", "hashing", "leave router out"):
        work("transformer", formats=["router"])
    assert not Path("out").exists()


def test_the_hubs_own_library_takes_the_folder(work):
    work("transformer", source={"licence": "CC BY-SA 4.0"})
    card = ModelCard.load("out/README.md", ignore_metadata_errors=False)
    assert metadata_load("out/README.md") == card.data.to_dict()
    [result] = card.data.eval_results
    assert (result.dataset_name, result.metric_type, result.metric_value) == ("alike", "spearman", 0.5)
    assert card.data.license == "cc-by-sa-4.0"
    assert not Path("out/LICENSE.md").exists()
    work("static", formats=["sentence-transformers"])
    assert ModelCard.load("out/README.md").data.license_link == "LICENSE.md"
    assert "`texts.csv`: unknown" in Path("out/LICENSE.md").read_text()


def test_the_card_shows_prompts(work):
    work("transformer", prompts={"query": "find `it` | ", "text": ""}, formats=["sentence-transformers"])
    card = Path("out/README.md").read_text()
    assert '- query: <code>"find \\`it\\` &#124; "</code>' in card
    assert "- text:" not in card


def in_javascript() -> str:
    """The card's program for transformers.js, where there is a node to run it."""
    if not shutil.which("node"):
        pytest.skip("there is no node")
    return re.findall(r"```js\n(.*?)```", Path("out/README.md").read_text(), flags=re.DOTALL)[0]


def test_the_program_for_transformers_js_is_javascript(ran):
    ran("transformer")
    Path("program.mjs").write_text(in_javascript())
    done = subprocess.run(["node", "--check", "program.mjs"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_export_with_other_weights_fails_by_how_much_and_leaves_nothing(work, monkeypatch):
    whole = onnx.export

    def broken(model: SentenceTransformer):
        from onnx import numpy_helper

        made = whole(model)
        for initializer in made.graph.initializer:
            if initializer.name.endswith("linear.weight"):
                array = numpy_helper.to_array(initializer)
                noise = np.random.default_rng(0).standard_normal(array.shape)
                changed = (array + 0.1 * np.abs(array).mean() * noise).astype(np.float32)
                initializer.CopyFrom(numpy_helper.from_array(changed, initializer.name))
        return made

    monkeypatch.setattr(onnx, "export", broken)
    with refuses("onnx ", "cosine", "export.fp32.distance", "export.formats"):
        work("transformer")
    assert not Path("out").exists()
    assert not Path("metrics.json").exists()


def test_an_export_that_finds_other_neighbours_fails(work, monkeypatch):
    monkeypatch.setattr(parity, "nearest", lambda vectors, _how: np.arange(len(vectors))[:, None])
    work("static", formats=["onnx"])
    apart = iter(range(100))
    monkeypatch.setattr(parity, "nearest", lambda vectors, _how: np.full((len(vectors), 1), next(apart)))
    with refuses("0.0% of the 10 nearest", "export.fp32.overlap", "export.formats"):
        work("static", formats=["onnx"])


def test_an_int8_that_loses_too_much_fails_by_its_score(work, monkeypatch):
    gate = {"int8": {"distance": 0.5, "loss": 0.0}, "formats": ["onnx-int8"]}
    work("transformer", **gate)  # what it loses lies within chance
    monkeypatch.setattr(parity.Measure, "least_loss", lambda *_: 0.001)
    with refuses("onnx-int8 ", " 0.10%", "export.int8.loss", " 0.00%"):
        work("transformer", **gate)


def test_a_student_without_any_of_the_formats(work):
    with refuses("export.formats", "model2vec", "students.tiny", "transformer"):
        work("transformer", formats=["model2vec"])
