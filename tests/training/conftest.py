"""What tests of the training need."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import small_students
import torch


@pytest.fixture(scope="session")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The parts of the hashing teacher."""
    return small_students.write_parts(tmp_path_factory.mktemp("teacher"))


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Tensors this small are slower on several threads, above all beside another job."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
