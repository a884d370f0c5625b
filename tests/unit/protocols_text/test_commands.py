"""Commands and the lines that answer them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.protocols.text import examples
from kafkaesque.protocols.text.answers import (
    WHAT_LENGTH_MAX,
    MessageLine,
    TopicLine,
    write_bad_command,
    write_consumed,
    write_help,
    write_message_line,
    write_ok,
    write_too_long,
    write_topics,
)
from kafkaesque.protocols.text.commands import (
    Auth,
    Command,
    Consume,
    Help,
    Publish,
    Quit,
    Subscribe,
    Topics,
    read_command,
)
from kafkaesque.protocols.text.errors import BadCommand
from kafkaesque.protocols.text.messages import TextMessage
from kafkaesque.protocols.text.positions import Place, Start
from kafkaesque.protocols.text.queue_commands import Ack, Get, Nack, Put
from kafkaesque.protocols.text.subscription import Subscription

EVERYBODY = Subscription(topic="flights", group="readers", partitions=None)


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (b"HELP", Help()),
        (b"help PUBS", Help()),
        (b"  Topics ", Topics()),
        (b"quit", Quit()),
        (b"PUBS flights  late ", Publish(topic="flights", message=TextMessage(value=b"late "))),
        (b"pubs\tflights\tlate", Publish(topic="flights", message=TextMessage(value=b"late"))),
        (
            b'PUBS flights {"Key": "a", "Body": "b"}',
            Publish(topic="flights", message=TextMessage(key=b"a", value=b"b")),
        ),
        (b"SUBS flights readers", Subscribe(subscription=EVERYBODY)),
        (b"subs flights readers all", Subscribe(subscription=EVERYBODY)),
        (
            b"SUBS flights readers 2,0-1",
            Subscribe(
                subscription=Subscription(topic="flights", group="readers", partitions=(0, 1, 2))
            ),
        ),
        (
            f"CONS flights {examples.SUBSCRIPTION_ID} next".encode(),
            Consume(subscription=EVERYBODY, start=Start(place=Place.NEXT)),
        ),
        (b"", None),
        (b" \t ", None),
    ],
)
def test_lines_that_ask_for_something(line: bytes, command: Command | None) -> None:
    assert read_command(line) == command


@pytest.mark.parametrize(
    ("line", "what", "example"),
    [
        (b"PUBS", "a topic and a message", "PUBS "),
        (b"PUBS flights", "needs a message", "PUBS "),
        (b"PUBS flights   ", "needs a message", "PUBS "),
        (b"SUBS", "not 0 words", "SUBS "),
        (b"SUBS flights", "not 1 word", "SUBS "),
        (b"SUBS flights readers 1 2", "not 4 words", "SUBS "),
        (b"SUBS flights readers x", "not a list of partitions", "SUBS "),
        (b"SUBS flights re\x07ders", "cannot be printed", "SUBS "),
        (b"SUBS flights " + b"r" * 250, "at most 249", "SUBS "),
        (b"CONS flights", "not 1 word", "CONS "),
        (b"CONS flights readers/all/d7e74a", "not 2 words", "CONS "),
        (b"CONS flights readers/all/d7e74a x", "an offset to begin at", "CONS "),
        (b"TOPICS please", "stands alone", "TOPICS"),
        (b"QUIT now", "stands alone", "QUIT"),
        (b"PUBLISH flights x", "did you mean PUBS", "HELP"),
        (b"HEAD / HTTP/1.1", "there is no command 'HEAD'", "HELP"),
        (b"GET / HTTP/1.1", "'HTTP/1.1' is not a number of seconds", "GET mails 10"),
        (b"\x00\x00\x00\x17" + b"\x00" * 200, "there is no command", "HELP"),
        (b"PUBS flights \xff", "byte 14 of the line is not UTF-8", "HELP"),
    ],
)
def test_lines_that_ask_for_nothing_possible(line: bytes, what: str, example: str) -> None:
    with pytest.raises(BadCommand) as caught:
        read_command(line)
    assert what in caught.value.what
    assert caught.value.example.startswith(example)


@given(line=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_every_line_is_a_command_or_gets_one_line_that_says_why_not(line: bytes) -> None:
    for prefix in (b"", b"PUBS t ", b"SUBS t ", b"CONS t readers/all/d7e74a "):
        try:
            read_command(prefix + line)
        except BadCommand as error:
            answer = write_bad_command(error)
            assert answer.startswith(b"ERROR ")
            assert answer.endswith(b"\r\n")
            assert answer.count(b"\n") == answer.count(b"\r") == 1


def test_an_error_does_not_repeat_a_long_line() -> None:
    with pytest.raises(BadCommand) as caught:
        read_command(b"CONS flights " + b"x" * 100_000 + b" 0")
    assert len(write_bad_command(caught.value)) < WHAT_LENGTH_MAX + 200


def test_all_that_help_shows_is_right() -> None:
    lines = write_help().decode().split("\r\n")
    assert lines[-2:] == ["OK", ""]
    shown = [line.strip() for line in lines if line.startswith("    ")]
    kinds = {type(read_command(line.encode())) for line in shown}
    assert kinds == {Publish, Subscribe, Consume, Put, Get, Ack, Nack, Auth}
    heads = [line.split()[0] for line in lines[:-2] if not line.startswith(" ")]
    assert heads == [
        "PUBS",
        "SUBS",
        "CONS",
        "PUT",
        "GET",
        "ACK",
        "NACK",
        "QUEUES",
        "AUTH",
        "TOPICS",
        "HELP",
        "QUIT",
    ]


def test_all_examples_of_errors_are_right() -> None:
    for name, text in vars(examples).items():
        if name.isupper() and name != "SUBSCRIPTION_ID":
            assert read_command(text.encode()) is not None


def test_the_shape_of_answers() -> None:
    assert write_ok("flights", 0, 17) == b"OK flights 0 17\r\n"
    assert b"1048576 bytes" in write_too_long()
    topics = [TopicLine("flights", 3, 2), TopicLine("t", 1, 1)]
    assert write_topics(topics).decode().split("\r\n") == [
        "flights partitions=3 replicas=2",
        "t       partitions=1 replicas=1",
        "OK 2 topics",
        "",
    ]
    assert write_topics([]) == b"OK 0 topics\r\n"
    line = MessageLine(1, 17, 1_700_000_000_123, TextMessage(key=b"a", value=b"b"))
    assert write_message_line(line) == (
        b'MSG 1 17 2023-11-14T22:13:20.123Z {"Key":"a","Body":"b"}\r\n'
    )
    assert write_consumed(1, "flights", "readers/all/d7e74a", "next", "") == (
        b"OK 1 message; go on with: CONS flights readers/all/d7e74a next\r\n"
    )


@given(timestamp_ms=st.integers(0, 253_402_300_799_999))
def test_times_are_shown_as_the_calendar_has_them(timestamp_ms: int) -> None:
    line = write_message_line(MessageLine(0, 0, timestamp_ms, TextMessage(value=b"")))
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp_ms)
    assert datetime.fromisoformat(line.decode().split()[3]) == moment


@pytest.mark.parametrize(("timestamp_ms", "shown"), [(-1, "-"), (2**62, str(2**62))])
def test_times_without_a_calendar(timestamp_ms: int, shown: str) -> None:
    line = write_message_line(MessageLine(0, 0, timestamp_ms, TextMessage(value=b"")))
    assert line.decode().split()[3] == shown
