"""What tests of several parts need."""

import json
import multiprocessing
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import cache
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest
import small_students
import torch
import warm_python
from filelock import FileLock
from hypothesis import HealthCheck, settings
from project import Project
from transformers import BertConfig, BertModel

from pipeline.params.runtime import Runtime
from pipeline.params.teacher import TransformerTeacher
from pipeline.prepare.shared.wordnet_files import is_complete
from pipeline.teacher.kinds import transformer
from pipeline.teacher.kinds.hashing import letter_tokenizer

Load = Callable[..., transformer.Transformer]

REPOSITORY = Path(__file__).resolve().parent.parent

# An example takes as long as what runs beside the tests lets it take.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest goes first: `make test` has two workers, and none ends alone.

    One worker makes the first run, for test_repro.py; what needs it too comes later.
    """
    first = ["test_repro.py", "test_world.py", "test_onnx.py", "test_export.py", "test_rerun_table.py"]
    items.sort(key=lambda item: first.index(item.path.name) if item.path.name in first else len(first))


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Tensors as small as the tests' are slower on several threads, above all beside another job."""
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"  # of the processes that tests start
    warm_python.environment()


@pytest.fixture(autouse=True)
def _same_environment() -> Iterator[None]:
    """What a stage sets for its own process ends with the test that runs it here.

    Later tests' processes would start otherwise than the forks of `warm_python`, which then run none of them.
    """
    before = dict(os.environ)
    yield
    if os.environ != before:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The repository's root."""
    return REPOSITORY


@pytest.fixture(scope="session")
def nltk_data(repository: Path) -> Path:
    """NLTK's data folder with WordNet in it; skips without."""
    folder = repository / "data" / "raw" / "nltk_data"
    if not is_complete(folder):
        pytest.skip(f"no WordNet in {folder}; `make setup` obtains it")
    return folder


@pytest.fixture(scope="session")
def shared_data(repository: Path) -> Path:
    """Real evaluation data beside the repository; skips without."""
    folder = repository.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no {folder}: the shared evaluation data is not here")
    return folder


@pytest.fixture(scope="session")
def first_run(
    repository: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, set[str]]:
    """A copy of the repository after its first `dvc repro`, on the hashing teacher, and the stages that ran.

    It is one for all workers of pytest-xdist: `project` is a copy that may be changed.
    """
    folder = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        folder = folder.parent
    known = folder / "first_run.json"
    with FileLock(folder / "first_run.lock"):
        if not known.exists():
            root = tmp_path_factory.mktemp("first_run")
            known.write_text(json.dumps({"failed in": str(root)}))
            stages, _ = Project.start(repository, root).repro()
            known.write_text(json.dumps({"root": str(root), "stages": sorted(stages)}))
    found = json.loads(known.read_text())
    if "failed in" in found:
        pytest.fail(f"the first `dvc repro` failed in {found['failed in']}: another test tells why")
    return Path(found["root"]), set(found["stages"])


@pytest.fixture(scope="module")
def project(first_run: tuple[Path, set[str]], tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of the repository after its first `dvc repro`, on the hashing teacher."""
    root = tmp_path_factory.mktemp("project")
    shutil.copytree(first_run[0], root, symlinks=True, dirs_exist_ok=True)
    return Project(root)


@pytest.fixture(scope="session")
def load() -> Load:
    """Load a teacher as the stages do."""

    def load(model: Path | str, tokens_per_batch: int = 4096, **params: Any) -> transformer.Transformer:
        teacher = TransformerTeacher(kind="transformer", model=str(model), **params)
        return transformer.load(teacher, Runtime(device="cpu", tokens_per_batch=tokens_per_batch))

    return load


@pytest.fixture(scope="session")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The parts of the hashing teacher."""
    return small_students.write_parts(tmp_path_factory.mktemp("teacher"))


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plain transformers folder: a two-layer BERT over letters, with weights large enough to matter."""
    folder = tmp_path_factory.mktemp("models") / "bert"
    tokenizer = letter_tokenizer()
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(
        vocab_size=len(tokenizer), max_position_embeddings=128, initializer_range=0.5, **shape
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """Gives the folder of a model that translates a tiny grammar; it is trained at the first call."""
    import small_translation

    folder = tmp_path_factory.mktemp("translators")
    return cache(
        lambda source, target: small_translation.train(folder / f"{source}-{target}", source, target)
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def processes() -> multiprocessing.context.ForkServerContext:
    """Starts processes that have imported the stage already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["encode_runs", "distill_runs", "finetune_runs", "augment_runs"])
    with pytest.MonkeyPatch.context() as patch:
        # Python 3.11 does not hand sys.path on to what is preloaded.
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        forkserver.ensure_running()
    return context
