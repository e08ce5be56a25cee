"""Which keys of `evaluate.tasks` a message names, and whether params may have them."""

import re
from collections.abc import Mapping
from typing import Any

from pipeline.params.evaluate import Evaluate

KEY = re.compile(r"evaluate\.tasks\.(\w+)(?:\.(\w+))?")
QUOTED = re.compile(r"`(\w+)`")


def named_keys(message: object, tasks: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Every key that a message names, all of which a block of that kind has; `tasks`: as params have them."""
    blocks = Evaluate.model_validate({"tasks": tasks}).tasks
    found = list(KEY.finditer(str(message)))
    fields = {name: {None, *type(block).model_fields} for name, block in blocks.items()}
    wrong = [one[0] for one in found if one[2] not in fields.get(one[1], ())]
    known = {field for several in fields.values() for field in several}
    wrong += [name for name in QUOTED.findall(str(message)) if name not in known]
    assert not wrong, f"params.yaml has no {wrong}: {message}"
    return [one[0] for one in found]
