"""`kafkaesque log`: what lies in a data directory, read offline; nothing in it is changed."""

import difflib
import json as json_codec
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkaesque.cli.arguments import JsonOption, new_app, wrong_usage
from kafkaesque.cli.exit_codes import DAMAGED
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.log_dump import Choice, Line, dump_partition, dump_wal_files
from kafkaesque.cli.read_only_disk import read_only_disk
from kafkaesque.cli.screen import Cell, Screen, Table, counted

if TYPE_CHECKING:
    from kafkaesque.cli.sealed_records import SealedRecords
    from kafkaesque.env.disk import Disk
    from kafkaesque.storage.offline import Finding

SHOWN_MAX = 10
PARTITION_METADATA = "partition.metadata"
META = "meta.json"
CHECKPOINT = "checkpoint"

app = new_app(help="Read a data directory offline: dump and verify.")

DirectoriesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="DIR...",
        help="Brokers' directories, or a cluster's, which holds them.",
        show_default=False,
    ),
]
DirectoryArgument = Annotated[
    Path,
    typer.Argument(
        metavar="DIR",
        help="A broker's directory, or a cluster's that holds one broker.",
        show_default=False,
    ),
]
PartitionsOption = Annotated[
    list[str] | None,
    typer.Option("--partition", "-p", metavar="TOPIC-N", help="May be repeated; default: all."),
]


@app.command()
def verify(
    directories: DirectoriesArgument,
    json: JsonOption = False,
) -> None:
    """Read everything and check it; say what is damaged, and where.

    With several brokers, the replicas of each partition are also compared byte for byte, up to the
    end of the shortest.

    Ends with 4 if durable data is damaged, or the broker would not start with it. The broker's next
    start settles what is only a note.

    \b
    Example:
      kafkaesque log verify kafkaesque-data
      kafkaesque log verify kafkaesque-data/broker-1 --json
      kafkaesque log verify /mnt/one/broker-1 /mnt/two/broker-2 /mnt/three/broker-3
    """
    from kafkaesque.cli.directory_check import check_directory
    from kafkaesque.storage.offline import Severity

    screen = Screen(json=json)
    brokers = _all_brokers(directories)
    found: list[tuple[Path, Finding]] = []
    total = 0

    def on_read(count: int) -> None:
        nonlocal total
        total += count
        bar.advance(count)

    disks = {path: read_only_disk(path, on_read) for path in brokers}
    size = sum(_size(path) for path in brokers)
    with screen.progress("reading", size, is_bytes=True) as bar:
        for path, disk in disks.items():
            findings = check_directory(disk, read_only_disk(path))
            found += [(path, finding) for finding in findings]
    compared, differences = _compare_replicas(screen, brokers)
    found += differences
    errors = sum(finding.severity is Severity.ERROR for _, finding in found)
    document = {
        "brokers": [str(path) for path in brokers],
        "bytes": total,
        "partitions_compared": compared,
        "errors": errors,
        "findings": [_document(path, finding) for path, finding in found],
    }
    rows: list[tuple[Cell, ...]] = [
        (each.severity.value, str(path / each.path), each.position, each.message)
        for path, each in found
    ]
    if rows or json:
        screen.show(Table(columns=("SEVERITY", "FILE", "BYTE", "WHAT"), rows=rows), document)
    if not json:
        what = f"{total:,} bytes of {len(brokers)} broker{'s' if len(brokers) > 1 else ''} read"
        if len(brokers) > 1:
            what += f", {compared} partition{'' if compared == 1 else 's'} compared"
        notes = len(found) - errors
        damage = f"damage in {counted(errors, 'place')}" if errors else "no damage"
        print(f"{what}: {damage}, {counted(notes, 'note') if notes else 'no notes'}")
    if errors:
        raise typer.Exit(DAMAGED)


def _all_brokers(directories: Sequence[Path]) -> list[Path]:
    """Return the brokers' directories that are named or in those that are, each once."""
    brokers: dict[Path, Path] = {}
    for directory in directories:
        for path in broker_directories(directory, "kafkaesque log verify kafkaesque-data"):
            brokers.setdefault(path.resolve(), path)
    return list(brokers.values())


def _compare_replicas(
    screen: Screen, brokers: Sequence[Path]
) -> tuple[int, "list[tuple[Path, Finding]]"]:
    """Compare the partitions of which there are several; return how many, and what was found."""
    if len(brokers) == 1:
        return 0, []
    from kafkaesque.cli.compacted_topics import compacted_topics
    from kafkaesque.storage.replica_comparison import compare, find_replicas

    found: list[tuple[Path, Finding]] = []
    with screen.progress("comparing", sum(map(_size, brokers)), is_bytes=True) as bar:
        disks = {str(path): read_only_disk(path, bar.advance) for path in brokers}
        compacted = set().union(*map(compacted_topics, disks.values()))
        sets = find_replicas(disks)
        for each in sets:
            is_compacted = each.identity.topic_id in compacted
            for broker, finding in compare(each, is_compacted=is_compacted):
                found.append((Path(broker), finding))
    return len(sets), found


