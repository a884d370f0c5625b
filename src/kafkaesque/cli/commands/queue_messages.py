"""`kafkaesque queue put`, `get` and `peek`: a queue's messages."""

import math
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from io import BufferedReader
from typing import TYPE_CHECKING, Annotated, Final, cast

import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    number_option,
    parse_pairs,
    wrong_usage,
)
from kafkaesque.cli.completion import QueueArgument
from kafkaesque.cli.exit_codes import TIMED_OUT
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.message_format import json_bytes
from kafkaesque.cli.screen import Cell, Screen, Table, counted

if TYPE_CHECKING:
    from kafkaesque.cli.queue_requests import Queue, Shown
    from kafkaesque.model.kernel_types import Headers
    from kafkaesque.model.records import Record

#: Bytes of standard input that are read at a time, and lines that are put at a time.
READ_BYTES: Final = 256 * 1024
LINES_MAX: Final = 1_000
#: The longest line: no queue takes a longer message.
LINE_BYTES_MAX: Final = 8 * 1024 * 1024
#: Messages that are kept at a time.
KEPT_MAX: Final = 10_000
#: Messages that are taken at a time: all of them wait until the first is printed.
TAKEN_MAX: Final = 100
PRIORITY_MAX: Final = 31
#: As far ahead as a message may be delayed.
AHEAD_S_MAX: Final = 10 * 366 * 24 * 3600.0
VALUE_WIDTH_MAX: Final = 60

VhostOption = Annotated[
    str, typer.Option("--vhost", metavar="NAME", help="The virtual host, as AMQP has them.")
]
CountOption = Annotated[
    int, typer.Option("--count", "-n", min=1, max=1_000_000, help="Messages at most.")
]
PriorityOption = Annotated[
    int, typer.Option(min=0, max=PRIORITY_MAX, help="Up to the queue's max.priority.")
]
GroupOption = Annotated[
    str, typer.Option(help="One after the other, or in turn: ordered.groups, fair.groups.")
]
DelayOption = Annotated[
    float, number_option(least=0, most=AHEAD_S_MAX, help="Seconds before it can be taken.")
]
ExpiresOption = Annotated[
    float, number_option(least=0, most=AHEAD_S_MAX, help="Seconds to live; 0: as the queue has it.")
]
IdOption = Annotated[str, typer.Option("--id", help="Of one message: duplicates are dropped.")]


class Keep(StrEnum):
    """What becomes of messages that were printed, if they are not acknowledged."""

    LOCKED = "locked"
    RELEASED = "released"


def queue_of(bootstrap: str, vhost: str, name: str) -> "Queue":
    """Return which queue is meant.

    Raises:
        CommandFailed: there can be none of the name.
    """
    from kafkaesque.broker.metadata.queue_names import QueueName, check_queue_name
    from kafkaesque.cli.queue_requests import Queue
    from kafkaesque.model.errors import InvalidRequest

    try:
        check_queue_name(QueueName(vhost, name))
    except InvalidRequest as refusal:
        raise wrong_usage(str(refusal), "a name such as orders") from None
    return Queue(bootstrap, vhost, name)


# -- put


