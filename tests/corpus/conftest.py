"""WordNet, opened once for all tests of the corpus."""

import pytest

from pipeline.corpus.wordnet import families
from pipeline.corpus.wordnet_files import open_wordnet


@pytest.fixture(scope="session")
def reader(nltk_data):
    return open_wordnet(nltk_data)


@pytest.fixture(scope="session")
def grouped(reader):
    return families(reader)