@app.command()
def dump(
    directory: DirectoryArgument,
    partition: PartitionsOption = None,
    records: Annotated[
        bool, typer.Option("--records", help="The messages, not only the batches.")
    ] = False,
    offset: Annotated[int, typer.Option("--offset", "-o", min=0, help="Begin there.")] = 0,
    count: Annotated[
        int | None,
        typer.Option("--max", "-n", min=1, help="At most so many lines of each partition."),
    ] = None,
    wal: Annotated[
        bool, typer.Option("--wal", help="The write-ahead log, not the partitions.")
    ] = False,
    keeper_file: Annotated[
        Path | None,
        typer.Option(
            "--keeper-file",
            metavar="FILE",
            help="With --records: key.keeper.file of the broker, to read encrypted topics.",
            show_default=False,
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Print what is in the segments, a line each: batches, or with --records messages.

    Messages in JSON look as in `consume --json`, and `publish --format json` reads them. Unlike
    there, messages of aborted transactions are included. Of encrypted topics there is a line for
    each batch, unless --keeper-file opens them.

    \b
    Example:
      kafkaesque log dump kafkaesque-data/broker-1 --partition orders-0
      kafkaesque log dump kafkaesque-data/broker-1 -p orders-0 --records --json --max 10
      kafkaesque log dump kafkaesque-data/broker-1 -p orders-0 --records --keeper-file keeper.keys
      kafkaesque log dump kafkaesque-data/broker-1 --wal
    """
    disk = read_only_disk(_one_broker(directory))
    write = _writer(json)
    if keeper_file is not None and not records:
        raise wrong_usage("--keeper-file is of no use without --records", "--records, too")
    if wal:
        damaged = dump_wal_files(disk, write)
    else:
        choice = Choice(
            offset_min=offset,
            count_max=count,
            records=records,
            sealed=_sealed_records(disk, keeper_file),
        )
        damaged = False
        for name in _chosen(disk, partition):
            damaged |= dump_partition(disk, name, choice, write)
    if damaged:
        raise typer.Exit(DAMAGED)


def _sealed_records(disk: "Disk", keeper_file: Path | None) -> "SealedRecords | None":
    if keeper_file is None:
        return None
    from kafkaesque.cli.sealed_records import SealedRecords

    return SealedRecords(disk, keeper_file)


def _one_broker(directory: Path) -> Path:
    """Return the directory of the broker that is meant.

    Raises:
        CommandFailed: there is none, or several.
    """
    found = broker_directories(directory, "kafkaesque log dump kafkaesque-data/broker-1")
    if len(found) > 1:
        raise wrong_usage(
            f"{directory} holds the data of {len(found)} brokers: one of them is dumped at a time",
            f"kafkaesque log dump {found[0]}",
        )
    return found[0]


def broker_directories(directory: Path, example: str) -> list[Path]:
    """Return the directory itself, if it is a broker's, or those of the brokers in it.

    Raises:
        CommandFailed: there is none; it shows the example of a command that finds some.
    """
    if _is_brokers(directory):
        return [directory]
    found = sorted(path for path in directory.glob("broker-*") if _is_brokers(path))
    if not found:
        raise wrong_usage(f"{directory} holds no broker's data: there is no {META}", example)
    return found


def _is_brokers(directory: Path) -> bool:
    """Tell whether it holds a broker's data, maybe not all of it any more."""
    return any((directory / name).exists() for name in (META, CHECKPOINT))


def _writer(json: bool) -> Callable[[Line], None]:
    """Return what writes a line: JSON, or cells between tabs below one line of names."""
    if json:
        return lambda line: print(json_codec.dumps(line, ensure_ascii=False))
    is_first = True

    def write(line: Line) -> None:
        nonlocal is_first
        if is_first:
            print("\t".join(name.upper().replace("_", "-") for name in line))
            is_first = False
        print("\t".join(map(_cell, line.values())))

    return write


def _cell(value: object) -> str:
    if value is None:
        return "-"
    text = value if isinstance(value, str) else json_codec.dumps(value, ensure_ascii=False)
    return text.replace("\t", " ").replace("\n", " ")


def _chosen(disk: "Disk", asked: Sequence[str] | None) -> list[str]:
    known = [name for name in disk.list_dir(".") if disk.exists(f"{name}/{PARTITION_METADATA}")]
    for name in asked or ():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3)
            raise CommandFailed(
                f"there is no partition {name} here",
                hint=f"{' or '.join(near)}" if near else f"one of {', '.join(known[:SHOWN_MAX])}",
            )
    return list(asked) if asked else known


def _document(path: Path, finding: "Finding") -> Line:
    return {
        "severity": finding.severity.value,
        "file": str(path / finding.path),
        "byte": finding.position,
        "message": finding.message,
    }


def _size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
