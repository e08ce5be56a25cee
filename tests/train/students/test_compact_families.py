"""What holds the layers of encoders that are no ELECTRA: a DeBERTa-v2 those of MPNet, an ELECTRA ALBERT's."""

from pathlib import Path

import numpy as np
import pytest
import torch
from refusals import refuses
from sentence_transformers import SentenceTransformer
from small_students import TEXTS, compact_block, own_vectors, targets, write_encoder
from transformers import (
    AlbertConfig,
    AlbertModel,
    DebertaConfig,
    DebertaModel,
    DebertaV2Config,
    DebertaV2Model,
    ElectraModel,
    GPT2Config,
    GPT2Model,
    ModernBertConfig,
    ModernBertModel,
    MPNetConfig,
    MPNetModel,
    PreTrainedModel,
    T5Config,
    T5EncoderModel,
)

from pipeline.teacher.kinds.hashing import letter_tokenizer
from pipeline.train.students.kinds import compact
from pipeline.train.students.shared.narrow_deberta import freed
from pipeline.train.students.shared.teacher_layers import keep_layers

POSITIONS = 300
SPECIAL = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
SHAPE = {
    "vocab_size": len(letter_tokenizer()),
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": POSITIONS,
}
RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
TEACHERS = {
    "mpnet": lambda: MPNetModel(MPNetConfig(**SHAPE)),
    "albert": lambda: AlbertModel(AlbertConfig(**SHAPE, **SPECIAL, embedding_size=8)),
    "albert of two groups": lambda: AlbertModel(
        AlbertConfig(**SHAPE, **SPECIAL, embedding_size=8, num_hidden_groups=3)
    ),
    "deberta": lambda: DebertaModel(DebertaConfig(**SHAPE, **RELATIVE)),
    "deberta-v2": lambda: DebertaV2Model(
        DebertaV2Config(
            **SHAPE, **RELATIVE, position_buckets=8, norm_rel_ebd="layer_norm", share_att_key=True
        )
    ),
    "deberta-v2 with narrow tables": lambda: DebertaV2Model(
        DebertaV2Config(**SHAPE, **RELATIVE, embedding_size=8, type_vocab_size=2, position_biased_input=False)
    ),
}


def small(name: str) -> PreTrainedModel:
    """A teacher whose tables all lie in the same four dimensions.

    MPNet's heads leave their last one unused.
    """
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        teacher = TEACHERS[name]().eval()
        for parameter in teacher.parameters():
            torch.nn.init.normal_(parameter, std=0.4)
        axes = torch.randn(4, teacher.get_input_embeddings().embedding_dim)
        for table in teacher.embeddings.modules():
            if isinstance(table, torch.nn.Embedding):
                table.weight.copy_(torch.randn(len(table.weight), 4) @ axes)
        if name == "mpnet":
            for layer in teacher.encoder.layer:
                layer.attention.attn.q.weight[7::8] = 0
                layer.attention.attn.q.bias[7::8] = 0
    return teacher


def student_of(teacher: PreTrainedModel, folder: Path, **init) -> compact.Compact:
    start = {"table_dim": 4, "layers": (0, 2), "projection": "none", "max_length": 256, **init}
    return compact.build(compact_block(dim=16, init=start), write_encoder(teacher, folder))


