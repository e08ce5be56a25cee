"""English inflection: the forms of a lemma, and which words they are forms of.

Irregular forms come from WordNet's own exception lists. Those lists do not tell a past tense from a
participle, so the verbs in which the two differ are named here; spelling follows the usual rules.
"""

import re
from collections.abc import Iterable, Mapping

from pipeline.augment.wordnet.words.senses import ADJECTIVE, ADVERB, VERB

SINGULAR, PLURAL = 1 << 0, 1 << 1
BASE, THIRD, PAST, PARTICIPLE, GERUND = (1 << bit for bit in range(2, 7))
POSITIVE, COMPARATIVE, SUPERLATIVE, MANNER = (1 << bit for bit in range(7, 11))
NOMINAL = SINGULAR | PLURAL
VERBAL = BASE | THIRD | PAST | PARTICIPLE | GERUND
ADJECTIVAL = POSITIVE | COMPARATIVE | SUPERLATIVE
ALL = NOMINAL | VERBAL | ADJECTIVAL | MANNER

Forms = dict[int, tuple[str, ...]]
"""Inflection -> its spellings, the one to write first; none where it cannot be told."""

_PRINCIPAL_PARTS = """
arise arose arisen|awake awoke awoken|bear bore borne|beat beat beaten|become became become|begin began begun
bid bid bid|bite bit bitten|blow blew blown|break broke broken|choose chose chosen|come came come|do did done
draw drew drawn|drink drank drunk|drive drove driven|eat ate eaten|fall fell fallen|fly flew flown
forbid forbade forbidden|forget forgot forgotten|forsake forsook forsaken|freeze froze frozen|get got got
give gave given|go went gone|grow grew grown|hide hid hidden|know knew known|lie lay lain|ride rode ridden
ring rang rung|rise rose risen|run ran run|see saw seen|shake shook shaken|shine shone shone
shrink shrank shrunk|sing sang sung|sink sank sunk|slay slew slain|slide slid slid|smite smote smitten
speak spoke spoken|spin spun spun|spring sprang sprung|steal stole stolen|stink stank stunk
stride strode stridden|strike struck struck|strive strove striven|swear swore sworn|swim swam swum
take took taken|tear tore torn
throw threw thrown|tread trod trodden|wake woke woken|wear wore worn|weave wove woven|win won won
write wrote written|beget begot begotten|spit spat spat|cleave cleaved cleaved|thrive thrived thrived
dive dived dived|heave heaved heaved|sneak sneaked sneaked|chide chided chided|swell swelled swollen
shave shaved shaved|prove proved proved|melt melted melted|gnaw gnawed gnawed|grave graved graved
"""
_PARTS = {
    base: (past, participle)
    for base, past, participle in (verb.split() for verb in re.split(r"[|\n]", _PRINCIPAL_PARTS.strip()))
}
_UNCHANGED = frozenset(
    "beset bet broadcast burst bust cast cost cut fit forecast hit hurt inset knit let miscast offset "
    "outbid overbid overcast preset put quit read recast reread reset rid set shed shut slit split spread "
    "sublet sweat telecast thrust underbid undercut upset wed wet".split()
)
"""Verbs whose past tense is, or may be, spelt as the base form."""
_ALSO_REGULAR = frozenset("broadcast fit forecast kneel knit leap light sweat wed wet".split())
"""Verbs of which the irregular form is written, and the regular one known."""
_DOUBLED = frozenset("distil enrol fulfil instil".split())
"""Verbs of several syllables that double their last letter, and that WordNet's list may lack."""
_INGE = frozenset("binge singe swinge tinge".split())
"""Verbs that keep their e before -ing, for there are others without it."""
_REGULAR_FIRST = frozenset(
    "address bless burn bypass clothe coordinate curse dream geld gild gird grip ken lean learn misspell "
    "overflow overpass pen shoe smell spell spill spoil stave transfix work".split()
)
_USUAL_LATIN = frozenset(
    "alga alumnus antenna bacterium corpus criterion curriculum datum erratum fungus genus larva locus "
    "medium nucleus ovum phenomenon radius spectrum stimulus stratum vertebra".split()
)
"""Nouns whose foreign plural is the one to write."""
_MASS = frozenset(
    "advice aid air apparel applause art attire baggage clothing cash content courage damage employment "
    "energy equipment evidence feedback fun furniture garbage gear hardware harm health help homework "
    "housework information jewelry junk knowledge laughter leisure luck luggage machinery mail "
    "merchandise money music news nonsense pay permission pollution poultry progress research rubbish "
    "scenery shopping software stuff traffic transportation travel trash violence warfare water wealth "
    "weather weaponry weekly work people police cattle folk kinfolk mankind humankind manpower "
    "personnel staff youth sheep deer fish series species aircraft spacecraft offspring".split()
)
"""Nouns without a plural of their own, or that are plurals."""
_PLURAL = frozenset(
    "people police cattle folk kinfolk personnel staff youth offspring sheep deer fish series species".split()
)
"""Those of them that may be plurals."""
_SINGULAR_S = frozenset("alias atlas bias bus canvas chaos christmas gas lens pancreas".split())
_OES = frozenset(
    "cargo domino echo embargo hero mango mosquito motto potato tomato tornado torpedo veto volcano".split()
)
_AGENTS = {
    "passerby": "passersby",
    "passer-by": "passers-by",
    "runner-up": "runners-up",
    "runner up": "runners up",
    "hanger-on": "hangers-on",
    "hanger on": "hangers on",
    "looker-on": "lookers-on",
}
"""Nouns whose first part has the plural."""
_HARD_CH = frozenset("epoch eunuch loch monarch matriarch patriarch oligarch stomach tech triptych".split())
_NOT_MEN = ("human", "shaman", "talisman", "caiman", "german", "roman", "ottoman", "norman")
_NESS = frozenset("business harness illness kindness likeness sickness weakness wilderness witness".split())
_NO_COMPARATIVE = frozenset("dead due just like live own real right whole wrong".split())
_PREPOSITIONS = frozenset("of in on at to for by with from over under about without and de".split())


