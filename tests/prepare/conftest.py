"""WordNet, opened once for all tests of the corpus."""

import pytest

from pipeline.prepare.wordnet.families import families
from pipeline.prepare.wordnet.files import open_wordnet


@pytest.fixture(scope="session")
def reader(nltk_data):
    return open_wordnet(nltk_data)


@pytest.fixture(scope="session")
def grouped(reader):
    return families(reader)
