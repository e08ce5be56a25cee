import threading

import numpy as np
import pytest
from small_training import ROWS, Regression, settings

from pipeline.data.tokens.mapped import map_file
from pipeline.data.tokens.tokens import Tokens
from pipeline.train.loop import mixture
from pipeline.train.loop.ahead import ReadAhead
from pipeline.train.loop.checkpoint import Checkpoint
from pipeline.train.loop.data import Examples
from pipeline.train.loop.loop import fit
from pipeline.train.loop.mixture import Batches, Portion, epochs


def batch(step):
    return np.array([step])


def test_batches_are_asked_for_before_their_steps_and_no_further_than_the_epoch():
    asked, looked_at = [], []

    def looking(step):
        looked_at.append(step)
        return batch(step)

    with ReadAhead(lambda rows: asked.extend(rows.tolist()), looking, 7) as reading:
        for step, last in ((1, 5), (2, 6), (3, 6), (4, 6), (5, 6), (6, 6), (7, 11), (8, 12)):
            reading.come_to(step)
            assert step in asked
            assert looked_at == [*range(1, last + 1)]
    assert asked == looked_at[: len(asked)]


@pytest.mark.parametrize(("own", "beside", "made"), [(40, 13, 4), (11, 60, 1)])
def test_an_epochs_order_of_other_examples_is_made_once(own, beside, made, monkeypatch):
    orders = []
    real = mixture.epoch_order

    def counted(portions, seed, epoch):
        orders.append((portions[0].rows, epoch))
        return real(portions, seed, epoch)

    monkeypatch.setattr(mixture, "epoch_order", counted)
    others = Batches((Portion(2 * beside),), 2, 0)
    of_both = settings(portions=(Portion(3 * own),), batch_size=3, beside=others)
    assert epochs(of_both.own, of_both.beside) == [own, beside]
    with ReadAhead(lambda _rows: None, of_both.batch, own, beside) as reading:
        for step in range(50):
            reading.come_to(step)
            of_both.batch(step)
    assert [epoch for rows, epoch in orders if rows == 2 * beside] == list(range(made))
    assert [epoch for rows, epoch in orders if rows == 3 * own] == list(range(-(-50 // own)))


def test_a_step_waits_for_its_own_rows_to_be_asked_for_and_not_for_those_of_others():
    go_on, asked = threading.Event(), []

    def fetch(rows):
        asked.extend(rows.tolist())
        if rows[0]:
            go_on.wait(60)

    with ReadAhead(fetch, batch, 99) as reading:
        reading.come_to(0)
        assert set(asked) <= {0, 1}
        go_on.set()
        reading.come_to(1)
        assert asked[:2] == [0, 1]


def test_a_disk_that_fails_is_told_and_ends_the_thread():
    def fetch(rows):
        raise OSError(f"row {rows[0]}")

    before = threading.active_count()
    with pytest.raises(OSError, match="row 5"), ReadAhead(fetch, batch, 99) as reading:
        reading.come_to(5)
    assert threading.active_count() == before


def test_a_training_asks_for_the_rows_of_all_its_steps_and_comes_to_the_same_bits(tmp_path):
    plain, reading = Regression(), Regression()
    asked: list[list[int]] = []
    chosen = settings()
    for run, fetch in ((plain, None), (reading, lambda rows: asked.append(rows.tolist()))):
        checkpoint = Checkpoint(tmp_path / f"{'reading' if fetch else 'plain'}.safetensors")
        fit(run.module, run.backward, run.dev_value, chosen, checkpoint, 1e9, read_ahead=fetch)
    assert reading.weights() == plain.weights()
    assert reading.batches == plain.batches == asked
    assert {row for rows in asked for row in rows} == set(range(ROWS))


def test_examples_ask_for_their_tokens_and_targets(tmp_path, monkeypatch):
    ids, targets = np.arange(12, dtype=np.int32), np.ones((3, 2), np.float32)
    ids.tofile(tmp_path / "ids.bin")
    targets.tofile(tmp_path / "targets.bin")
    mapped = (
        map_file(tmp_path / "ids.bin", np.int32, (12,)),
        map_file(tmp_path / "targets.bin", np.float32, (3, 2)),
    )
    asked = []
    for module in ("pipeline.data.tokens.tokens", "pipeline.train.loop.data"):
        monkeypatch.setattr(
            f"{module}.read_ahead",
            lambda array, starts, lengths: asked.append((array, starts.tolist(), lengths.tolist())),
        )
    Examples(Tokens(mapped[0], np.array([0, 4, 5, 12])), mapped[1]).read_ahead(np.array([2, 0]))
    assert [(one is mapped[place], *spans) for place, (one, *spans) in enumerate(asked)] == [
        (True, [5, 0], [7, 4]),
        (True, [2, 0], [1, 1]),
    ]
