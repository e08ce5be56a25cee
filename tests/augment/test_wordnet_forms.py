import pytest
from small_wordnet import lexicon

from pipeline.augment.wordnet.words.forms import (
    BASE,
    COMPARATIVE,
    GERUND,
    PARTICIPLE,
    PAST,
    PLURAL,
    SINGULAR,
    SUPERLATIVE,
    THIRD,
)

VERBS = """
jump jumps jumped jumped jumping|leap leaps leapt leapt leaping|give gives gave given giving
undertake undertakes undertook undertaken undertaking|overcome overcomes overcame overcome overcoming
stop stops stopped stopped stopping|hope hopes hoped hoped hoping|try tries tried tried trying
play plays played played playing|die dies died died dying|agree agrees agreed agreed agreeing
panic panics panicked panicked panicking|put puts put put putting|read reads read read reading
show shows showed shown showing|sew sews sewed sewn sewing
understand understands understood understood understanding
permit permits permitted permitted permitting|visit visits visited visited visiting
fix fixes fixed fixed fixing
watch watches watched watched watching|win wins won won winning|quit quits quit quit quitting
mistake mistakes mistook mistaken mistaking|forbid forbids forbade forbidden forbidding
set_up sets_up set_up set_up setting_up
give_up gives_up gave_up given_up giving_up|fly flies flew flown flying
wring wrings wrung wrung wringing|string strings strung strung stringing
instil instils instilled instilled instilling|outbid outbids outbid outbid outbidding
singe singes singed singed singeing|tinge tinges tinged tinged tingeing
withdraw withdraws withdrew withdrawn withdrawing|cringe cringes cringed cringed cringing
"""
NOUNS = """
dog dogs|church churches|man men|woman women|human humans|leaf leaves|roof roofs|city cities|boy boys
photo photos
potato potatoes|analysis analyses|criterion criteria|stomach stomachs|quiz quizzes|child children|mouse mice
passerby passersby|runner-up runners-up|soliloquy soliloquies|colloquy colloquies|day days
adult_male adult_males|chief_of_state chiefs_of_state|genius geniuses|bus buses|monarch monarchs|foot feet
"""
ADJECTIVES = "big bigger biggest|large larger largest|happy happier happiest|good better best"


def table(text):
    return [
        tuple(word.replace("_", " ") for word in line.split())
        for part in text.strip().split("\n")
        for line in part.split("|")
    ]


@pytest.mark.parametrize(
    ("pos", "forms", "rows"),
    [
        ("v", (BASE, THIRD, PAST, PARTICIPLE, GERUND), table(VERBS)),
        ("n", (SINGULAR, PLURAL), table(NOUNS)),
        ("a", (SINGULAR, COMPARATIVE, SUPERLATIVE), table(ADJECTIVES)),
    ],
)
def test_forms_are_spelt_as_in_a_grammar(nltk_data, pos, forms, rows):
    made = [lexicon(nltk_data).readings.forms(pos, row[0]) for row in rows]
    written = [
        (row[0], *(found[form][0] for form in forms[1:])) for row, found in zip(rows, made, strict=True)
    ]
    assert written == rows


@pytest.mark.parametrize(
    ("pos", "lemma", "form"),
    [
        ("n", "information", PLURAL),
        ("n", "happiness", PLURAL),
        ("n", "clothes", SINGULAR),
        ("n", "people", SINGULAR),
        ("a", "beautiful", COMPARATIVE),
        ("a", "tired", COMPARATIVE),
    ],
)
def test_forms_that_do_not_exist_are_not_made(nltk_data, pos, lemma, form):
    assert not lexicon(nltk_data).readings.forms(pos, lemma).get(form)


def test_regular_forms_of_irregular_verbs_are_not_taken_for_theirs(nltk_data):
    assert "seed" not in lexicon(nltk_data).readings.forms("v", "see")[PAST]
    assert lexicon(nltk_data).readings.forms("v", "leap")[PAST] == ("leapt", "leaped")
