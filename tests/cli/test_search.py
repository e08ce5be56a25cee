import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ruamel.yaml import YAML
from sentence_transformers import SentenceTransformer, util
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from small_disk import disk_of
from small_params import small_params
from terminal import Terminal
from typer.testing import CliRunner, Result

from pipeline.cli.__main__ import app
from pipeline.cli.search import _key
from pipeline.cli.search import search as command
from pipeline.teacher.kinds.hashing import letter_tokenizer

TEXTS = ["the cat sat", "a dog ran far", "rain falls", "the cats sit", "the [red]\tdog", "cat"]
QUERIES = ["a cat", "dogs"]


def save_student(folder: Path, seed: int, **prompts: str) -> None:
    tokenizer = letter_tokenizer().backend_tokenizer
    table = np.random.default_rng(seed).standard_normal((tokenizer.get_vocab_size(), 8)).astype(np.float32)
    module = StaticEmbedding(tokenizer, embedding_weights=table)
    SentenceTransformer(modules=[module], prompts=prompts or None).save(str(folder))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with params, a corpus and one student."""
    monkeypatch.chdir(tmp_path)
    with Path("params.yaml").open("w") as file:
        YAML().dump(small_params(), file)
    Path("corpus.txt").write_text("\n".join(TEXTS))
    save_student(Path("data/finetuned/tiny"), seed=0)
    return tmp_path


def search(*args: str, stdin: str | None = None, corpus: str = "corpus.txt") -> Result:
    return CliRunner().invoke(app, ["search", corpus, *args, "--device", "cpu"], input=stdin)


def lines(result: Result) -> list[list[str]]:
    assert result.exit_code == 0, result.stderr
    return [line.split("\t") for line in result.stdout.splitlines()]


def expected(query: str, top: int) -> list[list[str]]:
    """By sentence-transformers' own search."""
    model = SentenceTransformer("data/finetuned/tiny", device="cpu")
    found = util.semantic_search(model.encode([query]), model.encode(TEXTS), top_k=top)[0]
    texts = [TEXTS[hit["corpus_id"]].replace("\t", " ") for hit in found]
    return [
        [str(rank), f"{hit['score']:.4f}", text]
        for rank, (hit, text) in enumerate(zip(found, texts, strict=True), start=1)
    ]


def test_the_nearest_texts_by_cosine():
    assert lines(search(QUERIES[0], "--top", "3")) == expected(QUERIES[0], 3)


def test_there_are_no_more_texts_than_the_corpus_has():
    assert lines(search(QUERIES[0], "--top", "99")) == expected(QUERIES[0], len(TEXTS))


def test_several_queries_are_groups_that_begin_with_their_query():
    groups = [[query, *row] for query in QUERIES for row in expected(query, 2)]
    assert lines(search(*QUERIES, "--top", "2")) == groups
    assert lines(search("-", "--top", "2", stdin="\n".join(QUERIES))) == groups
    assert lines(search("-", "--top", "2", stdin=QUERIES[0])) == groups[:2]


@pytest.mark.parametrize("mark", ["\r", "\x0b", "\x1c", "\x85", "\u2028", "\u2029"])
def test_a_text_is_a_line_whatever_may_end_one_elsewhere(mark: str):
    Path("corpus.txt").write_bytes(f"the cat{mark}sat\r\na dog\n".encode())
    for found in (search("a cat"), search("a cat", corpus="-", stdin=f"the cat{mark}sat\r\na dog\n")):
        assert {text for _, _, text in lines(found)} == {"the cat sat", "a dog"}


def test_the_corpus_may_be_stdin():
    assert lines(search(QUERIES[0], "--top", "2", corpus="-", stdin="\n".join(TEXTS))) == expected(
        QUERIES[0], 2
    )


def indexes() -> set[str]:
    return {path.name for path in Path(".cache/indexes").iterdir()}


def test_an_index_is_kept_for_a_corpus_and_a_student_whatever_their_names():
    first = search("cat")
    assert "index with tiny: 6 of 6 texts" in first.stderr
    kept = indexes()
    Path("corpus.txt").rename("renamed.txt")
    Path("data/finetuned/tiny").rename("moved")
    again = search("cat", "--student", "moved", corpus="renamed.txt")
    assert again.stdout == first.stdout
    assert "index" not in again.stderr
    assert indexes() == kept


def test_another_corpus_or_student_has_an_index_of_its_own():
    search("cat")
    Path("corpus.txt").write_text("\n".join(TEXTS[:-1]))
    assert "5 of 5 texts" in search("cat").stderr
    shutil.rmtree("data/finetuned/tiny")
    save_student(Path("data/finetuned/tiny"), seed=1)
    result = search("cat")
    assert "5 of 5 texts" in result.stderr
    assert len(indexes()) == 3


def test_an_index_of_vectors_in_int8_is_another():
    folder = Path("data/finetuned/tiny")
    auto, torch, onnx, int8 = (_key(TEXTS, folder, how) for how in ("auto", "torch", "onnx", "onnx-int8"))
    assert auto == torch == onnx != int8


def test_an_index_of_ones_own_is_reused_and_made_anew_and_needs_no_params():
    Path("params.yaml").unlink()
    first = search("cat", "--index", "mine/index")
    assert "6 of 6 texts" in first.stderr
    assert search("cat", "--index", "mine/index").stderr == ""
    Path("corpus.txt").write_text("other\ntexts")
    result = search("cat", "--index", "mine/index")
    assert "mine/index is the index of another corpus, student or precision; it is made anew" in result.stderr
    assert sorted(row[2] for row in lines(result)) == ["other", "texts"]


