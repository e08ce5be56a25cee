"""Tiny random teachers on the spot: one of each architecture and kind of tokenizer, and some odd ones."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from small_students import TEXTS
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from pipeline.teacher.kinds.hashing import letter_tokenizer

CHAT = "{% for message in messages %}<|{{ message['role'] }}|> {{ message['content'] }}{% endfor %}"
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>", "<mask>")
SHAPE = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 32}
DECODER = {**SHAPE, "num_key_value_heads": 1, "head_dim": 8, "max_position_embeddings": 64}
ENDS = ("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")
POSITIONS = {"max_position_embeddings": 90}


def byte_level(*, ends: bool = True) -> PreTrainedTokenizerFast:
    """Byte-level BPE, as RoBERTa's with two ends, or as GPT-2's without."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=[*SPECIAL],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    return _wrapped(tokenizer, ends=ends)


def unigram(*, ends: bool = True) -> PreTrainedTokenizerFast:
    """A sentencepiece-like Unigram model, as XLM-R's and T5's."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=90, special_tokens=[*SPECIAL], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    return _wrapped(tokenizer, ends=ends)


def _wrapped(tokenizer: Tokenizer, *, ends: bool) -> PreTrainedTokenizerFast:
    if ends:
        special = [(name, SPECIAL.index(name)) for name in ("<s>", "</s>")]
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=special
        )
    names = dict(
        zip(("pad_token", "bos_token", "eos_token", "unk_token", "mask_token"), SPECIAL, strict=True)
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **names)


def _with_chat() -> PreTrainedTokenizerFast:
    tokenizer = byte_level(ends=False)
    tokenizer.chat_template = CHAT
    return tokenizer


def _without_padding() -> PreTrainedTokenizerFast:
    tokenizer = byte_level(ends=False)
    tokenizer.pad_token = None
    return tokenizer


Recipe = tuple[str, dict[str, Any], Callable[[], PreTrainedTokenizerFast], dict[str, Any]]
TEACHERS: dict[str, Recipe] = {
    "bert": ("Bert", {**SHAPE, **POSITIONS}, letter_tokenizer, {}),
    "roberta": ("Roberta", {**SHAPE, **POSITIONS, "pad_token_id": 0}, byte_level, {}),
    "xlm-roberta": ("XLMRoberta", {**SHAPE, **POSITIONS, "pad_token_id": 0}, unigram, {}),
    "mpnet": ("MPNet", {**SHAPE, **POSITIONS, "pad_token_id": 1}, letter_tokenizer, {}),
    "distilbert": (
        "DistilBert",
        {"dim": 16, "n_layers": 4, "n_heads": 2, "hidden_dim": 32, **POSITIONS},
        letter_tokenizer,
        {},
    ),
    "electra": ("Electra", {**SHAPE, **POSITIONS, "embedding_size": 12}, letter_tokenizer, {}),
    "albert": ("Albert", {**SHAPE, **POSITIONS, "embedding_size": 12}, unigram, {}),
    "deberta-v2": (
        "DebertaV2",
        {**SHAPE, **POSITIONS, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
        unigram,
        {},
    ),
    "modernbert": (
        "ModernBert",
        {**SHAPE, **POSITIONS, "global_attn_every_n_layers": 2, **dict.fromkeys(ENDS, 0)},
        byte_level,
        {},
    ),
    "t5": ("T5Encoder", {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 4, "num_heads": 2}, unigram, {}),
    "qwen3": ("Qwen3", DECODER, lambda: byte_level(ends=False), {"pooling": "lasttoken"}),
    "gemma3": ("Gemma3Text", {**DECODER, "use_bidirectional_attention": True}, unigram, {}),
    "xlnet": ("XLNet", {"d_model": 16, "n_layer": 4, "n_head": 2, "d_inner": 32}, unigram, {}),
    "gpt2": ("GPT2", {"n_embd": 16, "n_layer": 4, "n_head": 2, "n_positions": 64}, byte_level, {}),
    "no padding, first dimensions": (
        "GPT2",
        {"n_embd": 16, "n_layer": 4, "n_head": 2, "n_positions": 64},
        _without_padding,
        {"truncate_dim": 8},
    ),
    "chat template": ("Qwen3", DECODER, _with_chat, {"pooling": "lasttoken"}),
    "prompts": (
        "Bert",
        {**SHAPE, **POSITIONS},
        letter_tokenizer,
        {"prompts": {"query": "query: ", "document": "passage: "}},
    ),
    "dot product": ("MPNet", {**SHAPE, **POSITIONS, "pad_token_id": 1}, byte_level, {"similarity": "dot"}),
    "two poolings and a head": ("Bert", {**SHAPE, **POSITIONS}, letter_tokenizer, {"head": 12}),
    "two layers": ("Bert", {**SHAPE, **POSITIONS, "num_hidden_layers": 2}, letter_tokenizer, {}),
}
"""Class and settings of the encoder, the tokenizer, and what else its sentence-transformers folder says."""


def write_teacher(name: str, folder: Path) -> Path:
    """The sentence-transformers folder of a teacher, with weights that are large enough to tell apart."""
    kind, settings, tokenizer_of, said = TEACHERS[name]
    tokenizer = tokenizer_of()
    config = getattr(transformers, f"{kind.removesuffix('Encoder')}Config")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = getattr(transformers, f"{kind}Model")(config(vocab_size=len(tokenizer), **settings)).eval()
        for parameter in encoder.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        encoder.save_pretrained(folder / "encoder")
        tokenizer.save_pretrained(folder / "encoder")
        modules: list[torch.nn.Module] = [Transformer(str(folder / "encoder"))]
        if "head" in said:
            modules += [Pooling(16, ("mean", "cls")), Dense(32, said["head"])]
        else:
            modules += [Pooling(16, said.get("pooling", "mean"))]
        modules.append(Normalize())
        model = SentenceTransformer(
            modules=modules,
            device="cpu",
            prompts=said.get("prompts"),
            similarity_fn_name=said.get("similarity"),
            truncate_dim=said.get("truncate_dim"),
        )
        model.max_seq_length = 60
        model.save_pretrained(str(folder / "model"), create_model_card=False)
    return folder / "model"
