"""`kafkaesque consume`: prints messages of topics, alone or as a member of a group."""

import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    new_app,
    number_option,
    wrong_usage,
)
from kafkaesque.cli.completion import topic_names
from kafkaesque.cli.exit_codes import TIMED_OUT
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.isolation import Isolation
from kafkaesque.cli.line_template import template_writer
from kafkaesque.cli.message_format import Format, Incoming, choose_format, line_writer
from kafkaesque.cli.offset_words import parse_place
from kafkaesque.cli.screen import Progress, Screen, counted
from kafkaesque.cli.topic_name import check_name
from kafkaesque.cli.topic_reader import BATCH_MAX, Reader

if TYPE_CHECKING:
    from confluent_kafka import Message

FETCH_WAIT_MS = 500
FETCH_WAIT_AT_END_MS = 50

app = new_app()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """When to end; without any of these only Ctrl-C ends it."""

    max_messages: int | None
    at_end: bool
    idle_s: float | None


TopicsArgument = Annotated[
    list[str], typer.Argument(metavar="TOPIC...", show_default=False, autocompletion=topic_names)
]
BeginningOption = Annotated[
    bool, typer.Option("--from-beginning", help="Default: only what comes from now on.")
]
OffsetOption = Annotated[
    str | None,
    typer.Option(
        "--offset",
        "-o",
        metavar="PLACE",
        help="earliest, latest, a number, -N for N before the end, or a time.",
    ),
]
PartitionOption = Annotated[
    list[int] | None,
    typer.Option("--partition", "-p", min=0, help="May be repeated; default: all."),
]
GroupOption = Annotated[
    str | None,
    typer.Option(
        "--group", "-g", help="Share the partitions with the group; begin at its offsets."
    ),
]
MaxOption = Annotated[
    int | None, typer.Option("--max", "-n", min=1, help="End after so many messages.")
]
EndOption = Annotated[bool, typer.Option("--until-end", help="End when there are no more.")]
TimeoutOption = Annotated[
    float | None,
    number_option(least=0.1, help="End when no message has come for this many seconds."),
]
FormatOption = Annotated[
    Format | None, typer.Option("--format", help="What a line shows.", show_default="value")
]
JsonLinesOption = Annotated[bool, typer.Option("--json", help="The same as --format json.")]
SeparatorOption = Annotated[
    str | None, typer.Option(help="Print the key, this separator, and the value.")
]
TemplateOption = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help="A line as you want it, such as '{topic} {offset} {key} {value.customer.id}'. Others: "
        "partition, timestamp, timestamp_ms, headers, header.NAME; {value:hex}, :base64, :json, "
        ":size.",
    ),
]
IsolationOption = Annotated[
    Isolation,
    typer.Option(help="read_uncommitted also prints messages of open and aborted transactions."),
]


@app.command()
def consume(
    topics: TopicsArgument,
    from_beginning: BeginningOption = False,
    offset: OffsetOption = None,
    partition: PartitionOption = None,
    group: GroupOption = None,
    max_messages: MaxOption = None,
    until_end: EndOption = False,
    timeout: TimeoutOption = None,
    line_format: FormatOption = None,
    json: JsonLinesOption = False,
    key_separator: SeparatorOption = None,
    template: TemplateOption = None,
    isolation: IsolationOption = Isolation.READ_COMMITTED,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
) -> None:
    """Print messages of one topic or of several, one a line; Ctrl-C ends it.

    With --max and --timeout, ends with 5 if fewer messages came.

    \b
    Example:
      kafkaesque consume greetings --from-beginning --max 10
      kafkaesque consume orders --group billing --json
      kafkaesque consume orders --partition 0 --offset -5 --until-end
      kafkaesque consume orders bills --template '{topic} {timestamp} {value.customer.id}'
    """
    names = list(dict.fromkeys(topics))
    for each in names:
        check_name(each)
    if group == "":
        raise wrong_usage("a group's name is not empty", "--group billing, or leave out --group")
    if group is not None and (offset is not None or partition):
        raise wrong_usage(
            "a group decides on partitions and offsets by itself",
            "kafkaesque group reset-offsets, or leave out --group",
        )
    if from_beginning and offset is not None:
        raise wrong_usage("--from-beginning and --offset contradict each other")
    if template is not None and (json or line_format is not None or key_separator is not None):
        raise wrong_usage("--template says it all: leave out --format, --json and --key-separator")
    if template is None:
        chosen = choose_format(Format.JSON if json else line_format, key_separator)
        printer = Printer(line_writer(chosen, key_separator))
    else:
        printer = Printer(template_writer(template))
    place = parse_place(offset or ("earliest" if from_beginning else "latest"))
    stop = Stop(max_messages=max_messages, at_end=until_end, idle_s=timeout)
    from kafkaesque.cli.kafka import Connection

    # That a partition ends is told by a fetch that has waited in vain.
    fetch_wait_ms = FETCH_WAIT_AT_END_MS if until_end else FETCH_WAIT_MS
    reader = Reader(Connection(bootstrap), names, place, group, fetch_wait_ms, isolation)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        count = _consume(reader, printer, stop, partition)
        if max_messages is None or count < max_messages:
            reader.check_all_read()
    except KeyboardInterrupt:
        return
    finally:
        reader.close()
    if max_messages is not None and count < max_messages and not until_end:
        raise CommandFailed(
            f"only {count} of {counted(max_messages, 'message')} came before {timeout:g} s of "
            "silence",
            exit_code=TIMED_OUT,
        )


class Printer:
    """Writes messages to standard output."""

    def __init__(self, write_line: Callable[[Incoming], bytes]) -> None:
        self._write_line = write_line

    def write(self, messages: "list[Message]") -> None:
        sys.stdout.buffer.write(b"".join(map(self._write_line, messages)))
        sys.stdout.buffer.flush()


def _consume(reader: Reader, printer: Printer, stop: Stop, partitions: list[int] | None) -> int:
    total = reader.start(partitions)
    if stop.max_messages is not None:
        ends_earlier = stop.at_end and total is not None and total < stop.max_messages
        total = total if ends_earlier else stop.max_messages
    is_endless = stop.max_messages is None and not stop.at_end
    # On a terminal the messages themselves show that it goes on.
    is_hidden = sys.stdout.isatty() or is_endless
    with Screen().progress("consuming", total, is_hidden=is_hidden) as bar:
        return run(reader, printer, stop, bar)


def run(reader: Reader, printer: Printer, stop: Stop, bar: Progress) -> int:
    """Print until one of the reasons to stop; return how many messages were printed."""
    count = 0
    last_at = time.monotonic()
    while stop.max_messages is None or count < stop.max_messages:
        wanted = BATCH_MAX if stop.max_messages is None else stop.max_messages - count
        messages = reader.read(wanted)
        is_over = not messages and stop.at_end and reader.is_at_end()
        reader.note_wait(has_come=bool(messages) or is_over, is_awaited=stop.at_end)
        if messages:
            printer.write(messages)
            reader.printed(messages)
            count += len(messages)
            bar.advance(len(messages))
            last_at = time.monotonic()
        elif is_over:
            break
        elif stop.idle_s is not None and time.monotonic() - last_at > stop.idle_s:
            break
    return count
