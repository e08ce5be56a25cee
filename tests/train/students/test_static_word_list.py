"""A table of a list of words, each encoded by the teacher alone: model2vec's `distill(vocabulary=...)`."""

from pathlib import Path

import numpy as np
import pytest
import small_tokenizers
import torch
from model2vec.distill import distill
from refusals import refuses
from sentence_transformers import SentenceTransformer
from small_students import own_vectors, static_block
from tokenizers import Tokenizer
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel, PreTrainedTokenizerFast

from pipeline.data.models import teacher_facts
from pipeline.data.models.teacher_facts import TeacherFacts
from pipeline.params.student_faults import student_faults
from pipeline.params.students import StaticStudent
from pipeline.train.students.kinds import static
from pipeline.train.students.shared.verdict import Refused, verdict
from pipeline.train.students.shared.word_list import read_words, word_vocabulary
from pipeline.vectors.space.geometry import normalised

WIDTH = 16
WORDS = ["the", "sea", "Café", "a", "new york", "cats", "don't", "quiet", "cat", "zyzzyva"]
TEXTS = [
    "The quiet sea", "a cat and many cats in New York", "I don't know a zyzzyva", "new", "cafe", "catsea",
]  # fmt: skip


def write_teacher(folder: Path, tokenizer: PreTrainedTokenizerFast) -> Path:
    """A two-layer BERT with this tokenizer, its weights large enough to matter."""
    shape = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertModel(BertConfig(vocab_size=len(tokenizer), initializer_range=0.5, **shape)).save_pretrained(
            folder
        )
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def bert(tmp_path_factory) -> Path:
    """Its tokenizer has no mask, which model2vec would leave out."""
    made = small_tokenizers.wordpiece().backend_tokenizer
    vocabulary = {name: row for name, row in made.get_vocab().items() if name != "[MASK]"}
    kept = sorted(vocabulary, key=vocabulary.__getitem__)
    plain = Tokenizer(
        small_tokenizers.models.WordPiece({name: row for row, name in enumerate(kept)}, unk_token="[UNK]")
    )
    plain.normalizer, plain.pre_tokenizer = made.normalizer, made.pre_tokenizer
    plain.post_processor, plain.decoder = made.post_processor, made.decoder
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, **names)
    return write_teacher(tmp_path_factory.mktemp("teacher"), tokenizer)


@pytest.fixture
def file(tmp_path) -> Path:
    return write(tmp_path, WORDS)


def write(folder: Path, words: list[str]) -> Path:
    path = folder / "words.txt"
    path.write_text("\n".join(words), encoding="utf-8")
    return path


def facts(folder: Path) -> TeacherFacts:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    config = AutoModel.from_pretrained(folder).config.to_dict()
    return teacher_facts.of_parts(config, tokenizer, {"sentence": WIDTH, "token_mean": WIDTH}, WIDTH, 128)


def block(file: Path, **changes) -> StaticStudent:
    init = {"word_list": str(file), "projection": "none", **changes.pop("init", {})}
    base = static_block(dim=8, init=init).model_dump(mode="json")
    return StaticStudent.model_validate({**base, "train": None, "loss": None, **changes})


def theirs(folder: Path, words: list[str], **settings):
    return distill(str(folder), vocabulary=words, device="cpu", quantize_to="float32", **settings)


def test_the_table_is_model2vecs(bert, file, tmp_path):
    """PCA and weights too, and the words in the list's order, which the weights follow."""
    expected = theirs(bert, WORDS, pca_dims=8, sif_coefficient=1e-4)
    made = static.build(block(file), bert)
    assert own_vectors(made, ["the"]).shape == (1, 8)
    tokens = made.tokenise(TEXTS)
    assert tokens.lengths.tolist() == [len(ids) for ids in expected.tokenize(TEXTS)]
    np.testing.assert_allclose(normalised(own_vectors(made, TEXTS)), expected.encode(TEXTS), atol=1e-5)
    made.save(tmp_path / "out")
    shipped = SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(shipped, expected.encode(TEXTS), atol=1e-5)


