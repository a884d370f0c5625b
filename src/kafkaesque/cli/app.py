"""`kafkaesque`: finds the command and runs it.

Ctrl-C may come while modules are still being read, and the output may be refused at the very end,
when it is flushed: neither shows anybody a traceback.
"""

import errno
import os
import sys

from kafkaesque.cli.exit_codes import FAILED, INTERRUPTED, OK

try:
    from typing import Annotated

    import typer

    from kafkaesque.cli.arguments import new_app
    from kafkaesque.cli.failure import CommandFailed
    from kafkaesque.cli.lazy_group import LazyGroup
except KeyboardInterrupt:
    raise SystemExit(INTERRUPTED) from None

#: What is wrong with the place that the output goes to, and not with us.
_OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

app = new_app(cls=LazyGroup, name="kafkaesque", add_completion=True)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        from kafkaesque import __version__

        typer.echo(f"kafkaesque {__version__}")
        raise typer.Exit


def _use_command_config(path: str | None) -> None:
    if path is not None:
        # Commands that start processes hand it on.
        os.environ["KAFKAESQUE_COMMAND_CONFIG"] = path


def _apply_context(context: typer.Context, name: str | None) -> None:
    from kafkaesque.cli import contexts

    if context.invoked_subcommand not in contexts.WITHOUT:
        contexts.apply(name, os.environ)


def _context_names(incomplete: str) -> list[str]:
    from kafkaesque.cli.completion import context_names

    return context_names(incomplete)


@app.callback()
def kafkaesque(
    context: typer.Context,
    command_config: Annotated[
        str | None,
        typer.Option(
            "--command-config",
            metavar="FILE",
            envvar="KAFKAESQUE_COMMAND_CONFIG",
            help="How to log in: sasl.username and sasl.password, one to a line.",
            callback=_use_command_config,
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--context",
            metavar="NAME",
            envvar="KAFKAESQUE_CONTEXT",
            help="Which cluster, as kafkaesque context has it.",
            autocompletion=_context_names,
        ),
    ] = None,
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
    _apply_context(context, cluster)


def main() -> None:
    """Run the command line."""
    try:
        try:
            app(prog_name="kafkaesque")
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError as error:
        # Whoever read our output has enough (`| head`): nothing is wrong by that.
        _drop_output()
        ending = error.__context__
        sys.exit(ending.code if isinstance(ending, SystemExit) else OK)
    except OSError as error:
        if error.errno not in _OUTPUT_ERRORS or error.filename is not None:
            raise
        _drop_output()
        reason = os.strerror(error.errno).lower()
        CommandFailed(f"the output cannot be written: {reason}").show()
        sys.exit(FAILED)


def _drop_output() -> None:
    """Send what is still buffered nowhere: the interpreter would try to write it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
