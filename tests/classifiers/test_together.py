"""Pairs that are read as one input: as transformers reads them, trained, shipped and asked."""

import json
import re
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
import small_tokenizers
import torch
from classify_runs import (
    KINDS,
    bert_block,
    change,
    classify,
    pair_rows,
    single_rows,
    write_bert,
    write_inputs,
)
from sklearn.metrics import accuracy_score
from small_encoders import FAMILIES, small_encoder
from small_students import transformer_block
from small_tokenizers import byte_level, unigram, wordpiece
from test_export_classifier import ship
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing
from transformers import AutoModel, AutoTokenizer
from typer.testing import CliRunner

from pipeline.classifiers.saved import head as head_file
from pipeline.classifiers.saved import said as said_file
from pipeline.classifiers.training.inputs import Inputs
from pipeline.cli.__main__ import app
from pipeline.core.errors import UserError
from pipeline.data.student import student_folder
from pipeline.train.students.kinds import transformer

PAIRS = [("a cat sat", "the cats slept"), ("dogs bark", "it rained for days and the sun rose"), ("a", "b")]
QUICK = {"lr": [0.003], "epochs": 2.0, "batch_size": 8, "precision": "float32"}
TYPED = {"distilbert": {}, **dict.fromkeys(("bert", "bert with relu", "electra"), small_tokenizers.TYPED)}
TOKENIZERS = {"roberta": byte_level, "xlm-r": unigram, "camembert": unigram, "mpnet": byte_level}


def student_of(folder, longest=64):
    init = {"model": str(folder), "pooling": "cls", "projection": "none", "layers": None}
    return transformer.build(transformer_block(dim=16, init={**init, "max_length": longest}), folder)


