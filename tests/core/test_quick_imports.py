"""What is put off is there when it is asked for, and models compute as without."""

import subprocess
import sys

import pytest

INSTALL = "from pipeline.core import quick_imports; quick_imports.install()\n"


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_nobody_needs_is_not_imported():
    code = (
        INSTALL + "import sys, sentence_transformers, transformers.models.bert.modeling_bert\n"
        "torch = sys.modules['torch']\n"
        "assert torch.arange(3, device='meta').shape == (3,)\n"
        "print(*(name for name in ('sklearn', 'scipy.stats', 'scipy.optimize', 'scipy.sparse',\n"
        "    'datasets', 'pandas', 'sympy', 'torch._dynamo.config',\n"
        "    'torch.distributed.tensor', 'torch.distributed.fsdp') if name in sys.modules))"
    )
    assert run(code) == "\n"


def test_what_was_put_off_is_imported_by_its_use():
    code = (
        INSTALL + "import sys, torch, sentence_transformers\n"
        "from sentence_transformers.util import euclidean_sim, manhattan_sim, pairwise_manhattan_sim\n"
        "a, b = torch.tensor([[0.0, 3.0]]), torch.tensor([[4.0, 0.0]])\n"
        "print(euclidean_sim(a, b).item(), manhattan_sim(a, b).item())\n"
        "from transformers.data.metrics import glue_compute_metrics\n"
        "import numpy as np\n"
        "rising = np.arange(5)\n"
        "print(glue_compute_metrics('sts-b', rising, -rising)['spearmanr'].round(6))\n"
        "from sentence_transformers.util.similarity import pairwise_distances\n"
        "print(pairwise_distances([[0.0]], [[2.0]])[0, 0], 'sklearn' in sys.modules)"
    )
    assert run(code).splitlines() == ["-5.0 -7.0", "-1.0", "2.0 True"]


def test_what_was_put_off_is_a_class_of_objects_and_a_condition_that_fails_is_an_error():
    code = (
        INSTALL + "import sys, torch, sentence_transformers\n"
        "from sentence_transformers.base import model_card, sampler\n"
        "assert 'datasets' not in sys.modules\n"
        "import datasets\n"
        "table = datasets.Dataset.from_dict({'a': [1]})\n"
        "print(isinstance(table, model_card.Dataset), isinstance(table, model_card.IterableDataset))\n"
        "print(isinstance(table, (int, sampler.Dataset)))\n"
        "from sentence_transformers.util import to_scipy_coo\n"
        "print(to_scipy_coo(torch.eye(2).to_sparse()).nnz)\n"
        "for condition in (False, torch.tensor(True)):\n"
        "    try: torch._check(condition, lambda: 'refused')\n"
        "    except (RuntimeError, TypeError) as error: print(type(error).__name__)"
    )
    assert run(code).splitlines() == ["True False", "True", "2", "RuntimeError", "TypeError"]


def test_the_compiler_and_sharding_are_there_for_who_asks_for_them():
    code = (
        INSTALL + "import sys, torch, sentence_transformers\n"
        "stand_in = sys.modules['torch._dynamo']\n"
        "import torch._dynamo.testing\n"
        "print(torch._dynamo is not stand_in, torch._dynamo.testing.__name__)\n"
        "print(stand_in.eval_frame is torch._dynamo.eval_frame)\n"
        "print(torch.compile(lambda x: x + 1, backend='eager')(torch.ones(1)).item())\n"
        "from torch.distributed.fsdp import FullyShardedDataParallel\n"
        "print(issubclass(FullyShardedDataParallel, torch.nn.Module))\n"
        "import torch.distributed.tensor\n"
        "print(torch.distributed.tensor.DTensor.__name__)"
    )
    assert run(code).splitlines() == ["True torch._dynamo.testing", "True", "2.0", "True", "DTensor"]


def test_a_version_that_reads_what_others_only_import_gets_it(tmp_path):
    package = tmp_path / "transformers"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from torch.distributed.tensor import DTensor\n"
        "from torch.distributed.tensor.placement_types import Shard\n"
        "import torch._dynamo.config\n"
    )
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n" + INSTALL + "import torch, transformers\n"
        "import torch.distributed.tensor as real\n"
        "print(transformers.DTensor is real.DTensor, transformers.Shard(1).dim)"
    )
    assert run(code) == "True 1\n"


def test_the_folders_of_transformers_offer_the_same_names():
    code = (
        "import transformers.models, transformers.models.bert\n"
        "from transformers.utils import import_utils\n"
        "here = transformers.models.bert.__path__[0]\n"
        "for path in (here, here + '/__init__.py'):\n"
        "    for backends, offered in import_utils.define_import_structure(path).items():\n"
        "        print(sorted(backends), sorted((k, *sorted(v)) for k, v in offered.items()))\n"
        "print(sorted(dir(transformers.models)))"
    )
    found = run(INSTALL + code)
    assert found == run(code)
    assert "BertModel" in found


def test_an_embedding_is_random_but_where_it_has_no_memory():
    code = (
        "import sys, torch\n"
        "torch.manual_seed(0)\n"
        "with torch.device('meta'):\n"
        "    print(torch.nn.Embedding(3, 2, padding_idx=1).weight.shape, 'sympy' in sys.modules)\n"
        "print(torch.nn.Embedding(3, 2, padding_idx=1).weight.tolist())"
    )
    with_it, without = run(INSTALL + code).splitlines(), run(code).splitlines()
    assert with_it[0].endswith("False")
    assert without[0].endswith("True")
    assert with_it[1] == without[1]


def test_a_trained_model_has_the_same_vectors_as_without(bert):
    code = (
        "import torch; from transformers import AutoModel\n"
        "torch.set_num_threads(1); torch.manual_seed(0)\n"
        f"model = AutoModel.from_pretrained({str(bert)!r}).train(False)\n"
        "optimizer = torch.optim.AdamW(model.parameters(), 0.1)\n"
        "ids = torch.arange(5, 12)[None]\n"
        "for _ in range(3):\n"
        "    optimizer.zero_grad()\n"
        "    model(ids).last_hidden_state.square().sum().backward(); optimizer.step()\n"
        "print(model(ids).last_hidden_state.detach().flatten().tolist())"
    )
    assert run(INSTALL + code) == run(code)


@pytest.mark.parametrize("first", ["sentence_transformers", "transformers"])
def test_who_is_late_changes_nothing(tmp_path, first):
    """A tokenizer's class was not the one that sentence-transformers already held."""
    code = (
        f"import {first}\n" + INSTALL + "import sys\n"
        "assert not any(type(finder).__module__ == quick_imports.__name__ for finder in sys.meta_path)\n"
        "import torch\n"
        "from tokenizers import Tokenizer, models\n"
        "from transformers import PreTrainedTokenizerFast\n"
        "from sentence_transformers import SentenceTransformer\n"
        "from sentence_transformers.sentence_transformer.modules import Pooling, WordEmbeddings\n"
        "words = Tokenizer(models.WordLevel({'[UNK]': 0, 'a': 1}, unk_token='[UNK]'))\n"
        "tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token='[UNK]', unk_token='[UNK]')\n"
        "table = WordEmbeddings(tokenizer, torch.eye(2), max_seq_length=4)\n"
        f"SentenceTransformer(modules=[table, Pooling(2)]).save_pretrained({str(tmp_path / 'model')!r})\n"
        f"print(len(SentenceTransformer({str(tmp_path / 'model')!r})))"
    )
    assert run(code).splitlines()[-1] == "2"