def test_a_words_vector_is_the_teachers_mean_over_that_word_alone(bert):
    tokenizer, model = AutoTokenizer.from_pretrained(bert), AutoModel.from_pretrained(bert).eval()
    words = ["quietly", "zyzzyva", "new york", "sea"]
    for subwords in (True, False):
        found = word_vocabulary(words, bert, subwords=subwords)
        for word in words:
            with torch.no_grad():
                states = model(**tokenizer(word, return_tensors="pt")).last_hidden_state[0]
            vector = found.vectors[found.tokenizer.token_to_id(word)]
            np.testing.assert_allclose(vector, states.mean(0), atol=1e-5)


@pytest.mark.parametrize("kind", ["byte-level", "unigram"])
def test_words_become_tokens_of_other_tokenizers(kind, tmp_path):
    """As a text has them, at its start too, and with the vector that the teacher gives to such a word."""
    tokenizer = small_tokenizers.KINDS[kind]()
    folder = write_teacher(tmp_path, tokenizer)
    model = AutoModel.from_pretrained(folder).eval()
    words = ["zebras", "oceanic", "zebra"]
    for subwords in (True, False):
        found = word_vocabulary(words, folder, subwords=subwords)
        ids = found.tokenizer.encode("zebras oceanic zebra", add_special_tokens=False).ids
        assert len(ids) == 3
        assert set(ids) <= set(found.order.tolist())
        spelled = " zebras" if kind == "byte-level" else "zebras"
        with torch.no_grad():
            states = model(**tokenizer(spelled, return_tensors="pt")).last_hidden_state[0]
        np.testing.assert_allclose(found.vectors[ids[0]], states.mean(0), atol=1e-5)


LISTED = ["cats", "banana", "smart", "island", "s.", "a.", "art is", "new york", "c++", "u.s."]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("the cats.", ["[UNK]", "cats", "[UNK]"]),
        ("a banana.", ["[UNK]", "banana", "[UNK]"]),
        ("smart island", ["smart", "island"]),
        ("in new york.", ["[UNK]", "new york", "[UNK]"]),
        ("c++, u.s. s.", ["c++", "[UNK]", "u.s.", "s."]),
        ("(new york)", ["[UNK]", "new york", "[UNK]"]),
    ],
)
@pytest.mark.parametrize("kind", ["wordpiece", "byte-level", "unigram"])
def test_a_phrase_is_none_inside_words_and_punctuation_is_no_part_of_them(kind, text, tokens, tmp_path):
    folder = write_teacher(tmp_path, small_tokenizers.KINDS[kind]())
    found = word_vocabulary(LISTED, folder, subwords=False).tokenizer
    unknown = found.encode("qqq").tokens[0]
    spelled = [unknown if token == "[UNK]" else token for token in tokens]
    assert [one.strip("Ġ▁ ") for one in found.encode(text).tokens] == spelled
    more = word_vocabulary(LISTED, folder, subwords=True).tokenizer.encode(text, add_special_tokens=False)
    assert [one for one in (token.strip("Ġ▁ ") for token in more.tokens) if one in LISTED] == [
        one for one in tokens if one != "[UNK]"
    ]


@pytest.mark.parametrize("subwords", [True, False])
def test_phrases_of_letters_that_are_words_each_are_found_everywhere(subwords, tmp_path):
    """BERT's normaliser puts spaces around each Chinese letter, and would again."""
    folder = write_teacher(tmp_path, small_tokenizers.wordpiece())
    found = word_vocabulary(["北京", "大", "..."], folder, subwords=subwords).tokenizer
    row = found.token_to_id("北京")
    assert [found.encode(text).ids.count(row) for text in ("去北京大", "北京", "去 北京。", "北大京")] == [
        1,
        1,
        1,
        0,
    ]
    assert "..." in [token.strip() for token in found.encode("a wait...").tokens]


