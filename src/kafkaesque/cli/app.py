"""`kafkaesque`: finds the command and runs it."""

from typing import Annotated

import typer

from kafkaesque.cli.arguments import new_app
from kafkaesque.cli.lazy_group import LazyGroup

app = new_app(cls=LazyGroup, name="kafkaesque", add_completion=True)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        from kafkaesque import __version__

        typer.echo(f"kafkaesque {__version__}")
        raise typer.Exit


@app.callback()
def kafkaesque(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """A message broker that every Kafka client already speaks to.

    A first look, in two terminals:

    \b
      kafkaesque up --brokers 3 --data ./data
      echo hello | kafkaesque publish greetings
      kafkaesque consume greetings --from-beginning --max 1

    `kafkaesque COMMAND --help` explains a command and gives an example.
    """


def main() -> None:
    """Run the command line."""
    app(prog_name="kafkaesque")


if __name__ == "__main__":
    main()
