"""Which stages `dvc repro` would run: those that are out of date, and all that come after them."""

from pathlib import Path

from pipeline.core import dvc_project
from pipeline.core.errors import UserError


def out_of_date(root: Path) -> frozenset[str] | None:
    """The stages as DVC calls them; None where there is no checkout of DVC's.

    A stage whose inputs come out as they were is left out by `dvc repro` when it gets there: these are the
    most that run.

    Raises:
        UserError: DVC cannot read a file, or another command of DVC's is at work.
    """
    from dvc.repo.graph import get_subgraph_of_nodes

    with dvc_project.opened(root) as repository:
        if repository is None:
            return None
        try:
            changed = set(repository.status())
        except OSError as error:
            raise UserError(dvc_project.unread(error)) from None
        graph = repository.index.graph  # from a stage to those that it needs
        stages = {stage.addressing: stage for stage in graph}
        first = [stages[name] for name in changed & stages.keys()]
        found = get_subgraph_of_nodes(graph, first, downstream=True) if first else ()
        return frozenset(stage.addressing for stage in found if not stage.is_data_source)
