"""What making the triplets ready holds beside them."""

import subprocess
import sys

MAKE = """
from pathlib import Path
import polars as pl
from pipeline.data.common.texts import fold
from pipeline.params.corpus import TripletFile
from pipeline.prepare.triplets import finetuning

rows = [f"anchor {row}\\tpositive {row}\\tone {row % 977}\\ttwo {row % 983}" for row in range(60_000)]
Path("triplets.tsv").write_text("\\n".join(["anchor\\tpositive\\tfirst\\tsecond", *rows]))
block = TripletFile(kind="triplets", path="triplets.tsv", negatives=("first", "second"))
held_out = fold(pl.Series([f"held out {row}" for row in range(20_000)] + [f"one {n}" for n in range(400)]))
def peak():  # in KB; getrusage would count what the process that started this one has held
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

before = peak()
found, reports = finetuning({"own": block}, dict, held_out)
print(reports["own"].dropped["negative_is_evaluation_text"])
print((peak() - before) // 1024)
"""


def test_negatives_do_not_take_kilobytes_each(folder):
    done = subprocess.run([sys.executable, "-c", MAKE], check=True, stdout=subprocess.PIPE, text=True)
    left_out, megabytes = map(int, done.stdout.split())
    assert left_out == 24_800
    assert megabytes < 200
