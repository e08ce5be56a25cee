from itertools import pairwise

import numpy as np
import pytest
from refusals import refuses
from small_wordnet import lexicon

from pipeline.augment.wordnet.lexicon import Choices
from pipeline.augment.wordnet.rewrite import Rewriter
from pipeline.augment.wordnet.teacher import teacher_context
from pipeline.data.teacher_parts import read_tokenizer, read_vocabulary

PIECES = ["They", "bought", "(large", "cars)", "yesterday."]
CHOICES = Choices({"automobiles": 5, "machines": 3, "wagons": 1})


def cosines(parts):
    """Of every choice with the mean of "They", "bought", "large" and "yesterday", in float64."""
    tokenizer, table = read_tokenizer(parts), read_vocabulary(parts).astype(np.float64)

    def vector(word):
        rows = table[tokenizer.encode(word, add_special_tokens=False).ids]
        mean = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).mean(axis=0)
        return mean / np.linalg.norm(mean)

    context = np.mean([vector(word) for word in ("They", "bought", "large", "yesterday")], axis=0)
    return {word: vector(word) @ context / np.linalg.norm(context) for word in CHOICES.spellings}


@pytest.mark.parametrize("kept", [0, 1, 2, 3])
def test_substitutes_far_from_the_context_are_left_out(parts, kept):
    near = cosines(parts)
    ranked = sorted(near, key=near.get, reverse=True)
    bounds = [1.0, *((near[a] + near[b]) / 2 for a, b in pairwise(ranked)), -1.0]
    found = teacher_context(parts, bounds[kept])(CHOICES, PIECES, range(3, 4))
    assert set(found.spellings if found else ()) == set(ranked[:kept])
    weights = dict(zip(CHOICES.spellings, CHOICES.weights, strict=True))
    assert not found or list(found.weights) == [weights[word] for word in found.spellings]


def test_a_text_of_one_word_has_no_context(parts):
    assert teacher_context(parts, 1.0)(CHOICES, ["cars", "a"], range(1)) is CHOICES


def test_the_check_is_part_of_substitution(nltk_data, parts):
    text = "They bought large cars yesterday"
    assert Rewriter(lexicon(nltk_data), 0.5, fits=teacher_context(parts, 1.0)).rewrite(text, 3) == text
    free = Rewriter(lexicon(nltk_data), 0.5).rewrite(text, 3)
    assert (
        Rewriter(lexicon(nltk_data), 0.5, fits=teacher_context(parts, -1.0)).rewrite(text, 3) == free != text
    )


def test_without_the_teachers_parts_the_check_says_so(tmp_path):
    with refuses(tmp_path, "`dvc repro -f teacher_parts`"):
        teacher_context(tmp_path, 0.0)
