"""A table of the vectors of a SentencePiece model's pieces: BPEmb's files."""

import random
import re
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from refusals import refuses
from sentence_transformers import SentenceTransformer
from small_students import static_block, teacher
from small_tokenizers import SENTENCES

from pipeline.params.student_faults import student_faults
from pipeline.params.students import StaticStudent
from pipeline.teacher.kinds import hashing
from pipeline.train.students.kinds import static
from pipeline.train.students.shared.piece_vectors import Pieces
from pipeline.train.students.shared.verdict import Refused, verdict

REPOSITORY = Path(__file__).resolve().parents[3]
DIM = 6
LETTERS = "aabbhhteo  \t\n0129３٣éßñж中文か😀ﬁ½Ⅷ\u00a0\u00ad\u200be.-,'\"<s></s><unk>ABÉЖ"
STRANGE = [
    "", " ", " \t ", "<s> a </s>", "<unk>", "aaaaaaaaaaaaaaa", "bababababab hahahahahaha", "3.14 and ２",
    "👩‍👩‍👧‍👦 family", "e\u0301te\u0301", "İstanbul",
    "中文 text", "NAÏVE CAFÉ", "x" * 500,
]  # fmt: skip


def preprocessed(text: str) -> str:
    """`BPEmb.preprocess`."""
    return re.sub(r"\d", "0", text.lower())


def texts(seed: int = 0) -> list[str]:
    """Lines of this project's pages, and random letters."""
    lines = (REPOSITORY / "docs/teachers.md").read_text(encoding="utf-8").splitlines()
    rng = random.Random(seed)
    made = ["".join(rng.choices(LETTERS, k=rng.randint(1, 40))) for _ in range(400)]
    repeated = ["".join(rng.choices("abhte ", k=rng.randint(1, 40))) for _ in range(400)]
    return [*STRANGE, *lines, *(line.upper() for line in lines), *made, *repeated]


def train(folder: Path, **options) -> Path:
    """A SentencePiece model; BPE unless `options` say otherwise."""
    lines = (REPOSITORY / "docs/teachers.md").read_text(encoding="utf-8").splitlines()
    read = [preprocessed(line) for line in [*SENTENCES, "hahaha babab aaaa", *lines] if line]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(read * 2),
        model_prefix=str(folder / "en.wiki.bpe"),
        minloglevel=2,
        **{"vocab_size": 500, "model_type": "bpe", "character_coverage": 0.999, **options},
    )
    return folder / "en.wiki.bpe.model"


def numbers(count: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, DIM)).round(4).astype(np.float32)


def write(path: Path, names: list[str], vectors: np.ndarray) -> Path:
    """word2vec's text or binary form, by the ending."""
    head = f"{len(names)} {DIM}\n".encode()
    if path.suffix == ".bin":
        rows = [
            name.encode() + b" " + row.astype("<f4").tobytes()
            for name, row in zip(names, vectors, strict=True)
        ]
    else:
        lines = zip(names, vectors.tolist(), strict=True)
        rows = [f"{name} {' '.join(f'{one:.4f}' for one in row)}\n".encode() for name, row in lines]
    path.write_bytes(head + b"".join(rows))
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return train(tmp_path_factory.mktemp("pieces"))


@pytest.fixture(scope="module")
def names(model) -> list[str]:
    return Pieces(model).names


@pytest.fixture(scope="module")
def file(model, names) -> Path:
    return write(model.with_name("en.wiki.bpe.d6.w2v.txt"), names, numbers(len(names)))


def block(path: Path, pieces: Path, **changes) -> StaticStudent:
    init = {"path": str(path), "pieces": str(pieces), "projection": "none", "sif": None}
    base = static_block(dim=DIM, init=init | changes.pop("init", {})).model_dump(mode="json")
    return StaticStudent.model_validate({**base, "train": None, "loss": None, **changes})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"byte_fallback": True, "vocab_size": 700},
        {"normalization_rule_name": "identity"},
        {"normalization_rule_name": "nfkc_cf"},
        {"split_by_whitespace": False},
        {"add_dummy_prefix": False, "remove_extra_whitespaces": False},
    ],
    ids=lambda options: ", ".join(options) or "defaults",
)
def test_texts_get_the_pieces_that_sentencepiece_gives_them(options, tmp_path):
    model = train(tmp_path, **options)
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(model))
    ours = Pieces(model).tokenizer(lowercase=True)
    told = texts()
    assert len(told) > 1000
    found = [ours.encode(text).ids for text in told]
    assert found == theirs.encode([preprocessed(text) for text in told])


