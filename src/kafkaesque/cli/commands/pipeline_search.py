"""`kafkaesque pipeline search`: find lines in the index of the pipeline `logs`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from kafkaesque.cli.arguments import JsonOption
from kafkaesque.cli.log_search import as_text, find_lines, parse_search
from kafkaesque.cli.screen import Screen


def search(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The project, or its index.")],
    words: Annotated[
        str,
        typer.Argument(metavar="QUERY", help='word, "a phrase", begin*, -without; default: all.'),
    ] = "",
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="From this time on, or from so long ago (PT2H)."),
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Before this time.")] = None,
    host: Annotated[str | None, typer.Option(metavar="NAME", help="Of this host.")] = None,
    severity: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="This severity or worse: err, warning, ..."),
    ] = None,
    kind: Annotated[str | None, typer.Option(metavar="KIND", help="web, syslog or dpkg.")] = None,
    status: Annotated[
        str | None, typer.Option(metavar="CLASS", help="A web server's response status: 5xx.")
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", help="At most N lines, the latest.")] = 50,
    json: JsonOption = False,
) -> None:
    """Find lines in the index of the pipeline logs, also while it is written.

    \b
    Example:
      kafkaesque pipeline search ./logs 'openssl -status'
      kafkaesque pipeline search ./logs --severity err --since PT1H --host web1
      kafkaesque pipeline search ./logs --kind web --status 5xx --json
    """
    wanted = parse_search(
        words,
        since=since,
        until=until,
        host=host,
        severity=severity,
        kind=kind,
        status=status,
        limit=limit,
    )
    lines = find_lines(folder, wanted)
    if json:
        Screen(json=True).show_json(lines)
        return
    for line in lines:
        sys.stdout.write(as_text(line) + "\n")
