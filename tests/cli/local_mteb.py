"""Python files of tasks that read local data, and our names of their scores."""

STS = """
import json
from pathlib import Path

from datasets import Dataset, DatasetDict
from mteb import TaskMetadata
from mteb.abstasks.classification import AbsTaskClassification
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.sts import AbsTaskSTS
from sklearn.linear_model import LogisticRegression

DATA = json.loads(Path(__file__).with_name("data.json").read_text())


def about(kind, score):
    where = {"path": "local", "revision": "1"}
    return TaskMetadata(
        name=f"Local{kind}", type=kind, main_score=score, description="local", dataset=where,
        eval_splits=["test"], eval_langs=["eng-Latn"], category="t2t", modalities=["text"],
    )


class LocalSTS(AbsTaskSTS):
    metadata = about("STS", "cosine_spearman")
    min_score, max_score = 0, 5

    def load_data(self, *args, **kwargs):
        self.dataset = DatasetDict({"test": Dataset.from_dict(DATA["sts"])})
        self.data_loaded = True
"""
"""A file of the quickest task."""
TASKS = f"""{STS}

class LocalRetrieval(AbsTaskRetrieval):
    metadata = about("Retrieval", "ndcg_at_10")

    def load_data(self, *args, **kwargs):
        texts = {{part: Dataset.from_list(DATA[part]) for part in ("queries", "corpus")}}
        found = {{**texts, "relevant_docs": DATA["qrels"], "top_ranked": None}}
        self.dataset = {{"default": {{"test": found}}}}
        self.data_loaded = True


class LocalClassification(AbsTaskClassification):
    metadata = about("Classification", "f1")
    evaluator_model = LogisticRegression(C=DATA["inverse_penalty"], max_iter=1000)
    samples_per_label = 20

    def load_data(self, *args, **kwargs):
        self.dataset = DatasetDict({{part: Dataset.from_dict(DATA[part]) for part in ("train", "test")}})
        self.data_loaded = True
"""
TWO_LANGUAGES = f"""{STS}

class LocalTwo(AbsTaskSTS):
    metadata = about("STS", "cosine_spearman").model_copy(
        update={{"name": "LocalTwo", "eval_langs": {{"en": ["eng-Latn"], "de": ["deu-Latn"]}}}}
    )
    min_score, max_score = 0, 5

    def load_data(self, *args, **kwargs):
        half = {{name: column[:20] for name, column in DATA["sts"].items()}}
        rows = {{"en": DATA["sts"], "de": half}}
        sets = {{name: Dataset.from_dict(rows[name]) for name in self.hf_subsets}}
        self.dataset = {{name: DatasetDict({{"test": found}}) for name, found in sets.items()}}
        self.data_loaded = True


del LocalSTS
"""
"""One task of two subsets."""
SCORES = {"LocalSTS": "spearman", "LocalRetrieval": "ndcg@10", "LocalClassification": "f1"}
"""The tasks, and our names of their scores."""
