"""Finding log lines: words of the command line become a search, and lines become rows or JSON."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kafkaesque.cli.arguments import wrong_usage
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.offset_words import parse_time_ms
from kafkaesque.spark.errors import ConnectorError
from kafkaesque.spark.logs.formats import KINDS, SEVERITIES
from kafkaesque.spark.logs.index import FILE_NAME, LIMIT_MAX, LineIndex, Search

#: Where the template `logs` has its index, in a project.
_IN_PROJECT = Path("storage") / "index"
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
#: Other names that people have for severities.
_SAME = {"error": "err", "warn": "warning", "critical": "crit", "emergency": "emerg"}


def find_lines(folder: Path, wanted: Search) -> list[dict[str, Any]]:
    """Return the lines of a project's index, or of an index itself, the last one last.

    Raises:
        CommandFailed: there is no index, or the words cannot be looked for.
    """
    place = folder if (folder / FILE_NAME).is_file() else folder / _IN_PROJECT
    try:
        with LineIndex(place) as index:
            return [_for_programs(line) for line in index.search(wanted)]
    except ConnectorError as error:
        raise CommandFailed(str(error)) from None


def parse_search(
    words: str,
    *,
    since: str | None,
    until: str | None,
    host: str | None,
    severity: str | None,
    kind: str | None,
    status: str | None,
    limit: int,
) -> Search:
    """Return what is looked for.

    Raises:
        CommandFailed: an option's value means nothing.
    """
    if kind is not None and kind not in KINDS:
        raise wrong_usage(f"--kind is {', '.join(KINDS)}, not {kind!r}")
    if not 1 <= limit <= LIMIT_MAX:
        raise wrong_usage(f"--limit is a number from 1 to {LIMIT_MAX}, not {limit}")
    return Search(
        words=words,
        since=None if since is None else 1000 * parse_time_ms(since),
        until=None if until is None else 1000 * parse_time_ms(until),
        host=host,
        severity=None if severity is None else _severity(severity),
        kind=kind,
        status_class=None if status is None else _status_class(status),
        limit=limit,
    )


def as_text(line: dict[str, Any]) -> str:
    """Return a line for people: when, where, how bad, and what was written.

    Control characters are shown as they are written in Python: a line that somebody else has made
    up has no say in a terminal.
    """
    text = f"{line['time']}  {line['host']}  {line['severity']}  {line['line']}"
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def _severity(word: str) -> int:
    name = _SAME.get(word.lower(), word.lower())
    if name not in SEVERITIES:
        raise wrong_usage(f"--severity is one of {', '.join(SEVERITIES)}, not {word!r}")
    return SEVERITIES.index(name)


def _status_class(word: str) -> int:
    if len(word) != 3 or word[0] not in "12345" or word[1:].lower() != "xx":
        raise wrong_usage(f"--status is 1xx, 2xx, 3xx, 4xx or 5xx, not {word!r}")
    return int(word[0])


def _for_programs(line: dict[str, Any]) -> dict[str, Any]:
    seconds, micros = divmod(line["time"], 1_000_000)
    at = datetime.fromtimestamp(seconds, UTC).replace(microsecond=micros)
    return {
        **line,
        "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "severity": SEVERITIES[line["severity"]],
        "fields": json.loads(line["fields"]),
    }
