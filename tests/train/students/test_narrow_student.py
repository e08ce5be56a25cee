"""Transformer students of fewer hidden dimensions: narrow and deep."""

import numpy as np
import pytest
import torch
from refusals import refuses
from sentence_transformers import SentenceTransformer
from small_encoders import FAMILIES, small_encoder
from small_students import TEXTS, own_vectors, teacher, transformer_block, write_encoder
from transformers import BertConfig, BertModel, GPT2Config, GPT2Model

from pipeline.encoders.packing.packing import FAMILIES as PACKED
from pipeline.params.student_faults import student_faults
from pipeline.params.students import TransformerStudent
from pipeline.teacher.kinds import hashing
from pipeline.train.students.kinds import transformer
from pipeline.train.students.shared.narrow_width import factors, narrow_width, strengths
from pipeline.train.students.shared.resolve import resolved

FACTS = hashing.look(teacher().params)
IDS = torch.tensor([[2, 7, 9, 30, 11, 8, 12, 3]])
WIDTH = 8


def states(encoder) -> list[torch.Tensor]:
    with torch.no_grad():
        return list(encoder.eval()(IDS, output_hidden_states=True).hidden_states)


def narrow_block(dim: int = 8, **init) -> TransformerStudent:
    init = {"layers": None, "hidden": 16, "max_length": 64, **init}
    return transformer_block(dim=dim, init=init)


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "electra"])
def test_dimensions_that_nothing_uses_are_left_out_without_a_change(family):
    """Odd dimensions repeat the even ones, and no layer reads them: norms see equal means and variances."""
    wide = small_encoder(family)
    with torch.no_grad():
        names = PACKED[type(wide).__name__]
        for name, parameter in wide.named_parameters():
            if name.endswith("relative_attention_bias.weight") or "pooler" in name:
                continue
            per_layer = name.startswith(names.layers)
            inner = per_layer and name.rsplit(".", 1)[0].endswith((names.inner, *names.query_key_value))
            if inner and parameter.dim() == 2:
                parameter[:, 1::2] = 0  # reads the even dimensions alone
            elif not inner and parameter.dim() == 2 and not per_layer:
                parameter[:, 1::2] = parameter[:, ::2]  # word, position and type tables
            elif not inner:
                parameter[1::2] = parameter[::2]  # norms, and what layers write
        for layer in wide.get_submodule(names.layers).children():
            half_rank_heads(layer, names, wide.config.num_attention_heads)
    narrow = narrow_width(wide, WIDTH)
    assert narrow.config.num_attention_heads == wide.config.num_attention_heads
    for one, other in zip(states(narrow), states(wide), strict=True):
        torch.testing.assert_close(one, other[..., ::2], rtol=1e-4, atol=1e-4)


