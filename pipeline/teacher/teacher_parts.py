"""teacher_parts: the teacher's tokenizer and layers, and vocabulary vectors where they are read."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from pipeline.core import seal
from pipeline.core.atomic import atomic_folder
from pipeline.core.errors import UserError, report_user_errors
from pipeline.core.facts import check_facts
from pipeline.core.progress import progress, say
from pipeline.data import teacher_parts
from pipeline.params.load import load
from pipeline.params.teacher import EnsembleTeacher, starting_teacher
from pipeline.teacher.encoding.store import filling
from pipeline.teacher.encoding.store.store import VectorStore
from pipeline.teacher.shared import fitted_members
from pipeline.teacher.shared.local.described.tuned import TUNED
from pipeline.teacher.shared.members import load_single, told_of

if TYPE_CHECKING:
    from pipeline.teacher.shared.local.vocabulary import Vocabulary

VIEW = "vocabulary"
"""The view of token vectors in the store, where a token's number is its id."""


def main(
    out: Annotated[Path, typer.Option(help="Folder of the parts")],
    vocabulary: Annotated[
        Path, typer.Option(help="Folder of a folder for each reader of vocabulary vectors")
    ],
    readers: Annotated[Path, typer.Option(help="Who reads vocabulary vectors, by `look`")],
    facts: Annotated[Path, typer.Option(help="What the teacher is, by `look`, to compare")],
    params_file: Annotated[Path, typer.Option("--params")] = Path("params.yaml"),
    members: Annotated[Path, typer.Option(help="Of an ensemble: the members' PCAs and code")] = Path(
        "data/members"
    ),
    tuned: Annotated[Path, typer.Option(help="The fine-tuned teacher, if it is")] = TUNED,
) -> None:
    """Take the teacher apart; of an ensemble, the member from which students start.

    Vocabulary vectors are encoded if somebody reads them; a killed run goes on.
    """
    params = load(params_file)
    key, block = starting_teacher(params.teacher)
    teacher = load_single(key, block, params.runtime, tuned)
    if isinstance(params.teacher, EnsembleTeacher):
        fitted_members.check_code(members, block.kind, type(teacher))
    wanted: dict[str, bool] = seal.read_json(readers, "look")
    with atomic_folder(out) as folder, told_of(key):
        tokens = teacher.save_parts(folder)
        check_facts(facts, {"tokens": tokens.size}, "look")
    vectors = None
    if any(wanted.values()):
        vectors = encode_vocabulary(tokens, Path(params.runtime.cache))
        check_facts(facts, {"token_dim": vectors.shape[1]}, "look")
    with atomic_folder(vocabulary, sealed=False) as folder:
        for reader, reads in wanted.items():
            teacher_parts.write_reader(vectors if reads else None, out, folder / reader)
    if vectors is None:
        say("teacher_parts: vocabulary vectors are not needed: no student or augmenter starts from them")


def encode_vocabulary(tokens: "Vocabulary", cache: Path) -> NDArray[np.float16]:
    """The vector (V, d) of each token; those that the store in `cache` lacks are encoded into it."""
    store = VectorStore(cache, tokens.recipe)
    ids = np.arange(tokens.size, dtype=np.uint64)
    with progress("teacher_parts", tokens.size, "tokens") as advance:
        encoded = filling.fill_shard(
            ids,
            [str(token) for token in range(tokens.size)],
            [VIEW],
            store,
            lambda numbers, _: {VIEW: tokens.encode(np.array(numbers, dtype=np.int64))},
            advance,
            numbered=True,
        )
    say(f"teacher_parts: {encoded:,} tokens encoded, {tokens.size - encoded:,} taken from the store")
    present, vectors = store.load(ids, VIEW)
    if vectors is None or not present.all():
        raise UserError(f"{store.folder} lacks tokens that have just been put there; run the command again")
    return vectors


if __name__ == "__main__":
    typer.run(report_user_errors(main))
