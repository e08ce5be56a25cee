import subprocess
import sys
from typing import get_args

import pytest

from pipeline.core.registry import implementation
from pipeline.params import students, teacher

FAMILIES = {
    "train.students.kinds": (students.Student, {"build", "load"}),
    "train.losses": (students.Loss, {"build"}),
    "teacher.kinds": (teacher.Teacher, {"load"}),
}
KINDS = [
    (family, get_args(block.model_fields["kind"].annotation)[0], wanted)
    for family, (union, wanted) in FAMILIES.items()
    for block in get_args(get_args(union)[0])
]


@pytest.mark.parametrize(("family", "kind", "wanted"), KINDS)
def test_every_kind_that_params_allow_has_its_module(family, kind, wanted):
    module = implementation(family, kind)
    assert module.__name__ == f"pipeline.{family}.{kind}"
    assert all(callable(getattr(module, name)) for name in wanted)


def test_all_families_were_found():
    assert {family for family, _, _ in KINDS} == set(FAMILIES)
    assert len(KINDS) >= 6


def test_nothing_is_imported_before_it_is_asked_for(repository):
    code = "import sys, pipeline.core.registry; print([m for m in sys.modules if 'pipeline.' in m])"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "['pipeline.core', 'pipeline.core.registry']"
