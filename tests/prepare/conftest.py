"""WordNet, opened once for all tests of the corpus."""

import pytest

from pipeline.prepare.shared.wordnet_files import open_wordnet
from pipeline.prepare.wordnet.families import families


@pytest.fixture(scope="session")
def reader(nltk_data):
    return open_wordnet(nltk_data)


@pytest.fixture(scope="session")
def grouped(reader):
    return families(reader)