@pytest.mark.parametrize("name", [name for name in TEACHERS if "albert" not in name])
@pytest.mark.parametrize("length", [5, 250])
def test_the_student_computes_what_the_chosen_layers_of_the_teacher_do(name, length, tmp_path):
    """Lengths below and above the distance from which MPNet's biases are one."""
    teacher = small(name)
    student = student_of(teacher, tmp_path).module[0].model
    ids = torch.randint(5, 40, (2, length), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = keep_layers(teacher, (0, 2)).eval()(ids).last_hidden_state
        found = student(ids).last_hidden_state
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("layers", "held"), [((2,), ElectraModel), ((1, 2), DebertaV2Model)])
def test_few_of_mpnets_layers_do_without_its_biases(layers, held, tmp_path):
    teacher = small("mpnet")
    student = student_of(teacher, tmp_path, layers=layers).module[0].model
    assert type(student) is held
    if held is ElectraModel:
        kept = keep_layers(teacher, layers).eval()
        kept.encoder.relative_attention_bias.weight.data.zero_()
        states = torch.randn(1, 9, 16, generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            expected = kept.encoder(states, return_dict=True).last_hidden_state
            torch.testing.assert_close(
                student.encoder(states).last_hidden_state, expected, rtol=1e-4, atol=1e-4
            )


@pytest.mark.parametrize("name", [name for name in TEACHERS if "albert" in name])
def test_alberts_layers_are_untied(name, tmp_path):
    teacher = small(name)
    student = student_of(teacher, tmp_path, layers=(0, 1)).module[0].model
    shortened = keep_layers(teacher, (0, 1)).eval()
    with torch.no_grad():
        states = torch.randn(1, 6, 16)
        found = student.encoder(states).last_hidden_state
        shortened.encoder.embedding_hidden_mapping_in = torch.nn.Identity()
        expected = shortened.encoder(states, None).last_hidden_state
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    first, second = (layer.intermediate.dense.weight for layer in student.encoder.layer)
    assert first.data_ptr() != second.data_ptr()


@pytest.mark.parametrize("name", TEACHERS)
@pytest.mark.parametrize("layers", [None, (0, 1)])
def test_narrow_feed_forward_blocks_are_fitted_in_every_family(name, layers, tmp_path):
    """ALBERT's one block is fitted once for all layers that the student has of it."""
    student = student_of(small(name), tmp_path, layers=layers, intermediate=20)
    built = [parameter.clone() for parameter in student.module.parameters()]
    student.fit_projection(student.tokenise(TEXTS), targets(16))
    fitted = list(student.module.parameters())
    assert all(torch.isfinite(parameter).all() for parameter in fitted)
    pairs = zip(built, fitted, strict=True)
    changed = sum(one.shape == (16, 20) and not torch.equal(one, other) for one, other in pairs)
    assert changed == student.layers


def test_a_head_without_a_spare_dimension_loses_the_least_singular_value():
    """Against the float64 SVD of the head's bilinear form, for states that a norm left."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        query, key, norm = torch.nn.Linear(12, 12), torch.nn.Linear(12, 12), torch.nn.LayerNorm(12)
        torch.nn.init.normal_(norm.weight, mean=1)
        torch.nn.init.normal_(norm.bias)
        states = norm(torch.randn(400, 12)).detach().double()
    (queries, query_bias), (keys, key_bias) = (
        (weight.double(), bias.double()) for weight, bias in freed(query, key, 3, norm)
    )
    lost = 0.0
    for head in range(3):
        rows = slice(4 * head, 4 * head + 4)
        q, k = query(states.float()).double()[:, rows], key(states.float()).double()[:, rows]
        new_q, new_k = states @ queries[rows].T + query_bias[rows], states @ keys[rows].T + key_bias[rows]
        np.testing.assert_allclose(new_q[:, -1].detach(), 0)
        np.testing.assert_allclose(new_k[:, -1].detach(), 1)
        # Softmax does not see what all keys have alike.
        whole, found = (
            scores - scores.mean(1, keepdim=True) for scores in (q @ k.T, new_q @ new_k.T / 2**0.5)
        )
        spread = torch.linalg.svdvals(whole)
        error = torch.linalg.norm(whole - found) / torch.linalg.norm(whole)
        best = torch.linalg.norm(spread[3:]) / torch.linalg.norm(spread)
        assert best <= error <= 1.5 * best + 0.01
        lost = max(lost, float(error.detach()))
    assert 0 < lost < 0.5


@pytest.mark.parametrize("name", TEACHERS)
def test_the_saved_student_is_the_trained_one(name, tmp_path):
    student = student_of(small(name), tmp_path / "teacher", table_dim=3, max_length=64)
    student.fit_projection(student.tokenise(TEXTS), targets(16))
    vectors = student.encode(student.tokenise(TEXTS)).vectors
    vectors.square().sum().backward()
    assert all(
        table.grad.any()
        for table_name, table in student.module.named_parameters()
        if table_name.endswith("word_embeddings.weight")
    )
    student.save(tmp_path / "student")
    texts = [*TEXTS, "", "漢字 cat", "abc " * 40]
    plain = SentenceTransformer(str(tmp_path / "student"), device="cpu")
    for batch in (1, 4, 32):
        np.testing.assert_allclose(
            plain.encode(texts, batch_size=batch), own_vectors(student, texts), atol=1e-5
        )


@pytest.mark.parametrize(
    "teacher",
    [
        lambda: ModernBertModel(ModernBertConfig(**SHAPE, **SPECIAL, cls_token_id=2, sep_token_id=3)),
        lambda: T5EncoderModel(
            T5Config(vocab_size=60, d_model=16, d_kv=8, d_ff=32, num_layers=3, num_heads=2)
        ),
        lambda: GPT2Model(GPT2Config(vocab_size=60, n_embd=16, n_layer=3, n_head=2)),
    ],
    ids=["modernbert", "t5", "gpt2"],
)
def test_layers_that_no_stock_model_holds(teacher, tmp_path):
    with refuses(teacher().config.model_type, "`kind: transformer`", "init.model"):
        student_of(teacher(), tmp_path)


def test_more_dimensions_than_the_tables_have(tmp_path):
    with refuses("init.table_dim", " 9,", " 8 ", "lower it"):
        student_of(small("albert"), tmp_path, table_dim=9)


def test_a_model_of_its_own_takes_the_teachers_place(tmp_path, parts):
    own = write_encoder(small("deberta"), tmp_path / "own")
    init = {"model": str(own), "table_dim": 4, "layers": (0, 2), "projection": "none", "max_length": 64}
    student = compact.build(compact_block(dim=16, init=init), parts)
    student.fit_projection(student.tokenise(TEXTS), targets(16))
    kept = keep_layers(small("deberta"), (0, 2)).eval()
    for text, vector in zip(TEXTS, own_vectors(student, TEXTS), strict=True):
        ids = torch.from_numpy(student.tokenise([text]).ids).long()[None]
        with torch.no_grad():
            expected = kept(ids).last_hidden_state[0].mean(0)
        np.testing.assert_allclose(vector, expected, atol=1e-3)