def test_without_lowercase_texts_are_as_they_are(model):
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(model))
    ours = Pieces(model).tokenizer(lowercase=False)
    assert [ours.encode(text).ids for text in texts(1)] == theirs.encode(texts(1))
    assert ours.encode("A 1").ids != ours.encode("a 0").ids


@pytest.mark.parametrize("ending", ["txt", "bin"])
def test_a_text_is_the_mean_of_its_pieces_vectors(model, names, tmp_path, ending):
    """Rows stand in the file's order, unknown pieces are left out, and the folder loads without this code."""
    vectors = numbers(len(names))
    order = np.random.default_rng(1).permutation(len(names))
    path = write(tmp_path / f"v.{ending}", [names[row] for row in order], vectors[order])
    static.build(block(path, model), tmp_path / "none").save(tmp_path / "out")
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(model))
    told = ["The teacher's 30,522 tokens", "a naïve CAFÉ", "quietly, 3.5 dogs", "unknown 中 letters"]
    rows = [[row for row in theirs.encode(preprocessed(text)) if row != theirs.unk_id()] for text in told]
    means = np.stack([vectors[one].astype(np.float64).mean(axis=0) for one in rows])
    expected = means / np.linalg.norm(means, axis=1, keepdims=True)
    found = SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(told)
    assert found == pytest.approx(expected, abs=1e-5)


def test_auto_is_the_files_dimension(file, model, names):
    facts = hashing.look(teacher().params)
    found = verdict("tiny", block(file, model, dim="auto"), facts)
    assert found.block.width == DIM
    assert found.parameters == len(names) * DIM


def test_fewer_dimensions_are_principal_components(file, model, tmp_path):
    learner = static.build(block(file, model, dim=3), tmp_path)
    assert learner.encode(learner.tokenise(["a quiet sea"])).vectors.shape == (1, 3)


def test_vectors_of_other_pieces_are_refused(model, names, tmp_path):
    some = write(tmp_path / "some.txt", names[:-1], numbers(len(names) - 1))
    with refuses(
        some, model, f"{len(names) - 1} vectors", f"{len(names)} pieces", repr(names[-1]), "init.pieces"
    ):
        static.build(block(some, model), tmp_path)
    more = write(tmp_path / "more.txt", [*names, "strange"], numbers(len(names) + 1))
    with refuses(more, f"{len(names) + 1} vectors", "'strange' is no piece"):
        static.build(block(more, model), tmp_path)
    twice = write(tmp_path / "twice.txt", [*names, names[5]], numbers(len(names) + 1))
    with refuses(twice, f"row {len(names) + 1}", repr(names[5])):
        static.build(block(twice, model), tmp_path)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model_type": "unigram"}, "a SentencePiece unigram model, not a BPE model"),
        ({"model_type": "char", "vocab_size": 40}, "word or character"),
        ({"user_defined_symbols": ["<mask>"]}, "'<mask>' for one"),
        ({"treat_whitespace_as_suffix": True}, "spaces after words"),
    ],
)
def test_other_models_are_refused(file, options, said, tmp_path):
    model = train(tmp_path, **options)
    with refuses(model, said):
        static.build(block(file, model), tmp_path)
    with pytest.raises(Refused, match=r"students\.tiny"):
        verdict("tiny", block(file, model), hashing.look(teacher().params))


@pytest.mark.parametrize("content", [b"", b"the 1 2 3\n", b"\xff\x00\x01"])
def test_what_is_no_model_is_refused(file, content, tmp_path):
    path = tmp_path / "some.model"
    path.write_bytes(content)
    with refuses(path, "no SentencePiece model", "init.pieces"):
        static.build(block(file, path), tmp_path)


def test_a_model_that_is_not_there(file, tmp_path):
    for refused in (
        lambda student: static.build(student, tmp_path),
        lambda student: verdict("tiny", student, hashing.look(teacher().params)),
    ):
        with refuses("init.pieces", tmp_path / "no.model"):
            refused(block(file, tmp_path / "no.model"))


@pytest.mark.parametrize(
    ("init", "told"),
    [
        ({"max_words": 10}, "init.max_words is of words"),
        ({"path": None}, "init.pieces is of a file of word vectors; name init.path"),
        ({"tokens": 10}, "init.tokens is of the teacher's vocabulary; remove it, or init.path"),
    ],
)
def test_keys_of_other_starts_are_refused(file, model, init, told):
    (fault,) = student_faults("tiny", block(file, model, init=init))
    assert told in fault
