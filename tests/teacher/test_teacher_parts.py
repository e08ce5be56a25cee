"""The stages `look` and `teacher_parts`: who gets vocabulary vectors; after a kill."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from refusals import refuses
from ruamel.yaml import YAML
from small_encoders import small_encoder
from small_params import small_params
from transformers import AutoTokenizer

from pipeline.data.teacher_parts import read_encoder, read_tokenizer, read_vocabulary
from pipeline.look import look
from pipeline.teacher import teacher_parts
from pipeline.teacher.encoding.store import filling
from pipeline.teacher.kinds.hashing import letter_tokenizer

STATIC = small_params()["students"]["tiny"]
GLOVE = {**STATIC, "init": {"path": "words.txt"}}
TRANSFORMER = {**STATIC, "kind": "transformer", "init": {"layers": [1], "max_length": 64}}
OUT, VOCABULARY, READERS, FACTS = (Path(name) for name in ("teacher", "vocabulary", "readers.json", "facts"))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working folder with a tiny teacher."""
    monkeypatch.chdir(tmp_path)
    small_encoder("mpnet").save_pretrained("mpnet")
    letter_tokenizer().save_pretrained("mpnet")
    numbers = " ".join(map(str, range(8)))
    Path("words.txt").write_text("".join(f"word{row} {numbers}\n" for row in range(9)))


def write_params(students=(), **blocks):
    made = {"hpd": TRANSFORMER, **{name: GLOVE if name == "glove" else STATIC for name in students}}
    teacher = {"kind": "transformer", "model": "./mpnet", "pooling": "mean"}
    params = small_params(teacher=teacher, students=made, **blocks)
    with Path("params.yaml").open("w") as file:
        YAML().dump(json.loads(json.dumps(params)), file)


def run():
    look.main(FACTS, Path("tokenizer"), READERS, Path("cards"))
    teacher_parts.main(OUT, VOCABULARY, READERS, FACTS)


@pytest.mark.parametrize("students", [[], ["glove"]])
def test_without_a_reader_no_token_is_encoded_and_the_stage_is_named(capsys, students):
    write_params(students)
    run()
    assert not list(Path().rglob("*.parquet"))
    assert "not needed" in capsys.readouterr().err
    assert read_encoder(OUT).config.model_type == "mpnet"
    assert read_tokenizer(OUT).get_vocab_size() == len(letter_tokenizer())
    with refuses("vocabulary/transformer", "`dvc repro teacher_parts`"):
        read_vocabulary(VOCABULARY / "transformer")


@pytest.mark.parametrize("reader", ["static", "wordnet"])
def test_who_reads_vectors_gets_them_and_nobody_else_does(reader):
    context = {"wordnet": {"enabled": True, "context": 0.1}, "back_translation": {"enabled": False}}
    write_params(["potion"]) if reader == "static" else write_params(augment=context)
    run()
    assert [path.parent.name for path in VOCABULARY.rglob("*.parquet")] == [reader]
    assert read_vocabulary(VOCABULARY / reader).shape == (len(AutoTokenizer.from_pretrained("mpnet")), 16)
    assert read_tokenizer(VOCABULARY / reader).get_vocab() == read_tokenizer(OUT).get_vocab()


@pytest.mark.parametrize("students", [["glove", "potion"], ["potion", "glove"]])
def test_a_table_of_words_takes_vectors_from_no_other_student(students):
    write_params(students)
    look.main(FACTS, Path("tokenizer"), READERS, Path("cards"))
    assert json.loads(READERS.read_text())["static"] is True


def test_readers_change_with_the_kinds_of_students_and_nothing_else_of_them():
    written = []
    for students in (["potion"], ["potion", "other"], []):
        write_params(students)
        look.main(FACTS, Path("tokenizer"), READERS, Path("cards"))
        written.append(READERS.read_text())
    assert written[0] == written[1] != written[2]
    assert json.loads(written[0])["static"] is True


def test_missing_readers_name_their_stage():
    write_params()
    with refuses(READERS, "`dvc repro look`"):
        teacher_parts.main(OUT, VOCABULARY, READERS, FACTS)


def test_a_killed_run_goes_on_and_gives_the_bytes_of_an_undisturbed_one(monkeypatch, capsys):
    """The child dies, without a word to anybody, when the third of eight pieces has been kept."""
    monkeypatch.setattr(filling, "PIECE_CHARACTERS", 28)
    write_params(["potion"])
    run()
    size = len(letter_tokenizer())
    assert f"{size} tokens encoded, 0 taken from the store" in capsys.readouterr().err
    undisturbed = (VOCABULARY / "static/vocabulary.parquet").read_bytes()
    shutil.rmtree(".cache"), shutil.rmtree(VOCABULARY), shutil.rmtree(OUT)
    if (child := os.fork()) == 0:
        keep, kept = filling._keep, []

        def dying(*arguments, **options):
            keep(*arguments, **options)
            kept.append(1)
            if len(kept) == 3:
                os._exit(9)

        filling._keep = dying
        run()
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert not OUT.exists() or not VOCABULARY.exists()
    run()
    said = capsys.readouterr().err
    taken = int(said.partition(" taken from the store")[0].rpartition(" ")[2])
    assert 0 < taken < size
    assert (VOCABULARY / "static/vocabulary.parquet").read_bytes() == undisturbed


def test_a_second_run_takes_all_from_the_store(capsys):
    write_params(["potion"])
    run()
    first = read_vocabulary(VOCABULARY / "static")
    run()
    assert f"0 tokens encoded, {len(first)} taken from the store" in capsys.readouterr().err
    assert np.array_equal(read_vocabulary(VOCABULARY / "static"), first)
