"""The smallest complete params: a hashing teacher, a file of texts, one static student, one task."""

from typing import Any


def small_params(**blocks: dict[str, Any]) -> dict[str, Any]:
    """A params document, with these blocks in place of its own."""
    return {
        "teacher": {"kind": "hashing", "dim": 16},
        "corpus": {"sources": [{"kind": "files", "path": "texts.csv"}], "dev_fraction": 0.2},
        "augment": {"wordnet": {"enabled": False}, "back_translation": {}},
        "encode": {"views": ["sentence"]},
        "gate": {"wordnet": {}, "back_translation": None},
        "pca": {},
        "finetune": {"data": {}, "mine": None},
        "students": {
            "tiny": {
                "kind": "static",
                "view": "sentence",
                "dim": 8,
                "init": {},
                "loss": {"kind": "mse"},
                "train": {"texts": ["corpus"], "epochs": 1, "batch_size": 8, "lr": 0.1},
                "finetune": None,
            }
        },
        "classifiers": {},
        "evaluate": {"tasks": {"pairs": {"kind": "sts", "path": "pairs.tsv"}}},
        "significance": {},
        "footprint": {},
        "export": {},
        **blocks,
    }
