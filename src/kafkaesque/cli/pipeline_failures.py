"""What goes wrong with a pipeline, as commands tell it: a sentence, what to try, an exit code."""

from collections.abc import Iterator
from contextlib import contextmanager

from kafkaesque.cli.exit_codes import FAILED, UNREACHABLE, WRONG_USAGE
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.spark.pipelines.errors import (
    BrokersAway,
    PipelineError,
    WrongProject,
)

_EXIT_CODES: dict[type[PipelineError], int] = {
    WrongProject: WRONG_USAGE,
    BrokersAway: UNREACHABLE,
}


@contextmanager
def failures_told() -> Iterator[None]:
    """Turn what the block raises of pipelines into the end of a command."""
    try:
        yield
    except PipelineError as error:
        exit_code = _EXIT_CODES.get(type(error), FAILED)
        raise CommandFailed(error.message, hint=error.hint, exit_code=exit_code) from None
