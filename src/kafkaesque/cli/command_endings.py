"""How a command ends that Typer would end otherwise: with our errors, and our exit codes.

Typer writes mistakes in the command line in a style of its own, and takes Ctrl-C at a question for
an answer.
"""

import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn

import typer

from kafkaesque.cli.arguments import wrong_usage
from kafkaesque.cli.exit_codes import FAILED, INTERRUPTED, OK
from kafkaesque.cli.failure import CommandFailed

#: Mistakes in the command line; Typer has no public name for what its `BadParameter` is one of.
_WrongUsage: Final[Any] = typer.BadParameter.__mro__[1]
#: A group of commands without the name of one. With colours, its help is printed by its making.
_NoCommand: Final[Any] = sys.modules[_WrongUsage.__module__].NoArgsIsHelpError


def run_to_end(run: Callable[[], Any]) -> NoReturn:
    """Run a command whose errors are not handled yet, and exit as all commands do."""
    try:
        code = run()
    except _WrongUsage as error:
        sys.exit(_tell_wrong_usage(error))
    except typer.Abort as answer:
        sys.exit(_tell_no(answer))
    sys.exit(code if isinstance(code, int) else OK)


def _tell_wrong_usage(error: Any) -> int:
    """Say what is wrong with the command line; one without any words is answered with help."""
    if isinstance(error, _NoCommand):
        sys.stderr.write(f"{error.message}\n" if error.message else "")
    else:
        command = error.ctx.command_path if error.ctx is not None else "kafkaesque"
        sentence = error.format_message().replace("\n", " ").rstrip(".")
        failure = wrong_usage(f"{sentence[:1].lower()}{sentence[1:]}", f"{command} --help")
        failure.show()
    return int(error.exit_code)


def _tell_no(answer: typer.Abort) -> int:
    """Say that nothing was done, as the answer was no, or none at all."""
    if isinstance(answer.__context__, KeyboardInterrupt):
        sys.stderr.write("\n")
        return INTERRUPTED
    CommandFailed("not confirmed, so nothing was done").show()
    return FAILED
