"""Which stages `dvc repro` would run: those that are out of date, and all that come after them."""

from pathlib import Path

from pipeline.core.errors import UserError


def out_of_date(root: Path) -> frozenset[str] | None:
    """The stages as DVC calls them; None where there is no checkout of DVC's.

    A stage whose inputs come out as they were is left out by `dvc repro` when it gets there: these are the
    most that run.

    Raises:
        UserError: DVC cannot read a file.
    """
    from dvc.exceptions import DvcException, NotDvcRepoError
    from dvc.repo import Repo
    from dvc.repo.graph import get_subgraph_of_nodes

    try:
        repository = Repo(str(root), config={"core": {"no_scm": True}})
    except NotDvcRepoError:
        return None
    with repository:
        try:
            changed = set(repository.status())
        except (DvcException, OSError, UnicodeError) as error:
            raise UserError(
                f"DVC cannot read the project's files ({error}); mend or remove what it names"
            ) from None
        graph = repository.index.graph  # from a stage to those that it needs
        stages = {stage.addressing: stage for stage in graph}
        first = [stages[name] for name in changed & stages.keys()]
        found = get_subgraph_of_nodes(graph, first, downstream=True) if first else ()
        return frozenset(stage.addressing for stage in found if not stage.is_data_source)