def test_a_folder_that_holds_more_than_an_index_is_not_replaced():
    assert search("cat", "--index", "mine").exit_code == 0
    Path("mine/notes.txt").write_text("of the user's")
    assert search("cat", "--index", "mine").exit_code == 0, "nothing is to be replaced"
    Path("corpus.txt").write_text("other\ntexts")
    result = search("cat", "--index", "mine")
    assert result.exit_code == 1
    assert "mine holds notes.txt beside an index; name a folder for the index alone" in result.stderr
    Path("mine/notes.txt").unlink()
    Path("mine/index.json").write_text("[]")
    assert "it is made anew" in search("cat", "--index", "mine").stderr


def test_queries_and_documents_have_the_prompts_of_the_student():
    save_student(Path("prompted"), seed=0, query="ask: ", document="text: ")
    model = SentenceTransformer("prompted", device="cpu")
    found = util.semantic_search(
        model.encode(["ask: a cat"], prompt=""), model.encode([f"text: {text}" for text in TEXTS], prompt="")
    )
    scores = [f"{hit['score']:.4f}" for hit in found[0]]
    assert [row[1] for row in lines(search("a cat", "--student", "prompted"))] == scores
    assert scores != [row[1] for row in lines(search("a cat", "--student", "tiny"))]


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["cat", "--student", "tyny"], ("'tyny'",)),
        (["  "], ("query", "empty")),
        (["\udcff"], ("UTF-8",)),
        (["-"], ("stdin:", "no text")),
        (["cat", "--index", "corpus.txt"], ("corpus.txt ", "index.faiss")),
        (["cat", "--index", "data"], ("data ", "index.faiss")),
        (["cat", "--index", "corpus.txt/index"], ("corpus.txt/index ", "File exists")),
    ],
)
def test_what_cannot_be_searched_is_said_and_nothing_is_written(args: list[str], named: tuple[str, ...]):
    before = sorted(Path().rglob("*"))
    result = search(*args)
    assert result.exit_code == 1
    assert [name for name in named if name not in result.stderr] == []
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize(
    ("content", "named"), [(None, ("corpus.txt", "No such file")), (b"\n \n", ("corpus.txt:", "no text"))]
)
def test_a_corpus_without_texts(content: bytes | None, named: tuple[str, ...]):
    Path("corpus.txt").unlink() if content is None else Path("corpus.txt").write_bytes(content)
    result = search("cat")
    assert result.exit_code == 1
    assert [name for name in named if name not in result.stderr] == []


def test_corpus_and_queries_cannot_both_be_stdin():
    assert "cannot both come from stdin" in search("-", corpus="-", stdin="cat").stderr


def test_a_student_has_to_be_named_unless_there_is_one():
    save_student(Path("data/finetuned/other"), seed=1)
    assert "name a student with --student; data/finetuned has other, tiny" in search("cat").stderr
    shutil.rmtree("data/finetuned")
    assert "data/finetuned has none; run `dvc repro`" in search("cat").stderr


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("name", "spoil", "fault"),
    [
        ("index.faiss", cut, "remove mine"),
        ("index.json", lambda path: path.write_text("{"), "JSON"),
        ("index.json", Path.unlink, "exist"),
    ],
)
def test_a_damaged_index(name, spoil, fault):
    search("cat", "--index", "mine")
    spoil(Path("mine") / name)
    result = search("cat", "--index", "mine")
    assert result.exit_code == 1
    assert f"mine/{name} " in result.stderr
    assert fault in result.stderr


def test_a_full_disk_is_one_line_and_leaves_no_index():
    with disk_of(100):
        result = search("cat")
    assert result.exit_code == 1
    assert "error: .cache/indexes/" in result.stderr
    assert "cannot be written (File too large)" in result.stderr
    assert "--index names another place" in result.stderr
    assert indexes() == set()
    assert result.stdout == search("cat").stdout != ""


def test_a_terminal_gets_a_table_of_each_query_with_the_texts_as_they_are(monkeypatch: pytest.MonkeyPatch):
    terminal = Terminal()
    monkeypatch.setenv("TERM", "dumb")
    with os.fdopen(terminal.writer, "w", closefd=False) as writer:
        monkeypatch.setattr(sys, "stdout", writer)
        command(Path("corpus.txt"), QUERIES, device="cpu")
    words = [line.split() for line in terminal.shown().splitlines()]
    titles = [words.index(query.split()) for query in QUERIES]
    assert [words[at + 1] for at in titles] == [["rank", "score", "text"]] * 2
    assert words[titles[0] + 2 : titles[0] + 2 + len(TEXTS)] == [
        [*row[:2], *row[2].split()] for row in expected(QUERIES[0], len(TEXTS))
    ]


def test_a_closed_pipe_ends_it_without_a_traceback():
    args = [
        sys.executable,
        "-m",
        "pipeline.cli",
        "search",
        "corpus.txt",
        "--device",
        "cpu",
        *QUERIES,
    ]
    with subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        said = process.stderr.read().decode()
    assert process.returncode == 0
    assert "Traceback" not in said
    assert "BrokenPipe" not in said
