import polars as pl
import pytest
from refusals import refuses

from pipeline.data.common.texts import text_id
from pipeline.params.evaluate import EntityResolutionTask
from pipeline.prepare.tasks import evaluation, sizes

HEADER = "query\tentity\tlabel\tlang\n"


def task(path, **settings):
    return EntityResolutionTask(kind="entity_resolution", path=str(path), **settings)


def read(found):
    """subset, query and entity of every pair, as texts."""
    texts = dict(found.texts.select("text_id", "text").iter_rows()) | {None: None}
    columns = found.pairs.select("subset", "left_id", "right_id").iter_rows()
    return sorted((subset, texts[left] or "", texts[right]) for subset, left, right in columns)


def made(tmp_path, rows, **settings):
    (tmp_path / "er.tsv").write_text(HEADER + "".join("\t".join(row) + "\n" for row in rows))
    return evaluation({"er": task(tmp_path / "er.tsv", **settings)}, None)


def test_matches_and_the_other_entities_of_each_subset(tmp_path):
    rows = [
        ("bbc one", "BBC Radio 1", "1", "en"),
        ("bbc one", "BBC Radio 2", "0", "en"),
        ("bbc one", "BBC  Radio 1", "1", "en"),  # a duplicate, once it is normalised
        ("radio uno", "Rai Radio 1", "1.0", "it"),
        ("radio uno", "BBC Radio 1", "0", "it"),
    ]
    found = made(tmp_path, rows, subset="lang")
    assert read(found) == [
        ("en", "", "BBC Radio 2"),
        ("en", "bbc one", "BBC Radio 1"),
        ("it", "", "BBC Radio 1"),
        ("it", "radio uno", "Rai Radio 1"),
    ]
    assert found.dropped == {}
    assert {row["split"] for row in found.pairs.iter_rows(named=True)} == {"test"}


def test_a_match_outweighs_a_row_that_denies_it(tmp_path):
    found = made(tmp_path, [("a", "b", "0", "en"), ("a", "b", "1", "en")])
    assert read(found) == [("er.tsv", "a", "b")]


def test_a_query_without_a_match_is_left_out_and_counted_but_its_entities_stay(tmp_path):
    rows = [("a", "b", "1", "en"), ("lost", "c", "0", "en"), ("lost", "d", "0", "en")]
    found = made(tmp_path, rows)
    assert read(found) == [("er.tsv", "", "c"), ("er.tsv", "", "d"), ("er.tsv", "a", "b")]
    assert sizes(found.pairs, found.dropped)["er"]["dropped"] == {"query_without_match": 2}
    assert text_id("lost") not in set(found.texts["text_id"])


def test_every_file_is_a_subset_and_without_labels_all_rows_match(tmp_path):
    for name in ("de", "fr"):
        (tmp_path / f"{name}.csv").write_text(f"mention,name\nx {name},y\n")
    found = evaluation({"er": task(tmp_path / "*.csv", query="mention", entity="name", label=None)}, None)
    assert read(found) == [("de.csv", "x de", "y"), ("fr.csv", "x fr", "y")]


@pytest.mark.parametrize(
    ("rows", "settings", "named"),
    [
        ([("a", "b", "2", "en")], {}, ("er.tsv, row 1 ", "label", "'2'", "0 or 1")),
        ([("a", "b", "1", ""), ("a", "c", "", "")], {}, ("er.tsv, row 2 ", "label", "''", "0 or 1")),
        ([("a", "b", "1", "en"), ("", "b", "1", "en")], {}, ("er.tsv, row 2 ", "query", "fill it")),
        ([("a", "b", "1", "")], {"subset": "lang"}, ("er.tsv, row 1 ", "lang", "fill it")),
        ([("a", "b", "1", "en")], {"entity": "entitty"}, ("er.tsv", "'entitty'", "'entity'?")),
        ([("a", "b", "1", "en"), ("a", "c", "0", "it")], {"subset": "lang"}, ("er.tsv", "subset 'it'")),
        ([], {}, ("er.tsv", "params.yaml or fill it")),
    ],
)
def test_faults(tmp_path, rows, settings, named):
    with refuses(*named):
        made(tmp_path, rows, **settings)


def test_real_aliases(shared_data):
    path = shared_data / "er" / "alias_pairs.parquet"
    pairs = evaluation({"alias": task(path, subset="kind")}, None).pairs
    table = pl.read_parquet(path)
    expected = table.filter(pl.col("label") == 1).group_by("kind").agg(pl.col("query").n_unique())
    queries = pairs.drop_nulls("left_id").group_by("subset").agg(pl.col("left_id").n_unique())
    assert dict(queries.iter_rows()) == dict(expected.iter_rows())
