import polars as pl

from pipeline.data.common.texts import text_id
from pipeline.prepare.sampling import keep_first, share

IDS = pl.Series("text_id", [text_id(f"text {i}") for i in range(20_000)], dtype=pl.UInt64)


def test_choice_does_not_depend_on_the_order():
    table = pl.DataFrame({"text_id": IDS})
    forwards = keep_first(table, "text_id", 100, "limit")
    backwards = keep_first(table.reverse(), "text_id", 100, "limit")
    assert set(forwards["text_id"]) == set(backwards["text_id"])
    assert len(forwards) == 100


def test_a_larger_limit_keeps_what_a_smaller_one_keeps():
    table = pl.DataFrame({"text_id": IDS})
    kept = [set(keep_first(table, "text_id", limit, "limit")["text_id"]) for limit in (50, 500)]
    assert kept[0] < kept[1]


def test_no_limit_keeps_all():
    table = pl.DataFrame({"text_id": IDS})
    assert keep_first(table, "text_id", None, "limit").equals(table)


def test_kept_ids_are_spread_over_the_id_space():
    kept = keep_first(pl.DataFrame({"text_id": IDS}), "text_id", 4000, "limit")["text_id"]
    sixteenths = (kept // 2**60).value_counts()["count"]
    assert len(sixteenths) == 16
    assert sixteenths.min() > 180


def test_share_is_a_share_and_purposes_are_independent():
    dev, other = share(IDS, 0.1, "dev"), share(IDS, 0.1, "other")
    assert 0.09 < dev.mean() < 0.11
    assert 0.005 < (dev & other).mean() < 0.015
    assert share(IDS, 0.0, "dev").sum() == 0
    assert share(IDS, 1.0, "dev").all()
