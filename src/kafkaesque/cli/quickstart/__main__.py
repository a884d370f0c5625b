"""`python -m kafkaesque.cli.quickstart`: what `scripts/quickstart` runs once all is installed."""

import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from kafkaesque.cli.arguments import new_app, number_option
from kafkaesque.cli.command_endings import run_to_end
from kafkaesque.cli.exit_codes import INTERRUPTED
from kafkaesque.cli.failure import CommandFailed

app = new_app(no_args_is_help=False)


@app.command()
def quickstart(
    flights: Annotated[
        int | None, typer.Option(min=1000, help="Only so many of them.", show_default="all")
    ] = None,
    rate: Annotated[
        float, number_option(least=100, most=1e9, help="Messages per second.")
    ] = 20_000.0,
    keep: Annotated[
        Path | None, typer.Option(help="Keep the cluster's data here, to look at it afterwards.")
    ] = None,
    secure: Annotated[
        bool,
        typer.Option("--secure", help="Against a cluster that requires TLS and a log-in."),
    ] = False,
    without_spark: Annotated[
        bool, typer.Option("--without-spark", help="Leave the pipeline on Spark out.")
    ] = False,
) -> None:
    """Publish a year of flights to three brokers, consume them in a group, kill a leader meanwhile.

    At the end Spark computes delays per carrier and hour from what was published.

    Everything runs on free ports of 127.0.0.1 and in a temporary directory, and is gone afterwards.
    Ends with 0 only if nothing was lost, duplicated or out of order, and Spark's result is right.

    \b
    Example:
      scripts/quickstart
      scripts/quickstart --flights 50000 --keep ./data
      scripts/quickstart --secure
    """
    from kafkaesque.cli.pipeline_failures import require_spark
    from kafkaesque.cli.quickstart.job import Job
    from kafkaesque.cli.quickstart.report import report

    if not without_spark:
        try:
            require_spark()
        except CommandFailed as failure:
            failure.hint = "scripts/quickstart, which installs it, or --without-spark"
            failure.show()
            raise typer.Exit(failure.exit_code) from None
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    directory = Path(tempfile.mkdtemp(prefix="kafkaesque-quickstart-"))
    data = keep or directory / "cluster"
    job = Job(directory, data, flights, rate, has_spark=not without_spark, is_secure=secure)
    try:
        result = job.run()
        code = report(result, keep)
    except CommandFailed as failure:
        failure.show()
        code = failure.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; stopping everything\n")
        code = INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        job.close()
        shutil.rmtree(directory, ignore_errors=True)
    raise typer.Exit(code)


if __name__ == "__main__":
    run_to_end(lambda: app(prog_name="quickstart", standalone_mode=False))
