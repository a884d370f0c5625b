"""`kafkaesque publish`: messages from arguments, files or standard input into a topic."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    new_app,
    parse_pairs,
    wrong_usage,
)
from kafkaesque.cli.completion import TopicArgument
from kafkaesque.cli.exit_codes import INTERRUPTED
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.message_format import Format, Header, Outgoing, choose_format, line_reader
from kafkaesque.cli.screen import Progress, Screen, counted
from kafkaesque.cli.sender import Sender, Target
from kafkaesque.cli.topic_name import check_name

DELIVERY_TIMEOUT_S = 120
#: A bar that is told of every line would cost more than the line.
PROGRESS_BYTES = 16 * 1024

app = new_app()

MessagesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[MESSAGE]...", help="Default: lines of standard input."),
]
FileOption = Annotated[
    list[Path] | None,
    typer.Option("--file", "-f", help="Lines of a file; - is standard input. May be repeated."),
]
KeyOption = Annotated[str | None, typer.Option("--key", "-k", help="The key of all messages.")]
SeparatorOption = Annotated[
    str | None, typer.Option(help="A line is a key, this separator, and a value.")
]
HeaderOption = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", metavar="NAME=VALUE", help="May be repeated."),
]
PartitionOption = Annotated[
    int | None, typer.Option("--partition", "-p", min=0, help="Default: by the key.")
]
KeepOption = Annotated[
    bool,
    typer.Option(
        "--keep-partitions", help="With --format json: to the partition that the line names."
    ),
]
FormatOption = Annotated[
    Format | None, typer.Option("--format", help="What a line contains.", show_default="value")
]


@app.command()
def publish(
    topic: TopicArgument,
    messages: MessagesArgument = None,
    file: FileOption = None,
    key: KeyOption = None,
    key_separator: SeparatorOption = None,
    header: HeaderOption = None,
    partition: PartitionOption = None,
    keep_partitions: KeepOption = False,
    line_format: FormatOption = None,
    acks: Annotated[str, typer.Option(help="0, 1 or all.")] = "all",
    compression: Annotated[str, typer.Option(help="none, gzip, snappy, lz4 or zstd.")] = "none",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Publish messages; returns when all of them are acknowledged.

    It ends at a line that is not a valid message; the lines before it are published.

    \b
    Example:
      kafkaesque publish greetings hello "good morning"
      kafkaesque publish orders --file orders.txt --key-separator :
      cat more.jsonl | kafkaesque publish orders --format json --header source=shop
    """
    check_name(topic)
    chosen = choose_format(line_format, key_separator)
    if keep_partitions and (chosen is not Format.JSON or partition is not None):
        raise wrong_usage(
            "--keep-partitions goes with --format json, and not with --partition",
            f"kafkaesque publish {topic} --format json --keep-partitions",
        )
    read = line_reader(chosen, key_separator)
    shared = Outgoing(
        value=None,
        key=None if key is None else key.encode(),
        headers=_headers(header or ()),
        partition=partition,
    )
    settings = _settings(acks, compression)
    if messages and file:
        raise wrong_usage("messages come as arguments or from files, not both")
    screen = Screen(json=json)
    with ExitStack() as opened:
        inputs = [] if messages else [_open(each, opened) for each in file or [Path("-")]]
        from kafkaesque.cli.kafka import Connection, outage_teller

        settings["error_cb"] = outage_teller(screen.note)
        connection = Connection(bootstrap)
        target = Target(
            topic=topic,
            shared=shared,
            keeps_partitions=keep_partitions,
            unit="message" if messages else "line",
        )
        sender = Sender(connection, target, settings, screen.note)
        with _progress(screen, topic, inputs) as bar:
            lines = _from_arguments(messages) if messages else _lines(inputs, bar)
            ended_by = sender.send_all(_read_all(read, lines, target.unit))
    _report(screen, sender, topic)
    failure = ended_by or sender.failure()
    if isinstance(failure, CommandFailed):
        raise failure
    if failure is not None:
        raise typer.Exit(INTERRUPTED)


def _settings(acks: str, compression: str) -> dict[str, Any]:
    if acks not in ("0", "1", "all", "-1"):
        raise wrong_usage(f"--acks {acks} is not one of 0, 1, all")
    if compression not in ("none", "gzip", "snappy", "lz4", "zstd"):
        raise wrong_usage(
            f"--compression {compression} is not one of none, gzip, snappy, lz4, zstd"
        )
    return {
        "acks": acks,
        "enable.idempotence": acks in ("all", "-1"),
        "compression.type": compression,
        # As Kafka's own clients and our text protocol do, so that a key has one partition.
        "partitioner": "murmur2_random",
        "delivery.timeout.ms": DELIVERY_TIMEOUT_S * 1000,
    }


def _headers(words: Sequence[str]) -> list[Header]:
    for word in words:
        # One by one: a message may have several headers of a name.
        parse_pairs([word], "--header", "source=shop")
    return [(name, value.encode()) for name, _, value in (word.partition("=") for word in words)]


def _open(path: Path, opened: ExitStack) -> BinaryIO:
    if str(path) == "-":
        return sys.stdin.buffer
    try:
        return opened.enter_context(path.open("rb"))
    except OSError as error:
        raise CommandFailed(f"cannot read {path}: {(error.strerror or '').lower()}") from None


def _size(inputs: Sequence[BinaryIO]) -> int | None:
    """Return how many bytes there are to read, if that is known."""
    try:
        return sum(os.fstat(each.fileno()).st_size for each in inputs) or None
    except OSError:
        return None


def _progress(
    screen: Screen, topic: str, inputs: Sequence[BinaryIO]
) -> AbstractContextManager[Progress]:
    is_typed = bool(inputs) and inputs[0].isatty()
    if is_typed:
        screen.note("Type messages, one a line. Ctrl-D ends.")
    what = f"publishing to {topic}"
    return screen.progress(what, _size(inputs), is_bytes=True, is_hidden=is_typed)


def _report(screen: Screen, sender: Sender, topic: str) -> None:
    document = {"topic": topic, "published": sender.acknowledged, "failed": sender.failed}
    screen.done(f"published {counted(sender.acknowledged, 'message')} to {topic}", document)


def _read_all(
    read: Callable[[bytes], Outgoing], lines: Iterable[bytes], unit: str
) -> Iterator[Outgoing]:
    for number, line in enumerate(lines, start=1):
        try:
            yield read(line)
        except CommandFailed as failure:
            failure.message = f"{unit} {number}: {failure.message}"
            raise


def _from_arguments(messages: Sequence[str]) -> Iterator[bytes]:
    return (message.encode() for message in messages)


def _lines(inputs: Sequence[BinaryIO], bar: Progress) -> Iterator[bytes]:
    untold = 0
    for each in inputs:
        for line in each:
            untold += len(line)
            if untold >= PROGRESS_BYTES:
                bar.advance(untold)
                untold = 0
            yield line.removesuffix(b"\n")
    bar.advance(untold)
