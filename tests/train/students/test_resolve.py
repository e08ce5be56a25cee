"""What `auto`, shares, {last} and {spread} come to."""

import numpy as np
import pytest
from refusals import refuses
from small_encoders import small_encoder
from small_students import bilstm_block, compact_block, static_block, teacher, transformer_block

from pipeline.params.layers import LastLayers, SpreadLayers
from pipeline.teacher.kinds import hashing
from pipeline.train.students.shared.resolve import numbered, resolved, spread
from pipeline.train.students.shared.verdict import verdict

FACTS = hashing.look(teacher().params)


@pytest.mark.parametrize(
    ("layers", "count", "kept"),
    [
        ("auto", 6, (1, 3, 5)),
        ("auto", 12, (2, 5, 8, 11)),
        ("auto", 4, (0, 1, 3)),
        ("auto", 2, (0, 1)),
        (LastLayers(last=3), 6, (3, 4, 5)),
        (SpreadLayers(spread=3), 12, (3, 7, 11)),
        (SpreadLayers(spread=6), 6, (0, 1, 2, 3, 4, 5)),
        ((4, 2), 6, (4, 2)),
        (None, 6, None),
    ],
)
def test_layers(layers, count, kept):
    assert numbered(layers, count) == kept


@pytest.mark.parametrize("count", [1, 2, 3, 7, 22, 28, 48])
def test_layers_that_are_spread_are_as_far_apart_as_can_be(count):
    for wanted in range(1, count + 1):
        found = spread(wanted, count)
        gaps = np.diff([-1, *found])
        assert (len(found), found[-1]) == (wanted, count - 1)
        assert gaps.max() - gaps.min() <= 1


@pytest.mark.parametrize("layers", [LastLayers(last=7), SpreadLayers(spread=7)])
def test_more_layers_than_there_are(layers):
    with refuses("init.layers", " 7 ", " 6"):
        numbered(layers, 6)


def of(block, **changes):
    return type(block).model_validate(block.model_dump() | changes)


def test_dimensions_follow_the_teacher():
    assert resolved(of(transformer_block(), dim="auto"), FACTS).width == 32
    assert resolved(of(transformer_block(dim=8)), FACTS).width == 8
    small = FACTS.model_copy(update={"used": 21})  # 20 principal components
    assert resolved(of(static_block(), dim="auto"), small).width == 20
    halved = resolved(compact_block(init={"table_dim": 0.25}), FACTS)
    assert halved.init.table_width == 8


@pytest.mark.parametrize(
    ("window", "longest"),
    [
        (50, {"transformer": 50, "compact": 50, "bilstm": 50}),
        (
            None,
            {"transformer": 128, "compact": 128, "bilstm": 512},
        ),  # its parts have 128
    ],
)
def test_students_read_as_many_tokens_as_the_teacher(window, longest):
    facts = FACTS.model_copy(update={"window": window})
    for block in (transformer_block, compact_block, bilstm_block):
        student = block(init={"max_length": "auto"})
        assert resolved(student, facts).init.longest == longest[student.kind]
        assert resolved(block(init={"max_length": 20}), facts).init.longest == 20


@pytest.mark.parametrize(("family", "positions"), [("bert", 90), ("roberta", 89), ("mpnet", 88)])
def test_another_encoder_reads_no_more_tokens_than_it_has_positions_for(family, positions, tmp_path):
    small_encoder(family).save_pretrained(tmp_path)
    hashing.letter_tokenizer().save_pretrained(tmp_path)
    facts = FACTS.model_copy(update={"window": 256})
    for block in (transformer_block, compact_block):
        student = block(init={"max_length": "auto", "model": str(tmp_path)})
        assert resolved(student, facts).init.longest == positions


def test_a_width_that_nobody_knows_yet_has_to_be_said():
    unknown = FACTS.model_copy(update={"dims": {}})
    with refuses("dim ", "'sentence'", "teacher.dimensions"):
        resolved(of(transformer_block(), dim="auto"), unknown)
    assert resolved(transformer_block(dim=8), unknown).width == 8


@pytest.mark.parametrize("init", [{"projection": "none"}, {"projection": "random"}])
def test_without_training_no_width_of_the_teachers_bounds_the_students(init):
    narrow = FACTS.model_copy(update={"dims": {"sentence": 16}})
    block = transformer_block(init=init).model_dump() | {"dim": 32}
    alone = of(transformer_block(), **{**block, "train": None, "loss": None})
    assert verdict("tiny", alone, narrow).block.width == 32
    assert resolved(of(alone, dim="auto"), narrow).width == (32 if init["projection"] == "none" else 16)
    with refuses("students.tiny", " 32", " 16 "):
        verdict("tiny", of(alone, train=block["train"], loss=block["loss"]), narrow)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"whitening": {"dim": 40}}, ("whitening.dim", "40", " 32")),
        ({"train": {"matryoshka": [40]}}, ("train.matryoshka", "40", " 32")),
        ({"finetune": {"data": ["mine"], "projection": 40}}, ("finetune.projection", "40", " 32 ")),
    ],
)
def test_what_goes_with_no_dimension_shows_once_there_is_one(changes, named):
    block = transformer_block().model_dump()
    block["train"] |= changes.pop("train", {})
    with refuses("students.tiny.", *named):
        verdict("tiny", of(transformer_block(), **{**block, **changes, "dim": "auto"}), FACTS)
