from pathlib import Path

from built_corpus import build, source
from typer.testing import CliRunner

from pipeline.cli.__main__ import app
from pipeline.data.common import texts
from pipeline.params.corpus import Corpus
from pipeline.prepare.documents import Cut
from pipeline.prepare.rows import PROVENANCE_SCHEMA, SourceTexts

CORPUS = Corpus.model_validate({"sources": [{"kind": "wordnet"}], "min_words": 1})


def inspect(folder: Path, given: SourceTexts, *, places: bool) -> str:
    table, _ = build([given], CORPUS)
    texts.write(table, texts.CORPUS_SCHEMA, folder / "corpus.parquet")
    if places:
        texts.write(table, PROVENANCE_SCHEMA, folder / "provenance.parquet")
    result = CliRunner().invoke(app, ["inspect", str(folder / "corpus.parquet")])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_corpus_is_shown_with_where_its_texts_come_from(tmp_path):
    rows = ["One is one.", "Two are two. Three are three."]
    cut = source(*rows, name="docs/*.txt", files=("docs/a.txt",), cut=Cut("en", None))
    assert "docs/a.txt" not in inspect(tmp_path, cut, places=False)
    shown = [
        line.split("┆") for line in inspect(tmp_path, cut, places=True).splitlines() if "docs/a.txt" in line
    ]
    found = {cells[1].strip(): [cell.strip(" │") for cell in cells[-3:]] for cells in shown}
    assert found == {
        "One is one.": ["docs/a.txt", "1", "1"],
        "Two are two.": ["docs/a.txt", "2", "1"],
        "Three are three.": ["docs/a.txt", "2", "2"],
    }


def test_columns_that_say_nothing_are_left_out(tmp_path):
    whole = source("One is one.", name="wordnet")
    header = inspect(tmp_path, whole, places=True)
    assert "row" in header.split("column split")[1]
    assert "part" not in header
