"""`kafkaesque audit`: who has logged in, was refused something, and has changed what."""

import json as json_codec
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from kafkaesque.access.audit import AuditEntry, AuditKind, read_entry
from kafkaesque.access.audit_verifier import AuditVerifier, Head
from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    check_output,
    new_app,
    wrong_usage,
)
from kafkaesque.cli.exit_codes import FAILED
from kafkaesque.cli.screen import Cell, Screen, Table, counted
from kafkaesque.cli.troubles import why

if TYPE_CHECKING:
    from kafkaesque.cli.audit_log import ClusterLog, Written

app = new_app(help="The audit log: show and verify.")

_COLUMNS: Final = ("TIME", "BROKER", "WHAT", "WHO", "FROM", "EVENT")
#: Shown only if they are asked for by name.
_HIDDEN: Final = (AuditKind.CHECKPOINT,)
_LINES_MAX: Final = 1_000_000

WhatOption = Annotated[
    list[AuditKind] | None,
    typer.Option("--what", metavar="KIND", help="Only log-in, refusal, change or key; or several."),
]
PrincipalOption = Annotated[
    str | None, typer.Option("--principal", metavar="WHO", help="Only of this user.")
]
SinceOption = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="Only from then on: a time, or PT1H for an hour."),
]
FollowOption = Annotated[
    bool, typer.Option("--follow", "-f", help="Continue with new entries; Ctrl-C ends it.")
]
MaxOption = Annotated[
    int, typer.Option("--max", "-n", min=1, max=_LINES_MAX, help="The newest so many.")
]


@app.command()
def show(
    since: SinceOption = None,
    principal: PrincipalOption = None,
    what: WhatOption = None,
    max_entries: MaxOption = 1_000,
    follow: FollowOption = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Print entries of the audit log, the oldest first; in JSON one a line.

    \b
    Example:
      kafkaesque audit show --since PT1H
      kafkaesque audit show --what refusal --principal User:app
      kafkaesque audit show --follow --json
    """
    from kafkaesque.cli.offset_words import parse_time_ms

    since_ms = None if since is None else parse_time_ms(since)
    wanted = _Wanted(what, principal)
    with _cluster_log(bootstrap) as log:
        begin = log.start if since_ms is None else log.offset_at(since_ms)
        newest = deque(_chosen(log.read(begin), wanted, since_ms), maxlen=max_entries)
        _print(newest, json=json)
        if follow:
            for entry in _chosen(log.read(log.end, follow=True), wanted, since_ms):
                sys.stdout.write(_json_line(entry) if json else _plain_line(entry))
                sys.stdout.flush()


@app.command()
def verify(
    directory: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DIR]",
            help="The directory of a stopped broker that has a replica; without it, the cluster.",
            show_default=False,
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write down how far each chain has come."),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Compare with what an earlier --save has written."),
    ] = None,
    keeper_file: Annotated[
        Path | None,
        typer.Option(
            "--keeper-file",
            metavar="FILE",
            help="With DIR, where the audit log is sealed: key.keeper.file of the broker.",
        ),
    ] = None,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Find what was altered, removed, moved or cut off in the audit log.

    Ends with 1 if something was.

    \b
    Example:
      kafkaesque audit verify
      kafkaesque audit verify --save heads.json
      kafkaesque audit verify --against heads.json
    """
    known = None if against is None else _read_heads(against)
    check_output(save, "--save")
    if keeper_file is not None and directory is None:
        raise wrong_usage("--keeper-file is of no use without DIR", "the directory of a broker")
    if directory is not None:
        from kafkaesque.cli.audit_log import DirectoryLog

        kept = DirectoryLog(_broker_directory(directory), keeper_file)
        verifier = _look_through(kept.start, kept.read())
    else:
        with _cluster_log(bootstrap) as log:
            verifier = _look_through(log.start, log.read(log.start))
    if known is not None:
        verifier.check_against(known)
    _tell(verifier, json=json)
    if verifier.fault_count:
        raise typer.Exit(FAILED)
    if save is not None:
        save.write_bytes(msgspec.json.format(msgspec.json.encode(verifier.heads)))


@contextmanager
def _cluster_log(bootstrap: str) -> "Iterator[ClusterLog]":
    from kafkaesque.cli.audit_log import ClusterLog
    from kafkaesque.cli.kafka import Connection

    with closing(ClusterLog(Connection(bootstrap))) as log:
        yield log


def _broker_directory(directory: Path) -> Path:
    from kafkaesque.cli.commands.log import broker_directories

    found = broker_directories(directory, "kafkaesque audit verify kafkaesque-data/broker-1")
    if len(found) > 1:
        raise wrong_usage(
            f"{directory} holds the data of {len(found)} brokers: one is looked at at a time",
            f"kafkaesque audit verify {found[0]}",
        )
    return found[0]


def _look_through(start: int, records: "Iterable[Written]") -> AuditVerifier:
    verifier = AuditVerifier(start)
    for record in records:
        verifier.take(record.offset, record.key, record.value)
    return verifier


def _read_heads(path: Path) -> dict[str, Head]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Head])
    except OSError as error:
        raise wrong_usage(f"--against {path} cannot be read: {why(error)}") from None
    except msgspec.MsgspecError:
        raise wrong_usage(
            f"--against {path} is not what --save writes", "kafkaesque audit verify --save FILE"
        ) from None


