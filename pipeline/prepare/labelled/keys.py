"""Where params.yaml has a task: messages name the keys that are there, and no others."""

from dataclasses import dataclass
from typing import Self

from pipeline.params.base import Block


@dataclass(frozen=True)
class Keys:
    """A task's name, and the keys of its block under `evaluate.tasks`."""

    task: str
    """The task's name: words_men, pearl_autofj."""
    block: str
    """The block's name; another one where the block stands for several tasks: words, pearl."""
    fields: frozenset[str]
    """The keys that a block of its kind may have."""

    @classmethod
    def of(cls, task: str, block: Block, name: str | None = None) -> Self:
        """Of a task that a block of params stands for; `name`: the block's, where it is not the task's."""
        return cls(task, name or task, frozenset(type(block).model_fields))

    def key(self, *fields: str) -> str:
        """The key of the first of these fields that there is; the block's own, where there is none."""
        found = next((field for field in fields if field in self.fields), None)
        place = f"evaluate.tasks.{self.block}"
        return f"{place}.{found}" if found else place

    def other_column(self, column: str, files: str = "path") -> str:
        """What to do where a column is not the right one; `files`: the key of those that have it."""
        if column not in self.fields:
            return f"name other files with {self.key(files, 'path')}"
        return f"name another column with {self.key(column)}, or other files"
