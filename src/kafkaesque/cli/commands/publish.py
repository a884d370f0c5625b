"""`kafkaesque publish`: messages from arguments, files or standard input into a topic."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    new_app,
    parse_pairs,
    wrong_usage,
)
from kafkaesque.cli.exit_codes import INTERRUPTED
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.message_format import Format, Header, Outgoing, choose_format, line_reader
from kafkaesque.cli.screen import Progress, Screen

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

    from kafkaesque.cli.kafka import Connection

#: Creation takes a moment; a switch that forbids it looks the same until this is over.
CREATION_TIMEOUT_S = 3.0
DELIVERY_TIMEOUT_S = 120
FLUSH_STEP_S = 0.2
QUEUE_WAIT_S = 0.1
POLL_S = 0.1
#: A bar that is told of every line would cost more than the line.
PROGRESS_BYTES = 16 * 1024

#: What the cluster says of a topic that it is about to create.
_WHILE_CREATED = ("UNKNOWN_TOPIC_OR_PART", "LEADER_NOT_AVAILABLE")

app = new_app()

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)]
MessagesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[MESSAGE]...", help="Default: lines of standard input."),
]
FileOption = Annotated[
    list[Path] | None,
    typer.Option("--file", "-f", help="Lines of a file; - is standard input. May be repeated."),
]
KeyOption = Annotated[str | None, typer.Option("--key", "-k", help="The key of all messages.")]
SeparatorOption = Annotated[str | None, typer.Option(help="A line is a key, this, and a value.")]
HeaderOption = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", metavar="NAME=VALUE", help="May be repeated."),
]
PartitionOption = Annotated[
    int | None, typer.Option("--partition", "-p", min=0, help="Default: by the key.")
]
FormatOption = Annotated[
    Format | None, typer.Option("--format", help="What a line holds.", show_default="value")
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
    line_format: FormatOption = None,
    acks: Annotated[str, typer.Option(help="0, 1 or all.")] = "all",
    compression: Annotated[str, typer.Option(help="none, gzip, snappy, lz4 or zstd.")] = "none",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Publish messages; returns once all of them are acknowledged.

    \b
    Example:
      kafkaesque publish greetings hello "good morning"
      kafkaesque publish orders --file orders.txt --key-separator :
      cat more.jsonl | kafkaesque publish orders --format json --header source=shop
    """
    read = line_reader(choose_format(line_format, key_separator), key_separator)
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
        sender = Sender(Connection(bootstrap), topic, shared, settings)
        with _progress(screen, topic, inputs) as bar:
            lines = _from_arguments(messages) if messages else _lines(inputs, bar)
            is_interrupted = sender.send_all(_read_all(read, lines))
    _report(screen, sender, topic)
    if is_interrupted:
        raise typer.Exit(INTERRUPTED)


class Sender:
    """Publishes to one topic and counts what became of it."""

    def __init__(
        self, connection: "Connection", topic: str, shared: Outgoing, settings: dict[str, Any]
    ) -> None:
        self.failed = 0
        self.first_error: KafkaError | None = None
        self._sent = 0
        self._topic = topic
        self._shared = shared
        self._producer = connection.producer({**settings, "on_delivery": self._on_delivery})
        wait_for_topic(connection, self._producer, topic, shared.partition)

    @property
    def acknowledged(self) -> int:
        """Messages that were sent and neither failed nor still wait."""
        return self._sent - self.failed - len(self._producer)

    def send_all(self, messages: Iterable[Outgoing]) -> bool:
        """Send and wait for all acknowledgements; return whether Ctrl-C came between."""
        try:
            for message in messages:
                self._send(message)
                self._producer.poll(0)
            while self._producer.flush(FLUSH_STEP_S):
                pass
        except KeyboardInterrupt:
            self._producer.flush(FLUSH_STEP_S)
            return True
        except CommandFailed:
            # A line that is no message ends the work; what came before it is still delivered.
            while self._producer.flush(FLUSH_STEP_S):
                pass
            raise
        return False

    def _send(self, message: Outgoing) -> None:
        shared = self._shared
        optional: dict[str, Any] = {}
        partition = message.partition if shared.partition is None else shared.partition
        if partition is not None:
            optional["partition"] = partition
        if message.timestamp_ms is not None:
            optional["timestamp"] = message.timestamp_ms
        headers = [*message.headers, *shared.headers]
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    value=message.value,
                    key=shared.key if message.key is None else message.key,
                    headers=headers or None,  # type: ignore[arg-type]
                    **optional,
                )
            except BufferError:
                # Full: as fast as the brokers take it, and no faster.
                self._producer.poll(QUEUE_WAIT_S)
            else:
                self._sent += 1
                return

    def _on_delivery(self, error: "KafkaError | None", message: "Message") -> None:
        if error is not None:
            self.failed += 1
            self.first_error = self.first_error or error


def wait_for_topic(
    connection: "Connection", client: "Producer", topic: str, partition: int | None = None
) -> None:
    """Wait until the topic is there; asking for it creates it, where the broker allows that.

    Raises:
        CommandFailed: it is not there, or has no such partition.
    """
    from kafkaesque.cli.kafka import explain

    deadline = time.monotonic() + CREATION_TIMEOUT_S
    while True:
        found = connection.metadata(client, topic).topics[topic]
        if found.error is None and found.partitions:
            break
        error = found.error
        is_over = time.monotonic() > deadline
        if error is not None and (is_over or error.name() not in _WHILE_CREATED):
            failure = explain(error, f"topic {topic}")
            failure.hint = f"kafkaesque topic create {topic}"
            raise failure
        time.sleep(POLL_S)
    if partition is not None and partition not in found.partitions:
        raise CommandFailed(
            f"topic {topic} has no partition {partition}: it has 0 to {max(found.partitions)}"
        )


def _settings(acks: str, compression: str) -> dict[str, Any]:
    if acks not in ("0", "1", "all", "-1"):
        raise wrong_usage(f"--acks {acks} is none of 0, 1, all")
    if compression not in ("none", "gzip", "snappy", "lz4", "zstd"):
        raise wrong_usage(f"--compression {compression} is none of none, gzip, snappy, lz4, zstd")
    return {
        "acks": acks,
        "enable.idempotence": acks in ("all", "-1"),
        "compression.type": compression,
        # As Kafka's own clients and our text protocol do, so that a key has one partition.
        "partitioner": "murmur2_random",
        "delivery.timeout.ms": DELIVERY_TIMEOUT_S * 1000,
    }


def _headers(words: Sequence[str]) -> list[Header]:
    parse_pairs(words, "--header", "source=shop")
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
    screen.done(f"published {sender.acknowledged} messages to {topic}", document)
    if sender.first_error is not None:
        from kafkaesque.cli.kafka import explain

        raise explain(sender.first_error, f"topic {topic}, {sender.failed} messages not published")


def _read_all(read: Callable[[bytes], Outgoing], lines: Iterable[bytes]) -> Iterator[Outgoing]:
    for number, line in enumerate(lines, start=1):
        try:
            yield read(line)
        except CommandFailed as failure:
            failure.message = f"line {number}: {failure.message}"
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