def _tell(verifier: AuditVerifier, *, json: bool) -> None:
    rows: list[tuple[Cell, ...]] = [
        (each.chain, None if each.number < 0 else each.number, each.offset, each.problem)
        for each in verifier.faults
    ]
    unended = verifier.unended
    document = {
        "entries": verifier.entry_count,
        "chains": len(verifier.heads),
        "faults": [
            {
                "chain": each.chain,
                "entry": None if each.number < 0 else each.number,
                "offset": each.offset,
                "problem": each.problem,
            }
            for each in verifier.faults
        ],
        "fault_count": verifier.fault_count,
        "without_end": unended,
    }
    screen = Screen(json=json)
    if rows or json:
        screen.show(Table(columns=("BROKER/CHAIN", "ENTRY", "OFFSET", "WHAT"), rows=rows), document)
    if json:
        return
    for each in unended:
        print(f"note: chain {each} has no end: its broker was killed, or its end was cut off")
    what = f"{verifier.entry_count:,} entries in {counted(len(verifier.heads), 'chain')}"
    count = verifier.fault_count
    print(f"{what}: {counted(count, 'fault') if count else 'nothing was altered or removed'}")


# -- what is shown


class _Wanted:
    """Which entries are."""

    def __init__(self, kinds: list[AuditKind] | None, principal: str | None) -> None:
        self._kinds: Final = frozenset(kinds or (each for each in AuditKind if each not in _HIDDEN))
        is_name = principal is not None and ":" not in principal
        self._principal: Final = f"User:{principal}" if is_name else principal

    def takes(self, entry: AuditEntry) -> bool:
        event = entry.event
        return event.kind in self._kinds and self._principal in (None, event.principal)


def _chosen(
    records: "Iterable[Written]", wanted: _Wanted, since_ms: int | None
) -> Iterator[AuditEntry]:
    """Return the entries that are wanted, each once although it may be there twice."""
    newest: dict[tuple[int, str], int] = {}
    for record in records:
        try:
            entry = read_entry(record.value or b"")
        except ValueError as error:
            Screen().note(f"offset {record.offset} {error}: kafkaesque audit verify")
            continue
        chain = (entry.broker, entry.chain)
        if entry.number <= newest.get(chain, -1):
            continue
        newest[chain] = entry.number
        is_late = max(entry.event.at_ms, entry.event.until_ms) >= (since_ms or 0)
        if is_late and wanted.takes(entry):
            yield entry


def _print(entries: Iterable[AuditEntry], *, json: bool) -> None:
    if json:
        for entry in entries:
            sys.stdout.write(_json_line(entry))
        sys.stdout.flush()
    else:
        Screen().show(Table(columns=_COLUMNS, rows=[_row(each) for each in entries]), None)


def _json_line(entry: AuditEntry) -> str:
    document = msgspec.to_builtins(entry.event)
    document = {"broker": entry.broker, "chain": entry.chain, "entry": entry.number, **document}
    return json_codec.dumps(document, ensure_ascii=False) + "\n"


def _plain_line(entry: AuditEntry) -> str:
    return "\t".join(str(each or "-").replace("\t", " ") for each in _row(entry)) + "\n"


def _row(entry: AuditEntry) -> tuple[Cell, ...]:
    event = entry.event
    source = f"{event.host} ({event.listener})" if event.host else event.listener
    time, kind = _time(event.at_ms), event.kind.value
    return (time, entry.broker, kind, _printable(event.principal), source, _words(entry))


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _words(entry: AuditEntry) -> str:
    event = entry.event
    what = " ".join(filter(None, (event.operation, event.resource_type, event.resource)))
    parts = [what or event.mechanism]
    if event.outcome is not None:
        parts.append(event.outcome.value)
    words = " ".join(filter(None, parts))
    if event.because:
        words = f"{words}: {event.because}" if words else event.because
    if event.detail:
        detail = "; ".join(
            text if name.isdecimal() else f"{name} {text}" for name, text in event.detail.items()
        )
        words = f"{words} ({detail})" if words else detail
    if event.count > 1:
        until = f", until {_time(event.until_ms)}" if event.until_ms else ""
        words += f" [{event.count} times{until}]"
    return _printable(words)


def _printable(text: str) -> str:
    """Return a text whose characters cannot steer a terminal: clients have chosen some of them."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
