"""What tests of the training need."""

from pathlib import Path

import pytest
import small_students


@pytest.fixture(scope="session")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The parts of the hashing teacher."""
    return small_students.write_parts(tmp_path_factory.mktemp("teacher"))
