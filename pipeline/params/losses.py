"""`students.NAME.loss`: what brings a student's vectors to the teacher's."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import override

from pipeline.params.base import Block, Count, Fraction, NonNegative, Positive

Variant = Literal["fixed", "paper", "code"]
"""Where a paper and its released code differ: what makes sense of both, the paper's reading, the code's."""
Compared = Literal["vectors", "directions", "distributions"]


class LossBlock(Block):
    """The block of a loss, with what the stages ask of it before they build it."""

    @property
    def compares(self) -> Compared | None:
        """What of a student's vector the loss compares with the target, dimension by dimension.

        `vectors` teaches it the target's length, `directions` its direction alone; neither holds for
        `distributions`. None: nothing, so that the two may have different dimensions.
        """
        return None


class MseLoss(LossBlock):
    """Mean squared distance to the target (HPD eq. 2)."""

    kind: Literal["mse"]
    variant: Variant = "fixed"
    """`fixed` and `paper` sum over the dimensions, the released `code` averages over them."""

    @property
    @override
    def compares(self) -> Compared | None:
        return "vectors"


class CosineLoss(LossBlock):
    """One minus the cosine to the target, plus a penalty on large outputs (SRA eq. 2, tokenlearn)."""

    kind: Literal["cosine"]
    scale: Positive = 1.0
    """Factor of one minus the cosine: SRA has 0.5."""
    norm_penalty: NonNegative = 1.0
    """Weight of the mean squared output; SRA has none: 0."""

    @property
    @override
    def compares(self) -> Compared | None:
        return "directions"


class InfonceLoss(LossBlock):
    """In-batch contrast of student vectors and targets (IBKD eq. 8; tokenlearn's present code)."""

    kind: Literal["infonce"]
    temperature: Positive = 0.1
    """Divides the cosines: IBKD 0.1, tokenlearn 0.07."""
    projection: Literal["none", "learned"] = "none"
    """`learned` (IBKD) maps student vectors to the target's dimension, and is dropped after training. It
    starts as the identity where the dimensions are equal, else at random."""

    @property
    @override
    def compares(self) -> Compared | None:
        return "directions" if self.projection == "none" else None


class HsicLoss(LossBlock):
    """Dependence between a student's inputs and its vectors (IBKD eq. 6), which training lowers."""

    kind: Literal["hsic"]
    kernel: Literal["rbf", "imq", "linear"] = "rbf"
    """With d the distance, rbf is exp(-gamma d^2), imq (inverse multiquadric) 1 / sqrt(1 + gamma d^2) or, in
    the released `code`, 1 / sqrt(gamma + d^2), and linear the inner product."""
    variant: Variant = "fixed"
    """`fixed` brings both sides to length 1; the gamma of each is 1 / (2 median) of its squared distances in
    the batch. `paper` and `code` take vectors as they are (`code` at length 1 for linear): `paper` with gamma
    0.5, `code` with 1.0, or 0.1 in fine-tuning, and divided by (n - 1)^2 for n^2. The inputs are those of the
    embedding layer; the released code's last layer but one in fine-tuning is not built."""
    gamma: Positive | None = None
    """Of rbf and imq, on both sides; null: as the variant says."""


class CrdLoss(LossBlock):
    """Contrastive representation distillation: NCE against a memory bank (Tian et al. 2019)."""

    kind: Literal["crd"]
    variant: Variant = "fixed"
    """`fixed` and `paper` draw a sentence to its own counterpart of the same step, the released `code` to the
    bank's moving average of that: random until the sentence has been met once, so it takes many epochs."""
    features: Count = 128
    """Dimension of the space in which student and teacher are contrasted."""
    negatives: Count = 4096
    """Drawn from the memory bank for every batch."""
    temperature: Positive = 0.07
    """Divides the cosines."""
    momentum: Fraction = 0.5
    """Share of a bank row that stays when its sentence is met; none where sentences share rows."""
    bank_rows: Count = 65_536
    """Most rows of the memory bank; a larger corpus shares them, so that memory stays bounded. `code` has to
    have one for every training sentence."""


class TokenEmbeddingLoss(LossBlock):
    """Mean squared distance of the student's token embeddings to the teacher's (SimTDE eqs. 1 to 3)."""

    kind: Literal["token_embedding"]
    reading: Literal["block", "table"] = "block"
    """`block`: the embedding blocks' outputs for the batch's tokens; `table`: the whole word tables. The
    paper can be read either way."""


class RelationalLoss(LossBlock):
    """Cosines of every two sentences of a batch, the student's against the teacher's (Park et al. 2019)."""

    kind: Literal["relational"]
    form: Literal["mse", "mae", "kl"] = "mse"
    """`mse`: mean squared difference (as Tung and Mori 2019; SimTDE's MSE on pairs); `mae`: mean absolute
    difference (SimTDE's MAE on pairs); `kl`: divergence of each sentence's softmax over the others (as
    CompRess, Koohpayegani et al. 2020)."""
    temperature: Positive = 0.05
    """Of `kl`: divides the cosines."""


class KlLoss(LossBlock):
    """Divergence of the vectors, read as distributions over their dimensions (SimTDE's KL on vectors)."""

    kind: Literal["kl"]
    temperature: Positive = 1.0
    """Divides the vectors before the softmax; the paper names none. Its square multiplies the loss, so that
    gradients keep their size (Hinton et al. 2015). Vectors of length 1 hardly tell dimensions apart at 1:
    there the loss is near `mse` over twice the dimension, but for a shift of all dimensions; at 0.05 the
    largest dimensions count most."""

    @property
    @override
    def compares(self) -> Compared | None:
        return "distributions"


Layer = Annotated[int, Field(ge=0)]
LayerPair = Annotated[tuple[Layer, Layer], Field(strict=False)]


class HiddenStatesLoss(LossBlock):
    """Mean squared distance of the layers' hidden states, token by token (SimTDE's LMX-KD, TinyBERT eq. 8).

    The teacher's are those that `encode.hidden` keeps.
    """

    kind: Literal["hidden_states"]
    layers: Annotated[tuple[LayerPair, ...], Field(min_length=1, strict=False)] | None = None
    """Pairs of a student's layer and a teacher's, counted from 0: [[0, 3], [1, 7], [2, 11]]. null: layers at
    equal distances in both, as many as the one with fewer has, the last with the last; the teacher's are
    those of `encode.hidden`."""
    projection: Literal["learned", "none"] = "learned"
    """`learned`: a matrix for each pair brings the student's width to the teacher's. It is trained along and
    dropped, and starts as the identity where the widths are equal, else at random. `none`: they are equal."""


Term = (
    MseLoss
    | CosineLoss
    | InfonceLoss
    | HsicLoss
    | CrdLoss
    | TokenEmbeddingLoss
    | RelationalLoss
    | KlLoss
    | HiddenStatesLoss
)


class Weighted(Block):
    """A loss with its weight."""

    weight: Positive
    loss: Annotated[Term, Field(discriminator="kind")]


class SumLoss(Block):
    """A weighted sum of losses: IBKD's InfoNCE + HSIC, SimTDE's sentence and token distances."""

    kind: Literal["sum"]
    terms: Annotated[tuple[Weighted, ...], Field(min_length=1, strict=False)]


Loss = Annotated[Term | SumLoss, Field(discriminator="kind")]


def terms_of(loss: Term | SumLoss) -> tuple[Term, ...]:
    """The losses of a sum, or the one that there is."""
    return tuple(term.loss for term in loss.terms) if isinstance(loss, SumLoss) else (loss,)


def hidden_states_of(loss: Loss | None) -> list[HiddenStatesLoss]:
    """The loss, or those terms of it, that read the teacher's hidden states."""
    return [one for one in terms_of(loss) if isinstance(one, HiddenStatesLoss)] if loss else []
