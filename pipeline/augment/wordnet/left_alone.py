"""Words for which nothing is substituted, beside scikit-learn's stop words."""

LIGHT = frozenset(
    """
take takes taking took taken give gives giving gave given come comes coming came put puts putting set
sets keep keeps keeping kept get gets getting got go goes going went gone make makes making made
""".split()
)
"""Verbs that mean little alone, but may begin a phrase ("take off")."""

FUNCTION_WORDS = LIGHT | frozenset(
    """
a an and are as at be been being did do does doing done had has have having is let lets like may might
must not of off ok okay shall should was were will would yes zero one two three four five six seven eight
nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty forty
fifty sixty seventy eighty ninety hundred hundreds thousand thousands million millions billion billions
trillion dozen dozens score half quarter first third fourth fifth sixth seventh eighth ninth tenth once
twice thrice double triple single mr mrs ms dr sir ain gonna wanna gotta till unless whether lot lots
else ever many much more most less least several such same other another people person thing things way
ways time times day days year years week weeks month months hour hours minute minutes second seconds
today tomorrow yesterday now then here there just even still also very too quite rather really so well
say says saying said tell tells telling told want wants wanted
dont doesnt didnt cant wont im ive youre theyre thats
""".split()
)
"""Auxiliaries, light verbs, numbers, units of time, and words of too many senses."""
