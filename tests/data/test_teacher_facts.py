"""data/teacher_facts.json."""

import numpy as np
from refusals import refuses
from small_students import teacher, write_facts, write_parts

from pipeline.core.facts import check_facts
from pipeline.data import teacher_parts
from pipeline.data.models import teacher_facts
from pipeline.teacher.kinds import hashing


def test_facts_are_read_as_they_were_written_in_equal_bytes(tmp_path):
    path = write_facts(tmp_path / "facts.json")
    assert teacher_facts.read(path) == hashing.look(teacher().params)
    assert write_facts(tmp_path / "again.json").read_bytes() == path.read_bytes()
    assert str(tmp_path) not in path.read_text()


def test_the_encoder_without_weights_has_the_tensors_of_the_one_with_them(tmp_path):
    whole = teacher_parts.read_encoder(write_parts(tmp_path)).state_dict()
    empty = teacher_parts.empty_encoder(hashing.look(teacher().params).config)
    assert {name: one.shape for name, one in empty.state_dict().items()} == {
        name: one.shape for name, one in whole.items()
    }
    assert all(parameter.is_meta for parameter in empty.parameters())


def test_the_tokens_that_count_are_those_of_the_vocabulary():
    facts = hashing.look(teacher().params)
    names = hashing.letter_tokenizer().get_vocab()
    assert facts.tokens == len(names)
    assert facts.used == len(names)
    unused = np.array([True, False])
    assert teacher_facts.most_dimensions(9, int(unused.sum()) + 5) == 5


def test_a_missing_and_a_damaged_file_name_the_stage(tmp_path):
    with refuses(tmp_path / "facts.json", "`dvc repro look`"):
        teacher_facts.read(tmp_path / "facts.json")
    (tmp_path / "facts.json").write_text("{}")
    with refuses(tmp_path / "facts.json", "`dvc repro -f look`"):
        teacher_facts.read(tmp_path / "facts.json")


def test_a_teacher_whose_files_have_changed_is_found(tmp_path):
    path = write_facts(tmp_path / "facts.json")
    check_facts(path, {"dims": {"sentence": 32, "another": 3}, "tokens": 77}, "look")
    for found, key in (({"dims": {"cls": 31}}, "dims.cls"), ({"tokens": 78}, "tokens")):
        with refuses(path, key, "`dvc repro -f look`"):
            check_facts(path, found, "look")