def half_rank_heads(layer, names, heads: int) -> None:
    """All dimensions of a head are combinations of half as many: its products lose nothing at that rank."""
    parts = [layer.get_submodule(name) for name in names.query_key_value]
    torch.manual_seed(1)
    for part in parts:
        size = part.weight.shape[0] // heads
        mixed = torch.randn(size, size // 2) * 0.5
        for own in (part.weight, part.bias):
            by_head = own.view(heads, size, -1)
            by_head.copy_(mixed @ by_head[:, : size // 2])


def test_factors_are_the_nearest_of_their_rank():
    generator = torch.Generator().manual_seed(0)
    left = torch.randn(3, 9, 6, generator=generator, dtype=torch.float64)
    right = torch.randn(3, 6, 7, generator=generator, dtype=torch.float64)
    one, other = factors(left, right, 2)
    assert (one.shape, other.shape) == ((3, 9, 2), (3, 2, 7))
    for head in range(3):
        u, sizes, v = np.linalg.svd((left[head] @ right[head]).numpy())
        expected = u[:, :2] @ np.diag(sizes[:2]) @ v[:2]
        np.testing.assert_allclose((one[head] @ other[head]).numpy(), expected, atol=1e-10)


def test_the_kept_dimensions_are_those_that_layers_read_most_of():
    wide = small_encoder("bert")
    read = [1, 2, 5, 6, 8, 11, 12, 15]
    norms = [module for name, module in wide.named_modules() if name.endswith("LayerNorm")]
    with torch.no_grad():
        for norm in norms:
            norm.weight.fill_(1)
        for layer in wide.encoder.layer:
            for part in (*PACKED["BertModel"].query_key_value, "intermediate.dense"):
                layer.get_submodule(part).weight[:, read] *= 3
    assert strengths(wide, PACKED["BertModel"]).topk(8).indices.sort().values.tolist() == read
    table = narrow_width(wide, 8).embeddings.word_embeddings.weight
    torch.testing.assert_close(table, wide.embeddings.word_embeddings.weight[:, read])
    with torch.no_grad():  # what is read of a dimension of no size is nothing
        for norm in norms:
            norm.weight[1] = 0
    assert 1 not in strengths(wide, PACKED["BertModel"]).topk(8).indices


def test_electras_embeddings_keep_their_width():
    wide = small_encoder("electra")
    wide.config.embedding_size = 12
    wide = type(wide)(wide.config)
    narrow = narrow_width(wide, 8)
    assert narrow.embeddings_project.weight.shape == (8, 12)
    torch.testing.assert_close(states(narrow)[0].shape, torch.Size([1, 8, 8]))
    with refuses("init.hidden", " 8,", "embeddings", "set it to 6"):
        narrow_width(small_encoder("electra"), 8)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("weights", ["encoder", "random"])
def test_the_saved_student_is_the_trained_one(family, weights, tmp_path):
    wide = small_encoder(family)
    folder = write_encoder(wide, tmp_path / "teacher")
    block = narrow_block(hidden=4, intermediate=10, weights=weights, projection="random")
    student = transformer.build(block, folder)
    student.encode(student.tokenise(TEXTS)).vectors.sum().backward()
    student.save(tmp_path / "student")
    plain = SentenceTransformer(str(tmp_path / "student"), device="cpu")
    np.testing.assert_allclose(plain.encode(TEXTS), own_vectors(student, TEXTS), rtol=1e-5, atol=1e-5)
    config = plain[0].model.config
    assert (config.hidden_size, config.num_attention_heads, config.num_hidden_layers) == (4, 2, 2)
    assert type(plain[0].model) is type(wide)
    facts = FACTS.model_copy(
        update={"config": wide.config.to_diff_dict() | {"model_type": wide.config.model_type}}
    )
    built = sum(parameter.numel() for parameter in student.module.parameters())
    assert transformer.weigh(block, facts) == built


def test_random_weights_are_a_new_models_and_depend_on_the_seed_alone(parts):
    one, other = (transformer.build(narrow_block(weights="random"), parts) for _ in range(2))
    np.testing.assert_array_equal(own_vectors(one, TEXTS), own_vectors(other, TEXTS))
    encoder = one.module[0].model
    assert encoder.embeddings.word_embeddings.weight.std().item() == pytest.approx(0.02, rel=0.1)
    assert encoder.encoder.layer[0].attention.self.query.weight.std().item() == pytest.approx(0.02, rel=0.2)
    block = narrow_block(weights="random")
    moved = block.model_copy(update={"train": block.train.model_copy(update={"seed": 1})})
    assert np.abs(own_vectors(transformer.build(moved, parts), TEXTS) - own_vectors(one, TEXTS)).max() > 1e-3


@pytest.mark.parametrize(
    ("layers", "hidden", "inner", "millions"),
    [(12, 384, 1536, 33.4), (6, 384, 1536, 22.7)],
)
def test_the_sizes_of_simtdes_tables(layers, hidden, inner, millions):
    """LMX-KD-384-L12(384) and MiniLM-384-L6(384), with BERT's pooler.

    LRN-KD-768-L2(768) has 38.6 million so, or 38.0 without the pooler; the table's 38.4 is neither.
    """
    facts = FACTS.model_copy(update={"config": BertConfig().to_dict()})
    init = {"hidden": hidden, "intermediate": inner, "projection": "none"}
    block = narrow_block(dim=hidden, layers={"last": layers}, **init)
    assert round(transformer.weigh(resolved(block, facts), facts) / 1e6, 1) == millions


def test_without_a_projection_the_students_dimension_is_its_width(parts):
    block = narrow_block(projection="none")
    block = type(block).model_validate(block.model_dump() | {"dim": "auto"})
    found = resolved(block, FACTS)
    assert found.width == 16
    assert own_vectors(transformer.build(found, parts), TEXTS).shape == (len(TEXTS), 16)


@pytest.mark.parametrize(
    ("hidden", "named"),
    [
        (32, (" 32,", " 32 dimensions", "lower it")),
        (40, (" 40,", " 32 dimensions", "lower it")),
        (9, (" 9,", " 4 heads", "set it to 8")),
        (1, (" 1,", " 4 heads", "set it to 4")),
    ],
)
def test_widths_that_an_encoder_cannot_have(hidden, named):
    wide = BertModel(BertConfig(hidden_size=32, num_attention_heads=4, num_hidden_layers=1, vocab_size=9))
    with refuses("init.hidden", *named):
        narrow_width(wide, hidden)


def test_layers_of_another_make():
    gpt = GPT2Model(GPT2Config(vocab_size=20, n_embd=16, n_layer=2, n_head=2))
    with refuses("init.hidden", "gpt2", "set it to null"):
        narrow_width(gpt, 8)


def test_token_embeddings_of_the_teachers_width_are_not_a_narrow_students():
    block = narrow_block()
    block = type(block).model_validate(block.model_dump() | {"loss": {"kind": "token_embedding"}})
    (fault,) = student_faults("tiny", block)
    assert fault.startswith("students.tiny.loss: token_embedding")
    assert "leave it out, or init.hidden, 16" in fault
