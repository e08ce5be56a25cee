"""One text in several roles has several ids, of which it is found that they are one."""

import numpy as np
import pytest

from pipeline.data.common import texts


@pytest.mark.parametrize("at_a_time", [7, 1 << 20])
def test_the_first_row_of_the_same_text(monkeypatch, at_a_time):
    monkeypatch.setattr(texts, "IDS_AT_A_TIME", at_a_time)
    random = np.random.default_rng(0)
    drawn = [(f"text {i}", role) for i in range(60) for role in ("text", "query", "document")]
    drawn = [one for one in drawn if random.random() < 0.5]
    by_id = {int(texts.in_role(texts.text_ids([text]), [role])[0]): text for text, role in drawn}
    ids = sorted(by_id)
    named = [by_id[one] for one in ids]
    assert len(set(named)) < len(named)
    found = texts.first_of_same(np.array(ids, np.uint64))
    assert found.tolist() == [named.index(text) for text in named]


def test_of_no_texts_there_is_none():
    assert texts.first_of_same(np.empty(0, np.uint64)).tolist() == []
