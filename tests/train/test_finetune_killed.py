import random
import shutil
from pathlib import Path

import pytest
from distill_runs import kept, noted
from finetune_runs import finetune_params, finetune_slowly, write_inputs, write_replayed
from killed import kill_after, starter

DISTILLED = {"epochs": 1, "batch_size": 4, "lr": 0.01, "texts": {"corpus": 1, "wordnet": 0.5}}
REPLAY = {"replay": {"weight": 0.5, "batch_size": 7}}
OUTS = ("out", "metrics.json", "curve.tsv")


def made(folder: Path) -> dict[str, bytes]:
    """What the stage has made, but for how fast it was."""
    files = [file for name in OUTS for file in (folder / name, *(folder / name).rglob("*")) if file.is_file()]
    found = {str(file.relative_to(folder)): file.read_bytes() for file in files}
    if "curve.tsv" in found:
        lines = found["curve.tsv"].decode().splitlines()
        found["curve.tsv"] = "\n".join(line.rpartition("\t")[0] for line in lines).encode()
    return found


@pytest.mark.parametrize(
    ("kind", "kills", "replay", "calls"),
    [("static", 10, {}, 1), ("transformer", 10, {}, 1), ("transformer", 3, REPLAY, 2)],
)
def test_kills_at_random_moments_cost_the_step_at_hand_and_no_byte(
    folder, parts, processes, kind, kills, replay, calls
):
    """A step is one backward pass, or two with `replay`."""
    changes = {"train": DISTILLED} if replay else {}
    write_inputs(kind, finetune_params(epochs=10, negatives=1, **replay), parts, **changes)
    write_replayed()
    start = starter(processes, finetune_slowly, folder)
    start(folder / "undisturbed", 0).join()
    expected, steps = made(folder), noted(folder / "undisturbed").count("step")
    assert {name.partition("/")[0] for name in expected} == set(OUTS)
    shutil.rmtree(folder / "out")
    for name in OUTS[1:]:
        (folder / name).unlink()

    moments, taken = random.Random(5), 0
    for kill in range(kills):
        log = folder / f"noted {kill}"
        process, after = start(log, 0.02), moments.randrange(1, 4)
        kill_after(process, lambda log=log, after=after: len(noted(log)) >= after, moments, seconds=0.03)
        taken += len(noted(log))
    assert 0 < taken < steps + calls * kills

    start(folder / "rest", 0).join()
    assert len(noted(folder / "rest")) <= steps - taken + calls * kills
    assert made(folder) == expected, (folder / "stderr").read_text()
    assert [name for name in kept(folder) if ".partial-" not in name] == []
