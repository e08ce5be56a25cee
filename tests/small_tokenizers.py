"""Tokenizers of each kind, trained on the spot, as the families ship them."""

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

SENTENCES = [
    "a cat sat on the mat, and the cats slept",
    "Dogs bark; it rained for forty days and 40 nights.",
    "the sun rose over a quiet sea where ships had rested",
    "naïve café façade, über straße, добрый день",
]


TYPED = {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}


def wordpiece(words: list[str] | None = None, **settings: object) -> PreTrainedTokenizerFast:
    """BERT's; with TYPED it tells the two texts of a pair apart.

    Args:
        words: its vocabulary; None: it is trained, to pieces that differ from run to run.
        settings: of the tokenizer.
    """
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    known = {word: number for number, word in enumerate([*special, *(words or ())])}
    made = Tokenizer(models.WordPiece(known if words else None, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if words is None:
        trainer = trainers.WordPieceTrainer(vocab_size=150, special_tokens=special)
        made.train_from_iterator(SENTENCES, trainer)
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    made.decoder = decoders.WordPiece()
    names = zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), special, strict=True)
    return PreTrainedTokenizerFast(tokenizer_object=made, **dict(names), **settings)


def byte_level() -> PreTrainedTokenizerFast:
    """RoBERTa's."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=special, initial_alphabet=alphabet)
    made.train_from_iterator(SENTENCES, trainer)
    made.add_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        bos_token="<s>",
        cls_token="<s>",
        pad_token="<pad>",
        eos_token="</s>",
        sep_token="</s>",
        unk_token="<unk>",
        mask_token="<mask>",
        model_input_names=["input_ids", "attention_mask"],
    )


def unigram() -> PreTrainedTokenizerFast:
    """XLM-R's."""
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(" {2,}", " ")])
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=120, unk_token="<unk>", special_tokens=special)
    made.train_from_iterator(SENTENCES, trainer)
    made.add_special_tokens(["<mask>"])
    ends = [("<s>", 0), ("</s>", 2)]
    made.post_processor = processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> $B </s>", ends)
    made.decoder = decoders.Metaspace()
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        bos_token="<s>",
        cls_token="<s>",
        pad_token="<pad>",
        eos_token="</s>",
        sep_token="</s>",
        unk_token="<unk>",
        mask_token="<mask>",
        model_input_names=["input_ids", "attention_mask"],
    )


def byte_fallback() -> PreTrainedTokenizerFast:
    """Gemma's: BPE over whole texts, letters that it lacks as bytes, special tokens at the end."""
    made = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    made.normalizer = normalizers.Replace(" ", "▁")
    made.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    special = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    made.train_from_iterator(SENTENCES, trainers.BpeTrainer(vocab_size=420, special_tokens=special))
    # The trainer takes them for added tokens, which would be found in texts; here they are the model's alone.
    as_trained = Tokenizer.from_str(made.to_str())
    made = Tokenizer(as_trained.model)
    made.normalizer, made.pre_tokenizer = as_trained.normalizer, as_trained.pre_tokenizer
    made.add_special_tokens(["<unk>", "<pad>", "<bos>", "<eos>"])
    ends = [(name, made.token_to_id(name)) for name in ("<bos>", "<eos>")]
    made.post_processor = processors.TemplateProcessing("<bos> $A <eos>", "<bos> $A <eos> $B", ends)
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        bos_token="<bos>",
        eos_token="<eos>",
        pad_token="<pad>",
        unk_token="<unk>",
        padding_side="left",
        model_input_names=["input_ids", "attention_mask"],
    )


KINDS = {
    "wordpiece": wordpiece,
    "byte-level": byte_level,
    "unigram": unigram,
    "byte fallback": byte_fallback,
}
