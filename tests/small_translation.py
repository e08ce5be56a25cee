"""A tiny grammar in English, German and French, and models that are trained to translate it."""

import io
import itertools
import json
from functools import cache
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from tokenizers import SentencePieceBPETokenizer
from torch import Tensor
from transformers import (
    FSMTConfig,
    FSMTForConditionalGeneration,
    FSMTTokenizer,
    M2M100Config,
    M2M100ForConditionalGeneration,
    M2M100Tokenizer,
    MarianConfig,
    MarianMTModel,
    MarianTokenizer,
    NllbTokenizer,
    PreTrainedModel,
)

NOUNS = {
    "dog": ("der", "hund", "le", "chien"),
    "mouse": ("die", "maus", "la", "souris"),
    "horse": ("das", "pferd", "le", "cheval"),
    "bird": ("der", "vogel", "le", "corbeau"),
    "child": ("das", "kind", "la", "fille"),
    "queen": ("die", "königin", "la", "reine"),
}
ADJECTIVES = {
    "red": ("rote", "rouge"),
    "big": ("große", "énorme"),
    "large": ("große", "énorme"),
    "young": ("junge", "jeune"),
    "calm": ("ruhige", "calme"),
    "quiet": ("ruhige", "calme"),
}
VERBS = {"sleeps": ("schläft", "dort"), "eats": ("frisst", "mange"), "runs": ("rennt", "court")}
ADVERBS = {"today": ("heute", "aujourd'hui"), "here": ("hier", "ici"), "": ("", "")}
BACK = {"large": "big", "quiet": "calm"}
"""English words that share a translation with another, which is what comes back of both."""
SHAPE: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "max_position_embeddings": 64,
}


@cache
def sentences() -> list[dict[str, str]]:
    """All sentences of the grammar in the three languages; adjectives that mean the same share a word."""
    found = []
    for noun, adjective, verb, adverb in itertools.product(NOUNS, ADJECTIVES, VERBS, ADVERBS):
        der, hund, le, chien = NOUNS[noun]
        rote, rouge = ADJECTIVES[adjective]
        rennt, court = VERBS[verb]
        heute, ici = ADVERBS[adverb]
        found.append(
            {
                "en": f"the {adjective} {noun} {verb} {adverb}".strip(),
                "de": f"{heute} {rennt} {der} {rote} {hund}".strip(),
                "fr": f"{le} {chien} {rouge} {court} {ici}".strip(),
            }
        )
    return found


def back(text: str) -> str:
    """What an English sentence comes back as from German or French."""
    return " ".join(BACK.get(word, word) for word in text.split())


