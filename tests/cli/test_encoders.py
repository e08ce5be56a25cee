import shutil
import subprocess
import sys

import numpy as np
import pytest
from refusals import refuses
from sentence_transformers import SentenceTransformer
from small_students import TEXTS, bilstm_block, compact_block, static_block, transformer_block

from pipeline.cli import encoders
from pipeline.cli.encoders import open_encoders
from pipeline.core import machine
from pipeline.core.registry import implementation
from pipeline.data.student import student_folder

BLOCKS = {
    "static": static_block(),
    "transformer": transformer_block(),
    "compact": compact_block(),
    "bilstm": bilstm_block(),
}
FAST = {"static", "transformer", "compact"}
WANTED = [*TEXTS, "", "tab\tand  spaces", "ÜBER 漢字", "long " * 300]


@pytest.fixture(scope="module")
def students(parts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("students")
    for kind, block in BLOCKS.items():
        learner = implementation("train.students.kinds", kind).build(block, parts)
        student_folder.write(learner, "a card", folder / kind)
    return folder


@pytest.mark.parametrize("kind", BLOCKS)
def test_the_vectors_are_those_of_sentence_transformers(students, kind, monkeypatch):
    slow, by_library = [], encoders._batched
    monkeypatch.setattr(encoders, "_batched", lambda *args: slow.append(kind) or by_library(*args))
    found = open_encoders(students / kind, "cpu", 64)
    assert (slow == []) == (kind in FAST)
    expected = SentenceTransformer(str(students / kind), device="cpu").encode(WANTED)
    for encode in (found.texts, found.queries, found.documents):
        np.testing.assert_allclose(encode(WANTED), expected, atol=2e-6)


def test_prompts_are_put_before_queries_and_documents(students, tmp_path):
    model = SentenceTransformer(str(students / "transformer"), device="cpu")
    model.prompts = {"query": "ask: ", "document": "say: "}
    model.save(str(tmp_path))
    found = open_encoders(tmp_path, "cpu", 64)
    np.testing.assert_allclose(found.queries(TEXTS), model.encode_query(TEXTS), atol=2e-6)
    np.testing.assert_allclose(found.documents(TEXTS), model.encode_document(TEXTS), atol=2e-6)
    np.testing.assert_allclose(found.texts(TEXTS), model.encode(TEXTS), atol=2e-6)
    assert np.abs(found.queries(TEXTS) - found.documents(TEXTS)).max() > 0.01


def test_a_transformer_runs_in_bfloat16_near_by(students):
    exact, near = (
        open_encoders(students / "transformer", "cpu", 64, precision).texts(WANTED)
        for precision in ("float32", "bfloat16")
    )
    assert 0 < np.abs(near - exact).max() < 0.02 * np.abs(exact).max()


@pytest.mark.parametrize(("gain", "chosen"), [(2.0, "bfloat16"), (0.5, "float32")])
def test_auto_takes_bfloat16_where_it_is_faster(students, monkeypatch, gain, chosen):
    monkeypatch.setattr(machine, "gain", lambda *_: gain)
    monkeypatch.setattr(machine, "SMALLEST", 1)
    found = [
        open_encoders(students / "transformer", "cpu", 64, precision).texts(WANTED)
        for precision in ("auto", chosen)
    ]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("kind", ["bilstm", "static"])
def test_auto_is_float32_where_a_model_has_no_other_precision(students, kind):
    auto, exact = (
        open_encoders(students / kind, "cpu", 64, one).texts(WANTED) for one in ("auto", "float32")
    )
    np.testing.assert_array_equal(auto, exact)


@pytest.mark.parametrize("kind", ["bilstm", "static"])
def test_a_model_without_other_precisions_is_told(students, kind):
    with refuses("--precision bfloat16", students / kind, "float32"):
        open_encoders(students / kind, "cpu", 64, "bfloat16")


def test_a_transformer_that_cannot_be_packed_is_told_before_it_encodes(students, monkeypatch):
    monkeypatch.setattr(encoders.shipped, "packed", lambda *_: None)
    with refuses("--precision bfloat16", students / "transformer", "use float32"):
        open_encoders(students / "transformer", "cpu", 64, "bfloat16")


def test_a_table_needs_no_torch(students):
    code = (
        "import sys; from pathlib import Path; from pipeline.cli.encoders import open_encoders\n"
        f"open_encoders(Path({str(students / 'static')!r}), 'auto', 64).texts(['a'])\n"
        "assert not {'torch', 'transformers', 'sentence_transformers'} & sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize("named", [".safetensors", "'cpu'"])
def test_a_damaged_folder_is_told(students, tmp_path, kind, named):
    (tmp_path / "s").symlink_to(students / kind)
    folder = tmp_path / "copy"
    subprocess.run(["cp", "-rL", tmp_path / "s", folder], check=True)
    (folder / "seal.json").unlink()  # as a folder of others, which has none
    for weights in list(folder.rglob("*.safetensors")):
        weights.write_bytes(b"no weights") if named == "'cpu'" else weights.unlink()
    with refuses(folder, named):
        open_encoders(folder, "cpu", 64)


def test_a_damaged_tokenizer_of_a_table_is_told(students, tmp_path):
    folder = shutil.copytree(students / "static", tmp_path / "copy")
    (folder / "tokenizer.json").write_text("{}")
    with refuses(folder / "tokenizer.json", "seal.json"):
        open_encoders(folder, "cpu", 64)
    (folder / "seal.json").unlink()
    with refuses(folder, "'cpu'"):
        open_encoders(folder, "cpu", 64)


@pytest.mark.parametrize("listed", ["[]", "{}", "[{}]", '{"a": 1}', "3"])
def test_a_list_of_modules_that_is_none_is_told(tmp_path, listed):
    (tmp_path / "modules.json").write_text(listed)
    with refuses(tmp_path / "modules.json", "type and path"):
        open_encoders(tmp_path, "cpu", 64)


@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize("device", ["cuda:99", "abacus", "hpu", "meta"])
def test_a_device_that_is_not_there_is_told(students, kind, device):
    with refuses("--device", f"'{device}'", "auto or cpu"):
        open_encoders(students / kind, device, 64)


def copied(students, folder, kind):
    """As of others: without a seal."""
    copy = shutil.copytree(students / kind, folder)
    (copy / "seal.json").unlink()
    return copy


@pytest.mark.parametrize("kind", ["transformer", "compact"])
def test_a_transformer_without_its_tokenizer_is_told(students, tmp_path, kind):
    """transformers would make one up, of five tokens."""
    folder = copied(students, tmp_path / "copy", kind)
    (folder / "tokenizer.json").unlink()
    with refuses(folder, "no tokenizer", "tokenizer.json"):
        open_encoders(folder, "cpu", 64)


DAMAGED = {
    "1_Pooling/config.json": None,
    "tokenizer_config.json": "null",
    "config.json": "[]",
    "config_sentence_transformers.json": '{"prompts": null}',
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_file_that_is_gone_or_holds_what_nobody_expects_is_told(students, tmp_path, name):
    folder = copied(students, tmp_path / "copy", "transformer")
    content = DAMAGED[name]
    (folder / name).unlink() if content is None else (folder / name).write_text(content)
    with refuses(folder):
        open_encoders(folder, "cpu", 64)
