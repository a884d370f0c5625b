"""Frames that came together and say the same are one event, and read as if each came alone."""

from __future__ import annotations

import pytest

from kafkaesque.protocols.stomp import alike, frames
from kafkaesque.protocols.stomp.events import AcknowledgedRun, Event, SentRun
from kafkaesque.protocols.stomp.versions import Version
from tests.unit.protocols_stomp.peer import LIMITS, opened

V10, V11, V12 = Version
HEAD = b"SEND\ndestination:/q\nreceipt:%b\npersistent:true\n\n%b\0"
SIZED = b"SEND\ncontent-length:%d\ndestination:/q\nreceipt:%b\n\n%b\0"


def runs_of(raw: bytes, version: Version = V12) -> list[Event]:
    """Return the runs among the events of bytes that come at once."""
    events = opened(version).connection.receive_runs(raw, 0)
    return [each for each in events if isinstance(each, SentRun | AcknowledgedRun)]


def count_of(raw: bytes, version: Version = V12) -> list[int]:
    """Return how many frames each of the runs has."""
    return [
        len(each.bodies if isinstance(each, SentRun) else each.ack_ids)
        for each in runs_of(raw, version)
        if isinstance(each, SentRun | AcknowledgedRun)
    ]


def check_as_singles(raw: bytes, version: Version = V12) -> None:
    """Check that bytes mean the same whether they come at once or one after the other."""
    whole, cut = opened(version), opened(version)
    whole.receive(raw)
    for at in range(len(raw)):
        cut.receive(raw[at : at + 1])
    assert [str(each) for each in whole.events] == [str(each) for each in cut.events]
    assert whole.sent == cut.sent


def test_messages_that_say_the_same_are_one_event() -> None:
    (run,) = runs_of(HEAD % (b"1", b"a") + b"\n\n" + HEAD % (b"02", b"") + HEAD % (b"3", b"ccc"))
    assert isinstance(run, SentRun)
    assert run.first.destination == "/q"
    assert run.bodies == [b"a", b"", b"ccc"]
    assert run.receipts == ["1", "02", "3"]
    second = run.singles()[1]
    assert (second.receipt, second.body) == ("02", b"")
    assert second.headers == (("destination", "/q"), ("receipt", "02"), ("persistent", "true"))


def test_their_lengths_may_differ() -> None:
    bodies = [b"a", b"", b"b\0c", b"x" * 20]
    raw = b"".join(SIZED % (len(body), b"r", body) for body in bodies)
    (run,) = runs_of(raw)
    assert isinstance(run, SentRun)
    assert run.bodies == bodies
    assert run.singles()[2].headers[0] == ("content-length", "3")
    check_as_singles(raw)


def test_without_receipts_nothing_is_to_be_told() -> None:
    (run,) = runs_of(b"SEND\ndestination:/q\n\na\0" * 3)
    assert isinstance(run, SentRun)
    assert run.receipts == [None] * 3


@pytest.mark.parametrize(
    ("version", "ack"),
    [
        (V12, b"ACK\nid:%b\n\n\0"),
        (V12, b"ACK\nreceipt:%b\nid:%b\n\n\0"),
        (V11, b"ACK\nsubscription:s\nmessage-id:%b\n\n\0"),
    ],
)
def test_acknowledgements_are_one_event(version: Version, ack: bytes) -> None:
    count = ack.count(b"%b")
    raw = b"".join(ack % ((each,) * count) for each in (b"a1", b"b", b"c33"))
    (run,) = runs_of(raw, version)
    assert isinstance(run, AcknowledgedRun)
    assert run.ack_ids == ["a1", "b", "c33"]
    assert run.receipts == (run.ack_ids if count == 2 else [None] * 3)
    assert run.subscription_id == ("s" if version is V11 else None)
    check_as_singles(raw, version)


#: What does not belong to a run of `HEAD`s that it stands in.
OTHERS = (
    b"SEND\ndestination:/r\nreceipt:3\npersistent:true\n\nx\0",
    b"SEND\ndestination:/q\nreceipt:3\npersistent:false\n\nx\0",
    b"SEND\ndestination:/q\nreceipt:3\n\nx\0",
    b"SEND\ndestination:/q\nreceipt:3\npersistent:true\ntransaction:t\n\nx\0",
    b"SEND\ndestination:/q\nreceipt:3\npersistent:true\na:b\n\nx\0",
    b"SEND\ndestination:/q\nreceipt:3\\c4\npersistent:true\n\nx\0",
    b"SEND\ndestination:/q\nreceipt:3\\x\npersistent:true\n\nx\0",
    b"SEND\ndestination:/q\nreceipt:3\r\npersistent:true\n\nx\0",
    b"SEND\ndestination:/q\nreceipt:\xc3\xa4\npersistent:true\n\nx\0",
    b"SEND\ndestination:/q\nreceipt:\xff\npersistent:true\n\nx\0",
    b"SEND\ndestination:/q\nreceipt:\0\npersistent:true\n\nx\0",
    b"SEND\ndestination:/q\nreceipt:" + b"3" * 160 + b"\npersistent:true\n\nx\0",
    b"SEND\ndestination:/q\nreceipt:" + b"3" * 200 + b"\npersistent:true\n\nx\0",
    b"\r\n" + HEAD % (b"3", b"x"),
    HEAD % (b"3", b"x" * (LIMITS.body_bytes_max + 1)),
    b"ACK\nid:1\n\n\0",
    b"\n\n\n",
    HEAD % (b"3", b"x"),
    HEAD % (b"3:4", b"x"),
    HEAD % (b"", b"x"),
    HEAD % (b"3", b"x" * LIMITS.body_bytes_max),
)


