import random
import shutil

import pytest
from distill_runs import OUTS, kept, made, noted, run_slowly, write_project
from killed import kill_after, starter

KILLS = 10
STUDENTS = {
    "sparse table": (
        {"init": {"words": 9, "min_count": 1}},
        {"sparse": True, "average": {"decay": 0.9}},
    ),
    "transformer": (
        {
            "kind": "transformer",
            "init": {"layers": [0, 1]},
            "loss": {
                "kind": "sum",
                "terms": [
                    {"weight": 1.0, "loss": {"kind": "mse"}},
                    {"weight": 0.5, "loss": {"kind": "infonce", "projection": "learned"}},
                    {"weight": 0.5, "loss": {"kind": "hsic"}},
                ],
            },
        },
        {"micro_batch": 4, "texts": {"corpus": 0.7, "wordnet": 1.5}},
    ),
}


@pytest.fixture
def start(folder, processes):
    return starter(processes, run_slowly, folder)


@pytest.mark.parametrize("kind", STUDENTS)
def test_kills_at_random_moments_cost_the_step_at_hand_and_no_byte(folder, start, kind):
    student, train = STUDENTS[kind]
    write_project(folder, student, epochs=16, **train)
    start(folder / "undisturbed", 0).join()
    expected, steps = made(folder), noted(folder / "undisturbed").count("step")
    assert {name.split("/")[0] for name in expected} == set(OUTS.values())
    assert kept(folder) == []
    for name in OUTS.values():
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).unlink(missing_ok=True)

    moments, taken = random.Random(3), 0
    for kill in range(KILLS):
        log = folder / f"noted {kill}"
        process, after = start(log, 0.02), moments.randrange(1, 12)
        kill_after(process, lambda log=log, after=after: len(noted(log)) >= after, moments, seconds=0.03)
        taken += noted(log).count("step")
    assert 0 < taken < steps + KILLS

    start(folder / "rest", 0).join()
    rest = noted(folder / "rest")
    assert rest.count("step") <= steps - taken + KILLS
    assert made(folder) == expected, (folder / "stderr").read_text()
    assert [name for name in kept(folder) if ".partial-" not in name] == []