def inflect(lemma: str, pos: str, exceptions: Mapping[str, tuple[str, ...]]) -> Forms:
    """All forms of a lemma, which may be of several words.

    Args:
        lemma: in lower case, words between spaces.
        pos: n, v, a or r.
        exceptions: this part of speech's lemmas -> irregular forms.
    """
    if pos == ADVERB:
        return {MANNER: (lemma,)}
    if pos == VERB:
        head, space, rest = lemma.partition(" ")
        return {form: _each(spelt, "", space + rest) for form, spelt in _verb(head, exceptions).items()}
    if pos == ADJECTIVE:
        return _adjective(lemma, exceptions)
    if lemma in _AGENTS:
        return {SINGULAR: (lemma,), PLURAL: (_AGENTS[lemma],)}
    words = lemma.split(" ")
    of = next((at for at, word in enumerate(words) if at and word in _PREPOSITIONS), len(words))
    before, after = " ".join(words[: of - 1]), " ".join(words[of:])
    forms = _noun(words[of - 1], exceptions)
    return {
        form: _each(spelt, before + " " * bool(before), " " * bool(after) + after)
        for form, spelt in forms.items()
    }


def _each(spellings: Iterable[str], before: str, after: str) -> tuple[str, ...]:
    return tuple(before + spelling + after for spelling in spellings)


def _verb(lemma: str, exceptions: Mapping[str, tuple[str, ...]]) -> Forms:
    listed = [form for form in exceptions.get(lemma, ()) if form.isalpha()]
    gerunds = [form for form in listed if form.endswith("ing")]
    thirds = [form for form in listed if form.endswith("s")]
    doubled = [form for form in listed if form.endswith("ed")]
    irregular = [form for form in listed if form not in {*gerunds, *thirds, *doubled}]
    regular = doubled or [lemma + "d" if lemma.endswith("e") else _stem(lemma) + "ed"]
    if lemma in _INGE:
        gerunds = [lemma + "ing"]
    if lemma.endswith("e") and not lemma.endswith(("ee", "oe", "ye")):
        ing = lemma[:-2] + "ying" if lemma.endswith("ie") else lemma[:-1] + "ing"
    else:
        ing = _stem(lemma, y="y") + "ing"
    past, participle = _past(lemma, irregular, regular)
    return {
        BASE: (lemma,),
        THIRD: tuple(thirds or [_with_s(lemma)]),
        PAST: tuple(past),
        PARTICIPLE: tuple(participle),
        GERUND: tuple(gerunds or [ing]),
    }


