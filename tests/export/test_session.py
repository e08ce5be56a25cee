"""How texts are put together for an ONNX graph."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from pipeline.export.shared.session import in_batches


@pytest.mark.parametrize(("batch_size", "most_tokens"), [(3, None), (64, 20), (2, 20), (64, 1), (1, None)])
def test_all_rows_come_once_by_rising_length_and_a_batch_is_as_full_as_it_may_be(batch_size, most_tokens):
    lengths = np.random.default_rng(0).integers(0, 12, 200)
    found = list(in_batches(lengths, batch_size, most_tokens))
    assert_array_equal(np.concatenate(found), np.argsort(lengths, kind="stable"))
    for rows, following in zip(found, [*found[1:], None], strict=True):
        filled = len(rows) * lengths[rows].max()
        assert len(rows) <= batch_size
        assert most_tokens is None or filled <= most_tokens or len(rows) == 1
        if following is not None:
            more = (len(rows) + 1) * lengths[following[0]]
            assert len(rows) == batch_size or (most_tokens is not None and more > most_tokens)


def test_a_row_with_more_tokens_than_a_batch_is_alone():
    assert [rows.tolist() for rows in in_batches(np.array([30, 5, 5, 40]), 64, 20)] == [[1, 2], [0], [3]]
    assert list(in_batches(np.array([], np.int64), 64, 20)) == []
