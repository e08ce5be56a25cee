"""Function words by class, so that each is replaced by a word of its own class."""

_CLASSES = {
    "article or demonstrative": "a an the this that these those",
    "quantifier": "all another any both each either enough every few half many much neither no several some "
    "such",
    "possessive": "my your his her its our their whose",
    "subject pronoun": "i you he she it we they one",
    "object pronoun": "me him us them",
    "reflexive pronoun": "myself yourself himself herself itself ourselves yourselves themselves oneself",
    "indefinite pronoun": "anybody anyone anything everybody everyone everything nobody none nothing "
    "somebody someone something",
    "question word": "who whom what which when where why how whatever whichever whoever whenever wherever",
    "preposition": "about above across after against along alongside amid among around as at before behind "
    "below beneath beside besides between beyond by despite during except for from in inside into like near "
    "of on onto opposite outside over past per since than through throughout till to toward towards under "
    "underneath until unlike up upon via with within without",
    "particle": "apart aside away back down forth off out together",
    "conjunction": "and but nor or plus yet",
    "subordinating conjunction": "although because if lest once so though unless whereas whether while",
    "modal verb": "can could may might must shall should will would ca wo cannot",
    "form of be": "am are be been being is was were",
    "auxiliary verb": "did do does doing done had has have having",
    "negated verb": "ain't aren't can't couldn't daren't didn't doesn't don't hadn't hasn't haven't isn't "
    "mightn't mustn't needn't oughtn't shan't shouldn't wasn't weren't won't wouldn't",
    "pronoun and form of be": "i'm you're he's she's it's we're they're",
    "pronoun and have": "i've you've we've they've",
    "pronoun and will": "i'll you'll he'll she'll it'll we'll they'll",
    "pronoun and would": "i'd you'd he'd she'd it'd we'd they'd",
    "demonstrative and is": "that's there's here's",
    "question word and is": "what's who's where's when's why's how's",
    "let us": "let's",
    "negation": "never not n't",
    "clitic": "'d 'll 'm 're 's 've",
    "adverb of degree": "almost even just less least more most nearly only quite rather too very",
    "adverb of place or time": "again always ever here now often sometimes soon then there",
    "number": "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred "
    "thousand million billion",
    "interjection": "ah hello hey hi no oh ok okay ouch please thanks wow yeah yes",
}

CLASS_OF: dict[str, str] = {}
"""A word in lower case, with straight apostrophes -> its class, the first that has it."""
for _name, _words in _CLASSES.items():
    for _word in _words.split():
        CLASS_OF.setdefault(_word, _name)
