"""`kafkaesque pipeline`: projects of Spark Declarative Pipelines."""

from pathlib import Path
from typing import Annotated

import typer

from kafkaesque.cli.arguments import JsonOption, new_app
from kafkaesque.cli.pipeline_failures import failures_told
from kafkaesque.cli.screen import Screen

app = new_app(help="Data pipelines on Spark: init, dry-run, run, status.")


@app.callback()
def pipeline() -> None:
    """Data pipelines on Spark: init, dry-run, run, status."""


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New or empty.")],
    template: Annotated[
        str, typer.Option("--template", "-t", metavar="NAME", help="What to begin with.")
    ] = "blank",
    json: JsonOption = False,
) -> None:
    """Make a project in DIR, as a copy of a template.

    \b
    Example:
      kafkaesque pipeline init ./greetings
      kafkaesque pipeline init ./delays --template flights
    """
    from kafkaesque.spark.pipelines.templates import copy_template

    with failures_told():
        files = copy_template(template, folder)
    Screen(json=json).done(
        f"made {folder} from the template {template}: {folder / 'README.md'} says what it does",
        {"project": str(folder), "template": template, "files": [str(path) for path in files]},
    )
