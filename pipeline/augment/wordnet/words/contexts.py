"""Which inflections may follow a function word: what stands in for a tagger."""

from pipeline.augment.wordnet.words.forms import (
    ADJECTIVAL,
    ALL,
    BASE,
    GERUND,
    MANNER,
    NOMINAL,
    PARTICIPLE,
    PAST,
    PLURAL,
    POSITIVE,
    SINGULAR,
    THIRD,
    VERBAL,
)

CONSONANT, VOWEL, INFINITIVE, LOOSE = (1 << bit for bit in range(16, 20))
"""Beside the inflections: how the substitute must begin; "to" was before; poorer substitutes will do."""
MARKS = CONSONANT | VOWEL
"""What holds whatever a tagger says."""

_NOUN_PHRASE = NOMINAL | ADJECTIVAL | MANNER | PARTICIPLE
_RULES = {
    "a": _NOUN_PHRASE & ~PLURAL | CONSONANT,
    "an": _NOUN_PHRASE & ~PLURAL | VOWEL,
    "every each another": _NOUN_PHRASE & ~PLURAL,
    "these those many several few": _NOUN_PHRASE & ~SINGULAR,
    "the my your his its our their whose": _NOUN_PHRASE,
    "some any no": _NOUN_PHRASE & ~PARTICIPLE,
    "to": BASE | NOMINAL | ADJECTIVAL | MANNER | INFINITIVE,
    "will would can could shall should may might must cannot do does did don't doesn't didn't won't wouldn't "
    "can't couldn't shouldn't let's i'll you'll he'll she'll it'll we'll they'll i'd you'd": BASE | MANNER,
    "he she": THIRD | PAST | MANNER,
    "i we they": BASE | PAST | MANNER,
    "who": THIRD | PAST | BASE | MANNER,
    "has had have having i've you've we've they've": NOMINAL | ADJECTIVAL | MANNER | PARTICIPLE,
    "is are was were be been being am i'm you're we're they're he's she's it's isn't aren't wasn't weren't "
    "that's there's": NOMINAL | ADJECTIVAL | MANNER | PARTICIPLE | GERUND,
    "of in on at by with from for into about between under over through during without against among "
    "after before": _NOUN_PHRASE | GERUND,
    "very too quite rather so extremely": POSITIVE | MANNER,
}
AFTER = {
    spelling: allowed
    for words, allowed in _RULES.items()
    for word in words.split()
    for cased in (word, word.capitalize(), word.upper())
    for spelling in (cased, cased.replace("'", "’"))
}
"""A word as it stands in a text -> what may follow."""

_FLAGS = CONSONANT | VOWEL | INFINITIVE | LOOSE
_FOLLOWED = {
    "the a an my your his our their him them me us himself herself itself themselves": ~NOMINAL,
    "is was has are were have will would can could should may might must": ~(VERBAL & ~PARTICIPLE),
}
BEFORE = {word: allowed | _FLAGS for words, allowed in _FOLLOWED.items() for word in words.split()}
"""A word as it stands in a text -> what may be before it."""

_PARTICLES = (
    "up off out down away back over along around apart forth aside about through together on at for to into "
    "like with of upon"
)
BEFORE |= {word + end: ~VERBAL for word in _PARTICLES.split() for end in ("", *".,;:!?")}
# They go with a verb before them, which alone would mean something else or take another word.

PENN = {
    "NN": SINGULAR,
    "NNS": PLURAL,
    "VB": BASE,
    "VBP": BASE,
    "VBZ": THIRD,
    "VBD": PAST,
    "VBN": PARTICIPLE | POSITIVE,
    "VBG": GERUND | SINGULAR,
    "JJ": POSITIVE,
    "JJR": ADJECTIVAL & ~POSITIVE,
    "JJS": ADJECTIVAL & ~POSITIVE,
    "RB": MANNER,
}
"""The Penn tags of words that may be substituted (other tags: none) -> their inflections."""

UNKNOWN = ALL
"""What may follow any other word."""
