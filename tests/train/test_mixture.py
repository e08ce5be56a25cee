import math
from collections import Counter
from itertools import chain, pairwise

import numpy as np
import pytest
from small_training import ROWS, Regression, settings

from pipeline.train.loop.mixture import Batches, Portion, epoch_order

MIXED = (Portion(10), Portion(7, 0.5), Portion(0, 3.0), Portion(4, 2.0), Portion(5, 0.3))


def read(portions, epochs, seed=0):
    """The rows of each set that each epoch reads, numbered from 0 in their set."""
    bounds = np.cumsum([0, *(portion.rows for portion in portions)])
    orders = [epoch_order(portions, seed, epoch).tolist() for epoch in range(epochs)]
    return [
        [[row - low for row in order if low <= row < high] for order in orders]
        for low, high in pairwise(bounds)
    ]


@pytest.mark.parametrize("sets", [(12,), (5, 7), (5, 0, 7)])
def test_whole_sets_have_the_order_of_one_permutation(sets):
    for seed, epoch in ((0, 0), (0, 1), (7, 3)):
        expected = np.random.default_rng([seed, epoch]).permutation(12)
        np.testing.assert_array_equal(epoch_order([Portion(rows) for rows in sets], seed, epoch), expected)


def test_an_epoch_reads_each_set_in_its_proportion():
    epochs = read(MIXED, 4)
    assert [{len(rows) for rows in of_set} for of_set in epochs] == [{10}, {4}, {0}, {8}, {2}]
    assert all(sorted(rows) == list(range(10)) for rows in epochs[0])
    assert all(sorted(rows) == sorted([0, 1, 2, 3] * 2) for rows in epochs[3])


@pytest.mark.parametrize(
    ("rows", "proportion"), [(7, 0.5), (5, 0.3), (6, 0.5), (4, 1.5), (9, 0.01), (3, 2.4)]
)
def test_no_row_comes_again_before_all_have_been_read(rows, proportion):
    portion = Portion(rows, proportion)
    counts = Counter({row: 0 for row in range(rows)})
    for epoch, (seen,) in enumerate(zip(*read([portion], 40), strict=True)):
        counts.update(seen)
        assert max(counts.values()) - min(counts.values()) <= 1
        assert counts.total() == (epoch + 1) * portion.an_epoch
    assert portion.an_epoch == max(1, round(rows * proportion))


def test_halves_of_a_set_make_up_the_whole_and_come_in_a_new_order():
    first, second, third, fourth = (frozenset(rows) for rows in read([Portion(20, 0.5)], 4)[0])
    assert first | second == third | fourth == set(range(20))
    assert first not in (third, fourth)
    assert first not in (frozenset(range(10)), frozenset(range(10, 20)))


def test_sets_are_mixed():
    order = epoch_order([Portion(500), Portion(1000, 0.5)], 0, 0)
    share = [np.mean(part < 500) for part in np.split(order, 10)]
    assert 0.3 < min(share) < max(share) < 0.7


def test_another_seed_reads_other_rows():
    assert read([Portion(50, 0.2)], 1, seed=0) != read([Portion(50, 0.2)], 1, seed=1)
    one, other = read([Portion(50, 0.2), Portion(50, 0.2)], 1)
    assert set(one[0]) != set(other[0])


def test_a_step_knows_its_rows_without_those_before(tmp_path):
    chosen = settings(portions=(Portion(6), Portion(4, 0.5)), batch_size=3, epochs=4)
    assert (chosen.own.rows, chosen.own.steps_per_epoch, chosen.steps) == (8, 3, 12)
    run = Regression()
    curve = run.fit(chosen, tmp_path)
    assert [len(batch) for batch in run.batches] == [3, 3, 2] * 4
    assert run.batches[7] == chosen.batch(7).tolist()
    assert [point.examples for point in curve] == [8 * epoch for epoch in range(5)]
    epochs = [list(chain(*run.batches[start : start + 3])) for start in range(0, 12, 3)]
    assert [sorted(set(epoch) & set(range(6))) for epoch in epochs] == [list(range(6))] * 4
    assert set(epochs[0] + epochs[1]) == set(range(ROWS))


def test_a_batch_of_other_examples_comes_beside_each_step_with_epochs_of_its_own():
    beside = Batches((Portion(7), Portion(4, 0.5)), 2, 5)
    chosen = settings(portions=(Portion(6),), batch_size=4, epochs=5, beside=beside)
    assert (beside.rows, beside.steps_per_epoch, chosen.steps) == (9, 5, 10)
    steps = [chosen.split(chosen.batch(step)) for step in range(chosen.steps)]
    assert [len(own) for own, _ in steps] == [4, 2] * 5
    for two in zip(steps[::2], steps[1::2], strict=True):
        assert sorted(np.concatenate([own for own, _ in two])) == list(range(6))
    first, second = (np.concatenate([rows for _, rows in steps[at : at + 5]]) for at in (0, 5))
    assert sorted(first[first < 7]) == sorted(second[second < 7]) == list(range(7))
    assert sorted({*first, *second}) == list(range(11))
    assert first.tolist() != second.tolist()
    alone = settings(portions=(Portion(6),), batch_size=4, epochs=5)
    assert [own.tolist() for own, _ in steps] == [alone.batch(step).tolist() for step in range(10)]


def test_epochs_are_counted_by_what_they_read():
    for proportion, rows in ((0.5, 5), (2.0, 20)):
        chosen = settings(portions=(Portion(ROWS, proportion),))
        assert chosen.own.rows == rows
        assert chosen.steps == 3 * math.ceil(rows / 4)
