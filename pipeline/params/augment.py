"""`augment:`: new texts made from the corpus, and from the training rows of labelled tasks."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pipeline.params.base import Block, Count, Fraction, Name, Positive, Seed
from pipeline.params.gates import TextGates


class WordNetAugment(Block):
    """Synonym substitution from WordNet (HPD sec. 4.3)."""

    enabled: bool = True
    """false leaves an empty artifact."""
    engine: Literal["own", "nlpaug"] = "own"
    """own: by part of speech and sense, inflected; nlpaug: its SynonymAug, any sense, base forms."""
    variants: Count = 1
    """New texts for every corpus text, at most."""
    rate: Annotated[float, Field(gt=0.0, le=1.0)] = 0.2
    """Share of a text's words that is replaced; to replace none, set `enabled: false`."""
    tagger: Literal["auto", "nltk", "counts"] = "auto"
    """Engine own: what tells parts of speech. nltk: its averaged_perceptron_tagger_eng, some 20 times slower;
    counts: how often WordNet has a word as what, and the words beside it; auto: nltk where its data is in
    data/raw/nltk_data."""
    context: Annotated[float, Field(ge=-1.0, le=1.0)] | None = None
    """Engine own: leave out substitutes whose teacher token vectors have a lower cosine with the mean of the
    text's other words; null: no check."""
    language: Literal["en"] | None = "en"
    """en: texts that are code, in another language, or not surely English are left alone and counted, for
    WordNet's words are English; null: texts of any language are taken."""
    limit: Count | None = None
    """Augment this many corpus texts, the first by text id; null: all."""
    seed: Seed = 0
    """Seed of the choice of words and synonyms, which depends on nothing else but the text."""
    gates: TextGates = TextGates()
    """Which of the new texts are kept."""

    @property
    def reads_vocabulary(self) -> bool:
        """Whether the teacher's vocabulary vectors are needed."""
        return self.enabled and self.context is not None

    @model_validator(mode="after")
    def _options_are_of_the_engine(self) -> Self:
        if self.engine == "nlpaug" and (self.tagger != "auto" or self.context is not None):
            raise ValueError("tagger and context are options of engine own; nlpaug takes neither")
        return self


class TranslationStep(Block):
    """A translation model and the languages it goes between."""

    model: Annotated[str, Field(min_length=1)]
    """Marian (opus-mt), FSMT (wmt19), M2M-100 or NLLB: a folder, `package:NAME/PATH` or a hub id."""
    revision: str | None = None
    """Commit, branch or tag of a hub model. Weights have to be .safetensors; where the main branch has none,
    a pull request may: refs/pr/NUMBER."""
    source_language: str | None = None
    """As the model writes it: M2M-100 (`en`) and NLLB (`eng_Latn`) need it; null: as the model says."""
    target_language: str | None = None
    """Likewise; a Marian model of several target languages needs it too, as in its `>>fra<<`."""


class BeamSearch(Block):
    """The most probable translation that a beam search finds: the same in every run."""

    kind: Literal["beam"]
    size: Count = 4
    """Hypotheses that are followed; 1 takes the most probable token each time."""


class Sampling(Block):
    """A translation drawn at random: more novel and less faithful than a beam search's."""

    kind: Literal["sampling"]
    top_k: Count = 10
    """Tokens to draw from each time, the most probable ones."""
    temperature: Positive = 1.0
    """Divides the logits: below 1, probable tokens become more probable still."""
    seed: Seed = 0
    """Seed of the draws, which also depend on the texts that are translated together."""


Pivot = Annotated[tuple[TranslationStep, ...], Field(min_length=2, strict=False)]