def put(
    name: QueueArgument,
    messages: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MESSAGE]...", help="Default: lines of standard input."),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of all messages.")] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="May be repeated."),
    ] = None,
    priority: PriorityOption = 0,
    group: GroupOption = "",
    delay: DelayOption = 0,
    expires: ExpiresOption = 0,
    message_id: IdOption = "",
    vhost: VhostOption = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Put messages; returns when all of them are on a majority of the replicas.

    --id counts in a queue with deduplication.ms.

    \b
    Example:
      kafkaesque queue put mails hello "good morning"
      kafkaesque queue put orders --priority 5 --delay 60 --header source=shop '{"order": 17}'
      cat tasks.txt | kafkaesque queue put tasks
    """
    from kafkaesque.cli import queue_requests as requests
    from kafkaesque.queues.arrival import headers_of, identity_of

    if message_id and len(messages or ()) != 1:
        raise wrong_usage("--id is the id of one message", f"queue put {name} MESSAGE --id 17")
    queue = queue_of(bootstrap, vhost, name)
    own = _headers(header or ())
    screen = Screen(json=json)
    offsets: list[int] = []
    is_whole = False
    try:
        for lines in _batches(messages, screen):
            now_ms = time.time_ns() // 1_000_000
            said = headers_of(
                priority=priority,
                group=group.encode(),
                delay_ms=math.ceil(delay * 1000),
                time_to_live_ms=math.ceil(expires * 1000),
                identity=identity_of(message_id.encode()) if message_id else b"",
            )
            offsets += requests.put(queue, _records(lines, key, (*own, *said), now_ms))
        is_whole = True
    finally:
        refused = offsets.count(requests.FULL)
        count = len(offsets) - refused
        document = {"queue": name, "vhost": vhost, "put": count, "refused": refused}
        if messages:
            document["offsets"] = [None if each == requests.FULL else each for each in offsets]
        if is_whole or offsets:
            screen.done(f"put {counted(count, 'message')} into {name}", document)
    if refused:
        raise CommandFailed(
            f"{counted(refused, 'message')} not put: queue {name} is full",
            hint=f"kafkaesque queue describe {name}",
        )


def _headers(words: Sequence[str]) -> "Headers":
    from kafkaesque.model.message_headers import PREFIX

    for word in words:
        # One by one: a message may have several headers of a name.
        parse_pairs([word], "--header", "source=shop")
        if word.startswith(PREFIX):
            raise wrong_usage(
                f"headers that begin with {PREFIX} are the broker's",
                "--priority, --group, --delay, --expires, --id",
            )
    return tuple((name, value.encode()) for name, _, value in (w.partition("=") for w in words))


def _records(
    lines: Sequence[bytes], key: str | None, headers: "Headers", now_ms: int
) -> "list[Record]":
    from kafkaesque.model.records import Record

    given = None if key is None else key.encode()
    return [Record(number, now_ms, given, line, headers) for number, line in enumerate(lines)]


def _batches(messages: Sequence[str] | None, screen: Screen) -> Iterator[list[bytes]]:
    """Return what is put together: what has come by then is not kept waiting for more."""
    if messages:
        yield from _divided([each.encode() for each in messages])
        return
    if sys.stdin.isatty():
        screen.note("Type messages, one a line. Ctrl-D ends.")
    source = cast(BufferedReader, sys.stdin.buffer)
    begun = b""
    while data := source.read1(READ_BYTES):
        *lines, begun = (begun + data).split(b"\n")
        yield from _divided(lines)
        if len(begun) > LINE_BYTES_MAX:
            raise CommandFailed(f"a line has more than {LINE_BYTES_MAX} bytes")
    if begun:
        yield [begun]


def _divided(lines: list[bytes]) -> Iterator[list[bytes]]:
    """Return parts that one request can have; a line alone may be as long as it is."""
    part: list[bytes] = []
    size = 0
    for line in lines:
        if part and (len(part) >= LINES_MAX or size + len(line) > READ_BYTES):
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line)
    if part:
        yield part


# -- get


def get(
    name: QueueArgument,
    count: CountOption = 1,
    wait: Annotated[
        float, number_option("--wait", "-w", least=0, help="Seconds to wait for a message.")
    ] = 0,
    keep: Annotated[
        Keep | None,
        typer.Option(
            "--keep",
            help="Do not acknowledge: others get them after visibility.timeout.ms, or at once.",
        ),
    ] = None,
    vhost: VhostOption = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: Annotated[
        bool, typer.Option("--json", help="One JSON object per message, with all that it has.")
    ] = False,
) -> None:
    """Print messages, one a line, and acknowledge them when they are printed.

    Ends with 5 if no message came. Messages that are taken together are printed oldest first. A
    message that is printed and not acknowledged, for example because the connection broke, comes
    again later. Of a queue with sharing=single-active or exclusive the command is a consumer as
    long as it runs.

    \b
    Example:
      kafkaesque queue get mails
      kafkaesque queue get tasks --count 100 --wait 30 --json
    """
    from kafkaesque.cli import queue_requests as requests
    from kafkaesque.cli.queue_taker import Taker

    if keep is not None and count > KEPT_MAX:
        raise wrong_usage(f"--keep goes with --count {KEPT_MAX} at most")
    queue = queue_of(bootstrap, vhost, name)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    deadline = time.monotonic() + wait
    left = count
    kept: list[Shown] = []
    taker = Taker(queue, keep is not Keep.LOCKED)
    try:
        while left:
            wait_ms = max(0, int((deadline - time.monotonic()) * 1000))
            asked_ms = min(wait_ms, requests.WAIT_MS_MAX)
            taken = taker.take(min(left, TAKEN_MAX), asked_ms)
            if taken:
                left -= len(taken)
                _hand_out(queue, taken, keep, json=json)
                kept += taken if keep is Keep.RELEASED else []
            elif wait_ms <= asked_ms:
                break
    finally:
        # Not before: they would be printed once more.
        if kept:
            requests.settle(queue, kept, requests.RELEASE)
        taker.close()
    if left == count:
        raise CommandFailed(
            f"no message of queue {name} was ready" + (f" within {wait:g} s" if wait else ""),
            hint="--wait SECONDS; kafkaesque queue describe " + name,
            exit_code=TIMED_OUT,
        )


def _hand_out(queue: "Queue", taken: "list[Shown]", keep: Keep | None, *, json: bool) -> None:
    """Print messages and acknowledge them; what cannot be printed is released."""
    from kafkaesque.cli import queue_requests as requests

    try:
        sys.stdout.buffer.write(b"".join(_line(each, json=json) for each in taken))
        sys.stdout.buffer.flush()
    except BaseException:
        requests.settle(queue, taken, requests.RELEASE)
        raise
    if keep is None:
        stale = requests.settle(queue, taken, requests.ACCEPT)
        if stale:
            Screen().note(f"{counted(stale, 'message')} of these may come again: it was too late")


def _line(shown: "Shown", *, json: bool) -> bytes:
    if not json:
        return (shown.value or b"") + b"\n"
    import json as codec

    return codec.dumps(_document(shown), ensure_ascii=False).encode() + b"\n"


def _document(shown: "Shown") -> dict[str, object]:
    document: dict[str, object] = {
        "offset": shown.offset,
        "timestamp_ms": shown.timestamp_ms,
        "key": json_bytes(shown.key),
        "value": json_bytes(shown.value),
        "headers": [[name, json_bytes(value)] for name, value in shown.own_headers],
        "attempt": shown.attempt,
        "failures": shown.failures,
    }
    if shown.deaths:
        document["deaths"] = [each._asdict() for each in shown.deaths]
    return document


# -- peek


def peek(
    name: QueueArgument,
    count: CountOption = 10,
    start: Annotated[
        int, typer.Option("--from", metavar="OFFSET", min=0, help="From this message on.")
    ] = 0,
    partition: Annotated[
        int,
        typer.Option("--partition", "-p", min=0, help="Of a queue with several."),
    ] = 0,
    vhost: VhostOption = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Show messages, oldest first, without taking them: where each is, and why.

    A message is ready, delayed, in-flight (a consumer has it), parked (given up, with no queue for
    dead letters) or moving to another queue.

    \b
    Example:
      kafkaesque queue peek orders.dead --count 3
    """
    from kafkaesque.cli import queue_requests as requests

    found = requests.peek(queue_of(bootstrap, vhost, name), start, count, partition)
    rows: list[tuple[Cell, ...]] = [
        (each.offset, each.place, each.failures, _why(each), _short(each.value)) for each in found
    ]
    documents = [
        {
            **_document(each),
            "place": each.place,
            "not_before_ms": each.not_before_ms or None,
            "not_after_ms": each.not_after_ms or None,
        }
        for each in found
    ]
    columns = ("OFFSET", "PLACE", "FAILURES", "WHY", "MESSAGE")
    Screen(json=json).show(Table(columns=columns, rows=rows), documents)


def _why(shown: "Shown") -> str:
    """Return what is known of why a message is where it is."""
    from kafkaesque.broker.queues.transforming import failed_of

    said = [
        f"{each.reason} in {each.queue} at {_time(each.at_ms)}"
        + (f" after {counted(each.attempts, 'attempt')}" if each.attempts else "")
        for each in shown.deaths
    ]
    # Each rule has a line.
    said += failed_of(shown).splitlines()
    if shown.place == "delayed" and shown.not_before_ms:
        said.append(f"until {_time(shown.not_before_ms)}")
    if shown.not_after_ms:
        said.append(f"expires {_time(shown.not_after_ms)}")
    return "; ".join(said)


def _time(wall_ms: int) -> str:
    return datetime.fromtimestamp(wall_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _short(value: bytes | None) -> str:
    if value is None:
        return ""
    text = value.decode(errors="replace")
    return text if len(text) <= VALUE_WIDTH_MAX else text[: VALUE_WIDTH_MAX - 3] + "..."