@pytest.mark.parametrize("version", list(Version))
@pytest.mark.parametrize("other", OTHERS)
def test_what_stands_among_them_reads_as_if_it_came_alone(other: bytes, version: Version) -> None:
    around = HEAD % (b"1", b"a") + HEAD % (b"2", b"b")
    begin = b"BEGIN\ntransaction:t\n\n\0"
    check_as_singles(begin + around + other + around, version)


@pytest.mark.parametrize(
    ("other", "counts"),
    [
        *[(each, [2, 2]) for each in OTHERS[:3]],
        (b"\n\n\n", [4]),
        (HEAD % (b"3:4", b"x"), [5]),
        (HEAD % (b"", b"x"), [5]),
    ],
)
def test_a_run_ends_where_another_head_stands(other: bytes, counts: list[int]) -> None:
    around = HEAD % (b"1", b"a") + HEAD % (b"2", b"b")
    assert count_of(around + other + around) == counts


@pytest.mark.parametrize("text", [b"", b"x", b"-1", b"+1", b"01", b" 1", b"999", b"1" * 13, b"2"])
def test_a_length_that_is_to_be_looked_at_reads_as_if_it_came_alone(text: bytes) -> None:
    sized = b"SEND\ndestination:/q\ncontent-length:%b\n\na\0"
    check_as_singles(sized % b"1" * 2 + sized % text + sized % b"1" * 2)


def test_a_body_that_is_too_long_reads_as_if_it_came_alone() -> None:
    bodies = [b"x" * (LIMITS.body_bytes_max + more) for more in (-1, 0, 1, 0)]
    check_as_singles(b"".join(SIZED % (len(body), b"r", body) for body in bodies))


def test_the_first_header_of_a_name_counts() -> None:
    twice = (
        b"SEND\ndestination:/q\nreceipt:%b\nreceipt:9\ncontent-length:1\ncontent-length:7\n\na\0"
    )
    raw = b"".join(twice % each for each in (b"1", b"2", b"3"))
    (run,) = runs_of(raw)
    assert isinstance(run, SentRun)
    assert run.receipts == ["1", "2", "3"]
    check_as_singles(raw)


@pytest.mark.parametrize("version", list(Version))
def test_an_acknowledgement_with_a_body_is_another_frame(version: Version) -> None:
    ack = b"ACK\nsubscription:s\nmessage-id:1\nid:1\n\n%b\0"
    raw = ack % b"" * 2 + ack % b"x" + ack % b""
    check_as_singles(raw, version)


def test_transactions_and_refusals_are_no_runs() -> None:
    begin = b"BEGIN\ntransaction:t\n\n\0"
    assert count_of(begin + b"SEND\ndestination:/q\ntransaction:t\n\n\0" * 2) == []
    assert count_of(begin + b"ACK\nid:1\ntransaction:t\n\n\0" * 2) == []
    assert count_of(b"NACK\nid:1\n\n\0" * 2) == []


def test_in_1_0_there_are_none() -> None:
    raw = b"SEND\ndestination:/q\nreceipt: 1 \n\na\0" * 3
    assert count_of(raw, V10) == []
    check_as_singles(raw, V10)


def test_a_frame_that_is_not_whole_comes_later() -> None:
    broker = opened(V12)
    last = HEAD % (b"3", b"ccc")
    raw = HEAD % (b"1", b"a") + HEAD % (b"2", b"b") + last[:-2]
    (run,) = broker.connection.receive_runs(raw, 0)
    assert isinstance(run, SentRun)
    assert run.receipts == ["1", "2"]
    (event,) = broker.connection.receive_runs(last[-2:], 0)
    assert event.receipt == "3"


def test_a_client_that_says_something_else_each_time_is_looked_at_now_and_then() -> None:
    unlike = [b"SEND\ndestination:/q%d\n\n\0" % number for number in range(frames.MISSES_MAX)]
    same = HEAD % (b"1", b"a")
    counts = count_of(b"".join(unlike) + same * (frames.UNLOOKED + 3))
    assert counts == [3]
    counts = count_of(b"".join(unlike[1:]) + same * (frames.UNLOOKED + 3))
    assert counts == [frames.UNLOOKED + 3]
    check_as_singles(b"".join(unlike) + same * (frames.UNLOOKED + 3))


def test_a_run_has_a_bound() -> None:
    count = alike.RUN_FRAMES_MAX
    raw = b"".join(HEAD % (b"%d" % number, b"") for number in range(2 * count))
    assert count_of(raw) == [count + 1, count - 1]
