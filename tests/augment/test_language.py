"""Texts in other languages than English are left alone; English ones are not."""

from functools import cache

import polars as pl
import pytest
from small_wordnet import frame, lexicon, variants

from pipeline.augment.method.interface import Resources
from pipeline.augment.wordnet.augmenter import augment
from pipeline.augment.wordnet.language import CODE, OTHER, UNSURE, Language
from pipeline.params.augment import WordNetAugment
from pipeline.prepare.shared.wordnet_files import open_wordnet
from pipeline.prepare.wordnet.families import corpus_texts, families

FOREIGN = """
German: Der Hund lief schnell über die Straße. / Ein Mann spielt Gitarre auf der Bühne. / Kinder lernen lesen
German: Das Kind war krank und der Arzt kam / Die Regierung hat gestern ein neues Gesetz beschlossen.
French: Le chat dort sur le canapé. / Une femme coupe des légumes dans la cuisine.
French: Le train part à huit heures.
Spanish: El perro corre por la playa. / Una mujer canta en el escenario. / La casa es grande y blanca
Dutch: De hond rent over het strand. / Een man speelt gitaar op straat.
Dutch: Het water is te warm om in te zwemmen.
Italian: Il cane corre sulla spiaggia. / Una donna legge un libro al parco. / La macchina rossa è molto veloce
Swedish: Hunden springer på stranden. / En man spelar gitarr på scenen. / Jag vill gärna ha en kopp kaffe.
Danish: Hunden løber på stranden. / En mand spiller guitar på gaden. / Han har en god ven og et stort hus.
Norwegian: Hunden løper på stranden. / En mann spiller gitar på gata. / Barna lærer å lese på skolen
Portuguese: O cachorro corre na praia. / Uma mulher canta no palco. / Os meninos jogam bola na rua.
Polish: Pies biegnie po plaży. / Dzieci ucza sie czytac w szkole / Mam dom i dobry samochod.
Turkish: Köpek sahilde koşuyor. / Bir kadin parkta kitap okuyor / Ben her sabah erken kalkarim.
Indonesian: Anjing itu berlari di pantai. / Seorang pria bermain gitar di jalan.
Indonesian: Harga beras naik bulan lalu.
Romanian: Câinele aleargă pe plajă. / O femeie citește o carte în parc.
Czech: Pes běží po pláži. / Žena čte knihu v parku.
Finnish: Koira juoksee rannalla. / Nainen lukee kirjaa puistossa.
Hungarian: A kutya fut a parton. / Egy nő könyvet olvas a parkban.
Catalan: El gos corre per la platja. / Una dona llegeix un llibre al parc.
Croatian: Pas trči po plaži. / Žena čita knjigu u parku.
Afrikaans: Die hond hardloop op die strand. / Die kind lees sy boek in die park.
Vietnamese: Con chó chạy trên bãi biển.
Estonian: Koer jookseb rannas.
Swahili: Mbwa anakimbia ufukweni.
Latin: Canis in litore currit et ludit.
Basque: Txakurra hondartzan dabil korrika.
Icelandic: Hundurinn hleypur á ströndinni.
Russian: Собака бежит по пляжу.
Greek: Ο σκύλος τρέχει στην παραλία.
Chinese: 狗在海滩上奔跑。
Arabic: الكلب يجري على الشاطئ.
"""
TEXTS = [
    pytest.param(text, id=f"{name}-{text}")
    for line in FOREIGN.strip().splitlines()
    for name, _, texts in [line.partition(": ")]
    for text in texts.split(" / ")
]
ENGLISH = [
    "The dog ran quickly across the street.",
    "children learn to read",
    "kinky sex",
    "codling moths",
    "He isn't here, and I can't wait; they're late.",
    "HE ISN’T HERE AND SHE CAN’T WAIT",
    "Schwarzenegger met Kowalczyk and Nguyen in the large garden",
    "Hunting jaçanas is forbidden in this country.",
    "Bring your own item(s), if any; we sell none.",
    "C'est la vie, she said, and laughed at all of us.",
    "42",
    "",
]


@cache
def language(nltk_data):
    return Language(lexicon(nltk_data).knows)


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_in_another_language_is_left_alone(nltk_data, text):
    assert language(nltk_data).doubt(text) in (OTHER, UNSURE)


@pytest.mark.parametrize("text", ENGLISH)
def test_an_english_text_is_not(nltk_data, text):
    assert language(nltk_data).doubt(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "The meeting is at three, aber ich komme später.",
        "The cat schläft auf dem Sofa und träumt.",
        "He said: je ne sais pas ce que je fais ici.",
        "She wrote to her brother y luego cerró la puerta de la casa.",
    ],
)
def test_a_text_half_in_another_language_is_left_alone(nltk_data, text):
    assert language(nltk_data).doubt(text) in (OTHER, UNSURE)


@pytest.mark.parametrize(
    "text",
    [
        "for i in range(len(rows)): total += rows[i]",
        "public static void main(String[] args) {",
        "SELECT name, age FROM users WHERE age > 21;",
        "if (x == null) return foo.bar(y);",
        'git commit -m "fix build" && git push origin main',
        "the_next_row = first_row",
    ],
)
def test_a_line_of_code_is_left_alone(nltk_data, text):
    assert language(nltk_data).doubt(text) == CODE


@pytest.mark.parametrize(
    "text",
    [
        "Anna Schmidt, Jean Dupont, Marco Rossi",
        "Paris, Berlin, Madrid, Warsaw",
        "Smith, Jones, Miller and Brown",
        "Kyoto Osaka Nagoya Sapporo",
    ],
)
def test_names_stay_whether_or_not_they_are_taken_for_english(nltk_data, text):
    assert language(nltk_data).doubt(text) in (None, OTHER, UNSURE)
    assert variants(nltk_data, text, rate=1.0) == {text}


def test_wordnets_own_texts_are_english(nltk_data):
    texts = corpus_texts(families(open_wordnet(nltk_data)))[::50]
    assert len(texts) > 3000
    doubted = [text for text in texts if language(nltk_data).doubt(text)]
    assert len(doubted) < 0.005 * len(texts), doubted


def test_a_text_is_judged_by_itself(nltk_data):
    texts = [param.values[0] for param in TEXTS] + ENGLISH
    fresh = Language(lexicon(nltk_data).knows)
    once = [fresh.doubt(text) for text in texts]
    again = [language(nltk_data).doubt(text) for text in reversed(texts)]
    assert once == again[::-1]


@pytest.mark.parametrize("engine", ["own", "nlpaug"])
def test_what_is_left_alone_is_counted_by_reason_and_nothing_is_made_of_it(nltk_data, tmp_path, engine):
    texts = frame(
        [
            "The children began to laugh loudly.",
            "Die Regierung hat gestern ein neues Gesetz beschlossen.",
            "return foo.bar(y);",
            "She bought a large car.",
            "Una mujer canta en el escenario.",
        ]
    )
    resources = Resources(nltk_data, tmp_path, tmp_path, "cpu")
    made = augment(texts, WordNetAugment(engine=engine, variants=2), resources)
    english = [texts["text_id"][at] for at in (0, 0, 3, 3)]
    assert made.rows["parent_id"].to_list() == english
    assert made.left_alone == {OTHER: 2, CODE: 1}
    whole = augment(texts, WordNetAugment(engine=engine, variants=2, language=None), resources)
    assert len(whole.rows) == 10
    assert whole.left_alone == {}
    assert whole.rows.filter(pl.col("parent_id").is_in(english)).equals(made.rows)
