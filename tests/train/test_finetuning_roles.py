"""Fine-tuning on queries and documents, of which some are the same texts."""

from pathlib import Path

import numpy as np
import polars as pl
from small_students import static_block

from pipeline.data.common.texts import in_role, text_ids
from pipeline.params.finetune import Finetune
from pipeline.tasks import pairs
from pipeline.train.finetuning.shared.finetuning import Finetuning
from pipeline.train.students.kinds import static


def test_a_text_in_another_role_is_no_negative_of_itself_nor_of_its_positives(parts):
    """Queries and documents: "kitten" is a document of another query, and a query whose document that is."""
    asked = [("kitten", "tabby"), ("tabby", "whale"), ("whale", "kitten")]
    columns = {
        side: in_role(text_ids(row[place] for row in asked), [role])
        for place, (side, role) in enumerate([("left_id", "query"), ("right_id", "document")])
    }
    table = pairs.make("mine", "train", columns)
    names = {
        int(one): row[place]
        for place, side in enumerate(columns)
        for one, row in zip(columns[side], asked, strict=True)
    }
    known = pl.DataFrame(
        sorted(names.items()), schema={"text_id": pl.UInt64, "text": pl.String}, orient="row"
    )
    student, params = static.build(static_block(), parts), Finetune(data=["mine"], batch_size=3)
    made = Finetuning(student, table, [known], params, Path("mined/triplets.parquet"))
    rows = [[names[int(one)] for one in row] for row in table.select("left_id", "right_id").iter_rows()]
    _, left_out = made._batch(np.arange(3))
    for place, (anchor, _) in enumerate(rows):
        known_of = {text for row in asked if anchor in row for text in row}
        expected = [text in known_of for _, text in rows]
        expected[place] = False
        assert left_out[place].tolist() == expected