class BackTranslationAugment(Block):
    """Translation into other languages and back (Sennrich et al. 2016; nlpaug's BackTranslationAug)."""

    enabled: bool = False
    """false leaves an empty artifact, and needs neither models nor packages."""
    limit: Count | None = None
    """Augment this many corpus texts, the first by text id; null: all."""
    language: Annotated[str, Field(min_length=2)] = "en"
    """The corpus's, in which every pivot begins and ends."""
    pivots: Annotated[tuple[Pivot, ...], Field(strict=False)] = ()
    """Chains of models, each of which gives one variant of a text: [into German, back into English], or
    [into German, from there into French, back into English]."""
    engine: Literal["ctranslate2", "transformers", "nlpaug"] = "ctranslate2"
    """Who translates. `ctranslate2` (`pip install -e '.[back_translation]'`) is fastest and takes no FSMT;
    `transformers` takes all; `nlpaug` is its BackTranslationAug, for pivots of two models."""
    compute_type: Literal["float32", "float16", "bfloat16", "int8"] = "float32"
    """Of ctranslate2's products. float16 and bfloat16 need a GPU that has them."""
    decoding: Annotated[BeamSearch | Sampling, Field(discriminator="kind")] = BeamSearch(kind="beam")
    """How a translation is chosen."""
    max_length: Annotated[int, Field(ge=3)] = 256
    """Tokens of a text, special tokens included; longer texts are cut, and so are longer translations."""
    tokens_per_batch: Count = 4096
    """Padded tokens that go through a model at a time: speed alone, but for what sampling draws."""
    chunk_texts: Count = 512
    """Texts that are kept together once all are translated, the most that a kill costs."""
    gates: TextGates = TextGates()
    """Which of the new texts are kept."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        faults = []
        if self.enabled and not self.pivots:
            faults.append("augment.back_translation.pivots is empty; name the models, or set enabled: false")
        if self.compute_type != "float32" and self.engine != "ctranslate2":
            faults.append(
                f"augment.back_translation.compute_type is {self.compute_type!r}, which engine "
                f"{self.engine} has not; set it to float32, or the engine to ctranslate2"
            )
        for index, pivot in enumerate(self.pivots):
            key = f"augment.back_translation.pivots.{index}"
            if self.engine == "nlpaug" and len(pivot) > 2:
                faults.append(f"{key} has {len(pivot)} models, nlpaug takes 2; set engine to transformers")
            if pivot in self.pivots[:index] and self.decoding.kind == "beam":
                faults.append(f"{key} repeats an earlier one; only decoding.kind sampling gives another text")
        if faults:
            raise ValueError("\n".join(faults))
        return self


class TransferSet(Block):
    """Rows without labels, made of labelled tasks' training rows (Tang et al. 2019, sec. 3.3; SRA's TS).

    Each word becomes a mask with probability `mask`, or another word of its part of speech with probability
    `replace`. Then, with probability `ngram`, only a part of the text is kept.
    """

    tasks: Annotated[tuple[Name, ...], Field(min_length=1, strict=False)]
    """Names under evaluate.tasks, of tasks with labels."""
    mask: Fraction = 0.1
    """Share of the words that become the mask token of the teacher's tokenizer."""
    replace: Fraction = 0.1
    """Share of the words that become another word of the same part of speech, drawn as often as the task's
    training texts have it."""
    ngram: Fraction = 0.25
    """Share of the new texts of which only neighbouring words are kept, 1 to `longest` of them."""
    longest: Count = 5
    """Words that are kept then, at most; each number is as likely."""
    rounds: Count = 20
    """New rows for each training row, before what is not new is dropped. The papers: 20; QQP and MNLI: 10."""
    limit: Count = 800_000
    """New rows of a task, at most. No row has its next round before all rows have had this one."""
    seed: Seed = 0
    """Seed of all draws, which depend on nothing else but the row and the round."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        faults = []
        if self.mask + self.replace > 1:
            faults.append(
                f"mask {self.mask:g} and replace {self.replace:g} are together more than 1; lower one"
            )
        if twice := [name for name in self.tasks if self.tasks.count(name) > 1]:
            faults.append(f"tasks names {twice[0]!r} twice; remove one")
        if faults:
            raise ValueError("\n".join(faults))
        return self


Method = WordNetAugment | BackTranslationAugment


class Augment(Block):
    """One block for each method, which writes data/augmented/METHOD.parquet, and `transfer`."""

    wordnet: WordNetAugment
    back_translation: BackTranslationAugment
    transfer: TransferSet | None = None
    """null: no rows are made of labelled tasks."""

    @property
    def methods(self) -> dict[str, Method]:
        """The methods that make texts from the corpus, enabled or not."""
        return {"wordnet": self.wordnet, "back_translation": self.back_translation}

    @property
    def enabled(self) -> set[str]:
        """The methods that make texts."""
        return {name for name, method in self.methods.items() if method.enabled}
