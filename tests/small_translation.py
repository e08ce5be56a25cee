"""A tiny grammar in English, German and French, and models that are trained to translate it."""

import io
import itertools
import json
from functools import cache
from pathlib import Path

import sentencepiece
import torch
from transformers import MarianConfig, MarianMTModel, MarianTokenizer

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


def train(folder: Path, source: str, target: str, steps: int = 150) -> Path:
    """A Marian model that translates the grammar, as a folder: one layer, 32 dimensions, 3 seconds."""
    folder.mkdir(parents=True)
    tokenizer = _tokenizer(folder, source, target)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = MarianMTModel(_config(tokenizer))
        _fit(model, tokenizer, source, target, steps)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _fit(model: MarianMTModel, tokenizer: MarianTokenizer, source: str, target: str, steps: int) -> None:
    """Adam over random batches of all pairs whose English is what comes back."""
    pairs = [row for row in sentences() if target != "en" or back(row["en"]) == row["en"]]
    inputs = tokenizer([row[source] for row in pairs], padding=True, return_tensors="pt")
    labels = tokenizer(text_target=[row[target] for row in pairs], padding=True, return_tensors="pt")
    labels = labels["input_ids"].masked_fill(labels["input_ids"] == tokenizer.pad_token_id, -100)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=steps)
    model.train()
    for _ in range(steps):
        rows = torch.randint(len(pairs), (64,))
        loss = model(**{key: value[rows] for key, value in inputs.items()}, labels=labels[rows]).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        with torch.no_grad():  # Marian decodes from a zero vector
            model.get_input_embeddings().weight[tokenizer.pad_token_id] = 0
    model.eval()


def _tokenizer(folder: Path, source: str, target: str) -> MarianTokenizer:
    """Pieces of both languages, each with a sentencepiece model of its own."""
    pieces: list[str] = []
    for role, language in (("source", source), ("target", target)):
        written = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([row[language] for row in sentences()]),
            model_writer=written,
            model_type="bpe",
            vocab_size=120,
            num_threads=1,
            minloglevel=2,
        )
        (folder / f"{role}.spm").write_bytes(written.getvalue())
        model = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
        pieces += [model.id_to_piece(index) for index in range(3, len(model))]
    names = ["</s>", "<unk>", *dict.fromkeys(pieces), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({name: index for index, name in enumerate(names)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": source, "target_lang": target}))
    return MarianTokenizer.from_pretrained(folder)


def _config(tokenizer: MarianTokenizer) -> MarianConfig:
    pad = tokenizer.pad_token_id
    sides = ("encoder", "decoder")
    shape = {f"{side}_layers": 1 for side in sides} | {f"{side}_attention_heads": 2 for side in sides}
    return MarianConfig(
        vocab_size=len(tokenizer.encoder),
        d_model=32,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=64,
        pad_token_id=pad,
        decoder_start_token_id=pad,
        eos_token_id=0,
        forced_eos_token_id=0,
        dropout=0.0,
        init_std=0.1,
        scale_embedding=True,
        bad_words_ids=[[pad]],
        **shape,
    )
