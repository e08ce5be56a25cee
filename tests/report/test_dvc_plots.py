"""What `dvc plots show` makes of the report: a page of its figures that needs no network."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from test_report import SAMPLE, run


@pytest.fixture
def dvc_folder(repository, tmp_path):
    """A folder with the report's outs, and of dvc.yaml what it says of them."""
    known = YAML(typ="safe").load(repository / "dvc.yaml")
    report = {key: known["stages"]["report"][key] for key in ("cmd", "outs", "metrics")}
    with (tmp_path / "dvc.yaml").open("w") as file:
        YAML().dump({"stages": {"report": report}, "plots": known["plots"]}, file)
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc/config").write_text("[core]\nno_scm = true\nanalytics = false\n")
    run(SAMPLE, tmp_path / "reports")
    return tmp_path


def show(folder):
    """The page that `dvc plots show` writes, and what it says."""
    command = [Path(sys.executable).parent / "dvc", "plots", "show", "--out", "shown"]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return (folder / "shown/index.html").read_text(), done.stderr


def test_every_figure_is_drawn_and_nothing_is_loaded(dvc_folder):
    page, said = show(dvc_folder)
    figures = sorted(path.name for path in (dvc_folder / "reports/plots").iterdir())
    assert [name for name in figures if f"<p>reports/plots/{name}</p>" not in page] == []
    assert page.count("<img ") == len(figures) > 0
    assert len(list((dvc_folder / "shown/static").iterdir())) == len(figures)
    assert "<script" not in page
    assert "://" not in page
    assert "WARNING" not in said


def test_a_table_among_the_figures_would_be_drawn_by_scripts_of_the_network(dvc_folder):
    shutil.copy(dvc_folder / "reports/leaderboard.tsv", dvc_folder / "reports/plots")
    assert '<script src="https://' in show(dvc_folder)[0]