def train(folder: Path, source: str, target: str) -> Path:
    """A Marian model that translates the grammar, as a folder: one layer of 32 dimensions, two seconds."""
    folder.mkdir(parents=True)
    tokenizer = _tokenizer(folder, source, target)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = MarianMTModel(_config(tokenizer))
        _fit(model, *_pairs(tokenizer, source, target), steps=150, begins_from_zero=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def train_m2m(folder: Path) -> Path:
    """An M2M-100 model that translates the grammar from English to German and back."""
    folder.mkdir(parents=True)
    names = [
        "<s>",
        "<pad>",
        "</s>",
        "<unk>",
        *_write_pieces(folder / "sentencepiece.bpe.model", ["en", "de"]),
    ]
    (folder / "vocab.json").write_text(json.dumps({name: index for index, name in enumerate(names)}))
    files = str(folder / "vocab.json"), str(folder / "sentencepiece.bpe.model")
    languages = list(M2M100Tokenizer(*files).lang_token_to_id)
    tokenizer = M2M100Tokenizer(*files, additional_special_tokens=languages)
    tokenizer.save_pretrained(folder)
    size = len(names) + len(languages) + tokenizer.num_madeup_words
    return _train_m2m(folder, tokenizer, size, {"en": "en", "de": "de"}, 150)


NLLB = {"en": "eng_Latn", "de": "deu_Latn"}
"""The languages of `train_nllb`, as NLLB writes them."""


def train_nllb(folder: Path) -> Path:
    """An NLLB model that translates the grammar from English to German and back: M2M-100's network."""
    folder.mkdir(parents=True)
    trainer = SentencePieceBPETokenizer()
    texts = [row[language] for row in sentences() for language in NLLB]
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer.train_from_iterator(texts, vocab_size=120, special_tokens=special, show_progress=False)
    model = json.loads(trainer.to_str())["model"]
    tokenizer = NllbTokenizer(
        vocab=model["vocab"],
        merges=[tuple(merge) for merge in model["merges"]],
        additional_special_tokens=list(NLLB.values()),
    )
    tokenizer.save_pretrained(folder)
    return _train_m2m(folder, tokenizer, len(tokenizer), NLLB, 300)


def _train_m2m(folder: Path, tokenizer: Any, size: int, languages: dict[str, str], steps: int) -> Path:
    """Both directions in one network of so many tokens; its folder has the tokenizer already."""
    pairs = []
    for source, target in (("en", "de"), ("de", "en")):
        tokenizer.src_lang, tokenizer.tgt_lang = languages[source], languages[target]
        pairs.append(_pairs(tokenizer, source, target, padding="max_length", max_length=16))
    inputs = {key: torch.cat([part[0][key] for part in pairs]) for key in ("input_ids", "attention_mask")}
    with torch.random.fork_rng():
        torch.manual_seed(2)
        config = M2M100Config(vocab_size=size, **SHAPE, encoder_ffn_dim=64, decoder_ffn_dim=64, init_std=0.1)
        config.update({"dropout": 0.0, "attention_dropout": 0.0, "encoder_layerdrop": 0.0})
        config.decoder_layerdrop = 0.0
        model = M2M100ForConditionalGeneration(config)
        _fit(model, inputs, torch.cat([part[1] for part in pairs]), steps=steps)
    model.save_pretrained(folder)
    return folder


def _pairs(tokenizer: Any, source: str, target: str, **layout: Any) -> tuple[dict[str, Tensor], Tensor]:
    """Inputs and labels of all pairs whose English is what comes back."""
    layout = {"padding": True, **layout, "return_tensors": "pt"}
    pairs = [row for row in sentences() if target != "en" or back(row["en"]) == row["en"]]
    inputs = tokenizer([row[source] for row in pairs], **layout)
    labels = tokenizer(text_target=[row[target] for row in pairs], **layout)["input_ids"]
    return dict(inputs), labels.masked_fill(labels == tokenizer.pad_token_id, -100)


def _fit(
    model: PreTrainedModel,
    inputs: dict[str, Tensor],
    labels: Tensor,
    steps: int,
    *,
    begins_from_zero: bool = False,
) -> None:
    """Adam over random batches."""
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=steps)
    model.train()
    for _ in range(steps):
        rows = torch.randint(len(labels), (64,))
        loss = model(**{key: value[rows] for key, value in inputs.items()}, labels=labels[rows]).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if begins_from_zero:  # as Marian does
            with torch.no_grad():
                model.get_input_embeddings().weight[model.config.pad_token_id] = 0
    model.eval()


def _tokenizer(folder: Path, source: str, target: str) -> MarianTokenizer:
    """Pieces of both languages, each with a sentencepiece model of its own."""
    pieces: list[str] = []
    for role, language in (("source", source), ("target", target)):
        pieces += _write_pieces(folder / f"{role}.spm", [language])
    names = ["</s>", "<unk>", *dict.fromkeys(pieces), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({name: index for index, name in enumerate(names)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": source, "target_lang": target}))
    return MarianTokenizer.from_pretrained(folder)


def _write_pieces(path: Path, languages: list[str]) -> list[str]:
    """Write a sentencepiece model of the sentences in these languages; its pieces."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([row[language] for row in sentences() for language in languages]),
        model_writer=written,
        model_type="bpe",
        vocab_size=120,
        num_threads=1,
        minloglevel=2,
    )
    path.write_bytes(written.getvalue())
    model = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    return [model.id_to_piece(index) for index in range(3, len(model))]


def write_fsmt(folder: Path, source: str, target: str) -> Path:
    """An FSMT model of random weights over letters."""
    folder.mkdir(parents=True)
    letters = sorted({letter for row in sentences() for text in row.values() for letter in text} - {" "})
    names = ["<s>", "<pad>", "</s>", "<unk>", *letters, *(f"{letter}</w>" for letter in letters)]
    for side in ("src", "tgt"):
        vocabulary = {name: index for index, name in enumerate(names)}
        (folder / f"vocab-{side}.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("t h 9\n")
    files = [str(folder / name) for name in ("vocab-src.json", "vocab-tgt.json", "merges.txt")]
    FSMTTokenizer([source, target], *files).save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        config = FSMTConfig(
            [source, target],
            len(names),
            len(names),
            **SHAPE,
            encoder_ffn_dim=64,
            decoder_ffn_dim=64,
            init_std=0.3,
        )
        FSMTForConditionalGeneration(config).save_pretrained(folder)
    return folder


def _config(tokenizer: MarianTokenizer) -> MarianConfig:
    pad = tokenizer.pad_token_id
    return MarianConfig(
        vocab_size=len(tokenizer.encoder),
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        pad_token_id=pad,
        decoder_start_token_id=pad,
        eos_token_id=0,
        forced_eos_token_id=0,
        dropout=0.0,
        init_std=0.1,
        scale_embedding=True,
        **SHAPE,
    )
