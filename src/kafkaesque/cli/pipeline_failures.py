"""What goes wrong with a pipeline, as commands tell it: a sentence, what to try, an exit code."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from kafkaesque.cli.exit_codes import FAILED, INTERRUPTED, UNREACHABLE, WRONG_USAGE
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.spark.pipelines.errors import (
    BrokersAway,
    Interrupted,
    PipelineError,
    WrongProject,
)

_EXIT_CODES: dict[type[PipelineError], int] = {
    WrongProject: WRONG_USAGE,
    BrokersAway: UNREACHABLE,
    Interrupted: INTERRUPTED,
}
#: One of each group that the extra brings.
_NEEDED = ("pyspark", "pyarrow", "yaml", "grpc", "pandas")


@contextmanager
def failures_told() -> Iterator[None]:
    """Turn what the block raises of pipelines into the end of a command."""
    try:
        yield
    except PipelineError as error:
        exit_code = _EXIT_CODES.get(type(error), FAILED)
        raise CommandFailed(error.message, hint=error.hint, exit_code=exit_code) from None


def require_spark() -> None:
    """Check that the extra is installed.

    Raises:
        CommandFailed: something of it is not.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise CommandFailed(
            f"Spark is not installed: there is no module {missing[0]}",
            hint="pip install 'kafkaesque-broker[spark]'; in a checkout"
            " scripts/test-spark --install-only",
        )