def test_the_list_alone_is_the_vocabulary_without_subwords(bert, file, tmp_path):
    made = static.build(block(file, dim=4, init={"subwords": False}), bert)
    told = ["the sea", "unheard", "the unheard sea", "new york", "catsea"]
    assert made.tokenise(told).lengths.tolist() == [2, 0, 2, 1, 0]
    vectors = own_vectors(made, told)
    np.testing.assert_allclose(vectors[0], vectors[2], atol=1e-6)
    assert not vectors[[1, 4]].any()
    made.save(tmp_path / "out")
    shipped = SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(told)
    np.testing.assert_allclose(shipped[[0, 2, 3]], normalised(vectors[[0, 2, 3]]), atol=1e-5)


def test_words_are_counted_by_why_they_are_left_out(bert, tmp_path, capsys):
    longest = "x" * 101
    path = write(tmp_path, ["sea", "sea", "", "SEAS", "seas", longest, "a", "\u0000", "two  words"])
    words = read_words(path, 100)
    assert words == ["sea", "SEAS", "seas", "a", "\u0000", "two  words"]
    assert "6 words; left out: 1 longer than 100 letters, 1 there twice" in capsys.readouterr().err
    word_vocabulary(words, bert, subwords=True)
    told = capsys.readouterr().err
    assert "1 nothing to the teacher's tokenizer" in told
    assert "1 the same as others to the teacher's tokenizer" in told
    assert "tokens of the teacher" in told


def test_only_the_first_words_are_kept(file):
    assert read_words(file, 3) == WORDS[:3]


def test_the_verdict_has_the_size_and_the_dimension(bert, file):
    known = facts(bert)
    found = verdict("tiny", block(file, dim="auto"), known)
    assert found.block.width == WIDTH
    assert found.parameters == (known.tokens + len(WORDS)) * WIDTH
    alone = verdict("tiny", block(file, dim="auto", init={"subwords": False}), known)
    assert alone.block.width == len(WORDS) - 1
    assert static.build(alone.block, bert).module["table"].weight.shape[1] == len(WORDS) - 1


def test_more_dimensions_than_words_are_refused(bert, file):
    student = block(file, dim=12, init={"subwords": False})
    with refuses("dim is 12", f"{len(WORDS) - 1} or less"):
        static.build(student, bert)
    with pytest.raises(Refused, match="dim is 12"):
        verdict("tiny", student, facts(bert))


def test_files_that_are_missing_or_empty_are_refused(bert, tmp_path):
    with refuses("init.word_list", tmp_path / "none.txt", "params.yaml"):
        static.build(block(tmp_path / "none.txt"), bert)
    with refuses("init.word_list", tmp_path / "none.txt"):
        verdict("tiny", block(tmp_path / "none.txt"), facts(bert))
    with refuses(write(tmp_path, ["", " "]), "no words", "init.word_list"):
        static.build(block(write(tmp_path, ["", " "])), bert)
    with refuses("init.word_list", "take another list"):
        static.build(block(write(tmp_path, ["a", "A"])), bert)


def test_a_tokenizer_that_does_not_split_texts_is_refused(tmp_path, file):
    tokenizer = small_tokenizers.wordpiece()
    folder = write_teacher(tmp_path / "teacher", tokenizer)
    bare = Tokenizer(tokenizer.backend_tokenizer.model)
    bare.save(str(folder / "tokenizer.json"))
    with refuses("init.word_list", "does not split"):
        static.build(block(file), folder)


@pytest.mark.parametrize(
    ("init", "told"),
    [
        ({"path": "glove.txt"}, "init.path and init.word_list are two starts"),
        ({"words": 10}, "init.words is of the teacher's vocabulary; remove it, or init.word_list"),
        ({"lowercase": False}, "init.lowercase is of a file of word vectors; name init.path"),
        ({"word_list": None, "subwords": False}, "init.subwords is of a list of words"),
    ],
)
def test_keys_of_other_starts_are_refused(file, init, told):
    (fault,) = student_faults("tiny", block(file, init=init))
    assert told in fault
