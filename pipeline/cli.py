"""`pipeline`: what a person calls. The stages are called by DVC."""

import typer

from pipeline.commands import cache
from pipeline.commands.check import check
from pipeline.commands.compare import compare
from pipeline.commands.doctor import doctor
from pipeline.commands.embed import embed
from pipeline.commands.inspect import inspect
from pipeline.commands.mteb import mteb
from pipeline.commands.schema import schema
from pipeline.commands.search import search
from pipeline.core.errors import report_user_errors

app = typer.Typer(
    help="Distil sentence-embedding models. `dvc repro` runs it; these look at it and use what it made.",
    rich_markup_mode="markdown",  # joins the lines of a docstring's paragraphs
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for command in (check, doctor, inspect, embed, search, compare, mteb, schema):
    app.command()(report_user_errors(command))

cache_app = typer.Typer(no_args_is_help=True)
for name, cache_command in cache.COMMANDS.items():
    cache_app.command(name)(report_user_errors(cache_command))
app.add_typer(cache_app, name="cache", help="Vectors, indexes, translations, results that are kept.")


def main() -> None:
    """Run the command that the arguments name."""
    app()


if __name__ == "__main__":
    main()
