"""What the tasks of local_mteb.py read."""

import numpy as np
from project import WORDS, sentence
from small_students import teacher


def local_data():
    """What the tasks read."""
    random = np.random.default_rng(0)

    def some(count):
        """Texts of other lengths and words: those of the same words would tie."""
        return [" ".join(random.choice(WORDS, random.integers(5, 12))) for _ in range(count)]

    pairs = {"sentence1": some(40), "sentence2": some(40), "score": random.uniform(0, 5, 40).tolist()}
    documents = [{"id": f"d{n}", "title": "", "text": text} for n, text in enumerate(some(60))]
    queries = [
        {"id": f"q{n}", "text": f"{documents[4 * n]['text']} {text}"} for n, text in enumerate(some(12))
    ]
    qrels = {
        f"q{n}": {f"d{4 * n}": 1} | {f"d{int(d)}": 1 for d in random.integers(0, 60, 2)} for n in range(12)
    }
    classes = {"train": classified(40_000, 20), "test": classified(60_000, 30)}
    vectors = encoded(classes["train"]["text"])
    scale = float(np.square(vectors - vectors.mean(axis=0)).mean()) ** 0.5
    return {
        "sts": pairs,
        "corpus": documents,
        "queries": queries,
        "qrels": qrels,
        **classes,
        # Ours divides the vectors by their deviation, which makes a penalty of 1 this one.
        "inverse_penalty": 1 / scale**2,
    }


def classified(start, each):
    """So many texts that begin with `red`, with `green` and with neither."""
    texts = [sentence(start + number) for number in range(2000)]
    labels = [{"red": 0, "green": 1}.get(text.split()[0], 2) for text in texts]
    chosen = [n for label in range(3) for n in [n for n in range(2000) if labels[n] == label][:each]]
    return {"text": [texts[n] for n in chosen], "label": [labels[n] for n in chosen]}


def encoded(texts):
    return teacher().encode(texts, ["sentence"])["sentence"]