def their_states(folder, pairs, longest=64):
    """What transformers makes of pairs: the hidden states of all levels, and the mask."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    left, right = map(list, zip(*pairs, strict=True))
    batch = tokenizer(
        left, right, padding=True, truncation="longest_first", max_length=longest, return_tensors="pt"
    )
    with torch.no_grad():
        return model(**batch, output_hidden_states=True).hidden_states, batch["attention_mask"].bool()


@pytest.mark.parametrize("longest", [64, 9], ids=["whole", "cut"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_pair_is_read_as_transformers_reads_it(tmp_path, family, longest):
    """By the packed path, for all of these families have one."""
    encoder = small_encoder(family)
    tokenizer = TOKENIZERS[family]() if family in TOKENIZERS else wordpiece(**TYPED[family])
    encoder.resize_token_embeddings(400)
    encoder.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    student = student_of(tmp_path, longest)
    assert student._packed
    tokens = student.tokenise_pairs(PAIRS)
    found = student.encode_layers(tokens, [0, 1])
    expected, mask = their_states(tmp_path, PAIRS, longest)
    assert tokens.lengths.tolist() == mask.sum(1).tolist()
    np.testing.assert_allclose(found.vectors.detach(), expected[-1][:, 0], atol=2e-5)
    for layer in (0, 1):
        np.testing.assert_allclose(found.states[layer].detach(), expected[layer + 1][mask], atol=2e-5)


def test_a_model_that_is_not_packed_is_told_of_types_too(tmp_path):
    student = student_of(write_bert(tmp_path))
    tokens = student.tokenise_pairs(PAIRS)
    packed = student.encode(tokens).vectors.detach()
    student._packed = None
    np.testing.assert_allclose(student.encode(tokens).vectors.detach(), packed, atol=2e-5)
    without = student.encode(type(tokens)(tokens.ids, tokens.offsets)).vectors.detach()
    assert np.abs(without - packed).max() > 0.01


def test_inputs_are_the_pairs_that_are_asked_for(tmp_path):
    student, texts = student_of(write_bert(tmp_path)), ["a fine film", "a dull song", "the film is fine"]
    rows = np.array([[2, 0], [0, 1], [2, 0], [1, 1]])
    inputs = Inputs.of(student, texts, [rows[:2], rows[2:]], together=True)
    assert len(inputs.tokens) == 3
    own = student.tokenise_pairs([(texts[left], texts[right]) for left, right in rows])
    chosen = inputs.tokens.select(inputs.rows(rows).reshape(-1))
    assert chosen.ids.tolist() == own.ids.tolist()
    assert inputs.lengths(rows).tolist() == own.lengths.tolist()
    apart = Inputs.of(student, texts, [rows], together=False)
    assert apart.rows(rows) is rows


def test_the_folder_is_the_classifier_that_was_scored(tmp_path):
    """Its first module is asked by transformers, with a pair as any user would give it."""
    rows = pair_rows()
    write_inputs(tmp_path, "bert", rows, train=QUICK, read="together", prompt="the ")
    classify(tmp_path)
    out = tmp_path / "out"
    said, head = said_file.read(out), head_file.read(out)
    assert (said.pairs, said.together, head.pairs) == (True, True, False)
    test = [row for row in rows if row[3] == "test"]
    states, _ = their_states(out, [(f"the {row[0]}", f"the {row[1]}") for row in test])
    vectors = torch.nn.functional.normalize(states[-1][:, 0], dim=1)
    found = [said.labels[at] for at in head(vectors).argmax(1).tolist()]
    told = json.loads((tmp_path / "metrics.json").read_text())
    assert told["scores"]["accuracy"] == pytest.approx(accuracy_score([row[2] for row in test], found))
    assert told["untuned"] is None
    assert told["settings"]["read"] == "together"


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """An exported classifier that reads pairs together, and the pairs of its task."""
    folder = tmp_path_factory.mktemp("together")
    out = ship(folder, "bert", pair_rows(), read="together")
    return out, [row[:2] for row in pair_rows()]


def logits_of(out, pairs):
    model, head = student_folder.read(out, "export_classifier"), head_file.read(out)
    return head(model.encode(pairs, convert_to_tensor=True).cpu()).detach().numpy()


def test_the_graph_gives_the_logits_of_the_folder(shipped):
    out, pairs = shipped
    session = onnxruntime.InferenceSession(out / "onnx/model.onnx")
    assert {one.name for one in session.get_inputs()} == {"input_ids", "attention_mask", "token_type_ids"}
    left, right = map(list, zip(*pairs, strict=True))
    batch = AutoTokenizer.from_pretrained(out)(left, right, padding=True, return_tensors="np")
    inputs = {one.name: batch[one.name].astype(np.int64) for one in session.get_inputs()}
    found = session.run(["logits"], inputs)[0]
    np.testing.assert_allclose(found, logits_of(out, pairs), atol=1e-4)
    inputs["token_type_ids"][:] = 0
    assert np.abs(session.run(["logits"], inputs)[0] - found).max() > 1e-3


def test_pairs_are_labelled_from_the_command_line(shipped):
    out, pairs = shipped
    lines = "\n".join("\t".join(pair) for pair in pairs)
    done = CliRunner().invoke(app, ["classify", "--classifier", str(out)], input=lines)
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    probabilities = torch.from_numpy(logits_of(out, pairs)).softmax(1).max(1)
    assert [row["probability"] for row in rows] == pytest.approx(probabilities.values.tolist(), abs=1e-4)
    assert [row["label"] for row in rows] == [str(at) for at in probabilities.indices.tolist()]


def test_the_cards_program_reads_pairs(shipped):
    out, _ = shipped
    [program] = re.findall(r"```python\n(.*?)```", (out / "README.md").read_text(), re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=out, capture_output=True, text=True, check=True
    )
    given = [("A first text.", "Its pair."), ("A second one.", "Another.")]
    expected = torch.from_numpy(logits_of(out, given)).softmax(1).max(1).values
    assert [float(line.split()[1]) for line in done.stdout.splitlines()] == pytest.approx(
        expected.tolist(), abs=1e-4
    )


def test_a_classifier_that_reads_texts_apart_says_no_more_than_before(tmp_path):
    write_inputs(tmp_path, "static", pair_rows(), train=QUICK)
    classify(tmp_path)
    assert {*json.loads((tmp_path / "out/classifier.json").read_text())} == {"task", "labels", "pairs"}


@pytest.mark.parametrize("kind", ["static", "bilstm"])
def test_a_student_that_reads_no_pairs(tmp_path, kind):
    assert kind in KINDS
    write_inputs(tmp_path, kind, pair_rows())
    change(tmp_path, read="together")
    with pytest.raises(UserError, match=rf"classifiers\.one\.read is together, and tiny is a {kind} student"):
        classify(tmp_path)


def test_a_task_of_single_texts(tmp_path):
    write_inputs(tmp_path, "bert", single_rows())
    change(tmp_path, read="together")
    with pytest.raises(UserError, match=r"classifiers\.one\.read is together, and said has single texts"):
        classify(tmp_path)


def test_pairs_in_the_params_and_texts_in_the_table(tmp_path):
    """Of a file it is known only when it is read."""
    write_inputs(tmp_path / "pairs", "bert", pair_rows(), read="together")
    write_inputs(tmp_path / "texts", "bert", single_rows())
    for name in ("tasks.parquet", "eval.parquet"):
        (tmp_path / "texts" / name).replace(tmp_path / "pairs" / name)
    with pytest.raises(UserError, match=r"classifiers\.one: read is together, and said has single texts"):
        classify(tmp_path / "pairs")


def test_the_block_of_a_student_keeps_its_layers(tmp_path):
    block = bert_block(write_bert(tmp_path, layers=3), layers=(0, 2))
    assert transformer.build(block, tmp_path).layers == 2


@pytest.mark.parametrize("single", ["[CLS] $A [SEP]", "$A"])
def test_a_tokenizer_that_puts_nothing_between_two_texts(tmp_path, single):
    """A template of single texts has none for pairs."""
    write_bert(tmp_path)
    written = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    special = [(token, written.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    written.post_processor = TemplateProcessing(single=single, special_tokens=special)
    written.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(UserError, match=r"puts 0 special tokens to a pair.*set read to apart"):
        student_of(tmp_path).tokenise_pairs(PAIRS)


def test_a_window_with_no_room_for_two_texts(tmp_path):
    write_bert(tmp_path)
    with pytest.raises(UserError, match=r"max_length is 3, and a pair's special tokens are 3"):
        student_of(tmp_path, 3).tokenise_pairs(PAIRS)