def _past(lemma: str, irregular: list[str], regular: list[str]) -> tuple[list[str], list[str]]:
    if lemma in _UNCHANGED:
        both = [lemma, *(regular if lemma in _ALSO_REGULAR else ())]
        return both, both
    for length in range(len(lemma), 1, -1):  # "mistake" as "take", if the list has "mistook"
        prefix, base = lemma[:-length], lemma[-length:]
        if base not in _PARTS:
            continue
        past, participle = (prefix + part for part in _PARTS[base])
        if not prefix or past in irregular:
            return [past], [participle]
    if len(irregular) > 1:
        return [], []
    if not irregular:
        return regular, regular
    if irregular[0].endswith("n"):  # "shown", "sewn"
        return regular, [irregular[0], *regular]
    if lemma in _REGULAR_FIRST:
        return [*regular, *irregular], [*regular, *irregular]
    both = [*irregular, *(regular if lemma in _ALSO_REGULAR else ())]
    return both, both


def _noun(lemma: str, exceptions: Mapping[str, tuple[str, ...]]) -> Forms:
    if lemma in _MASS:
        return {SINGULAR: (lemma,)} if lemma not in _PLURAL else {}
    if lemma.endswith("s") and not lemma.endswith(("ss", "us", "is")) and lemma not in _SINGULAR_S:
        return {}  # "clothes", "news": neither singular nor plural for certain
    listed = [form for form in exceptions.get(lemma, ()) if form.isalpha()]
    usual = [
        form
        for form in listed
        if form.endswith(("s", "men", "ice", "eese", "eeth", "feet", "children", "oxen"))
        or lemma in _USUAL_LATIN
    ]
    men = lemma.endswith("man") and not lemma.endswith(_NOT_MEN)
    plurals = usual or [lemma[:-2] + "en" if men else _with_s(lemma)]
    if lemma in _SINGULAR_S:
        plurals = [lemma + "es"]
    if lemma.endswith("ness") and lemma not in _NESS:
        plurals = []
    return {SINGULAR: (lemma,), PLURAL: tuple(dict.fromkeys([*plurals, *listed]))}


def _adjective(lemma: str, exceptions: Mapping[str, tuple[str, ...]]) -> Forms:
    listed = exceptions.get(lemma, ())
    more = tuple(form for form in listed if form.endswith("r") or form in {"worse", "less"})
    most = tuple(form for form in listed if form.endswith("st"))
    syllables = len(re.findall(r"[aeiouy]+", lemma.removesuffix("e")))
    if (
        syllables == 1
        and lemma.isalpha()
        and not lemma.endswith(("ed", "ing"))
        and lemma not in _NO_COMPARATIVE
    ):
        stem = lemma[:-1] if lemma.endswith("e") else _stem(lemma)
        more, most = more or (stem + "er",), most or (stem + "est",)
    return {POSITIVE: (lemma,), COMPARATIVE: more, SUPERLATIVE: most}


def _stem(lemma: str, y: str = "i") -> str:
    """A lemma before -ed, -er, -est and, with `y="y"`, -ing: "tri", "stopp", "panick"."""
    if re.search(r"[^aeiou]y$", lemma):
        return lemma[:-1] + y
    short = re.fullmatch(r"(?:[^aeiou]*|qu)[aeiou][bdfgklmnprtz]|[^aeiou]+y[mnp]", lemma)
    if short or lemma in _DOUBLED:
        return lemma + lemma[-1]
    return lemma + "k" if lemma.endswith("ic") else lemma


def _with_s(lemma: str) -> str:
    """A regular plural or third person."""
    if re.search(r"([^aeiou]|qu)y$", lemma):
        return lemma[:-1] + "ies"
    if re.search(r"[^aeiou][aeiou]z$", lemma):
        return lemma + "zes"
    sibilant = lemma.endswith(("s", "x", "z", "ch", "sh")) and lemma not in _HARD_CH
    if sibilant or lemma in _OES or lemma in {"go", "do", "undergo", "forgo", "outdo", "undo", "redo"}:
        return lemma + "es"
    return lemma + "s"
