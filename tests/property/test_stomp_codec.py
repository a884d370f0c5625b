"""STOMP's codec: round trips, any cut of the input, and what stomp.py writes and reads."""

from __future__ import annotations

from typing import Any

import pytest
import stomp.utils
from hypothesis import given
from hypothesis import strategies as st
from stomp.protocol import Protocol10, Protocol11, Protocol12

from kafkaesque.protocols.stomp import events as e
from kafkaesque.protocols.stomp.connection import Limits
from kafkaesque.protocols.stomp.errors import StompError
from kafkaesque.protocols.stomp.frames import Frame, write_frame
from kafkaesque.protocols.stomp.versions import Version, escape, unescape
from kafkaesque.protocols.stomp.writing import MessageHead, escaped, write_receipt
from tests.unit.protocols_stomp.peer import LIMITS, Broker, opened, read_frames

V10, V11, V12 = Version
#: What a header can hold in each version.
REFUSED = {V10: "\0\n\r ", V11: "\0\r", V12: "\0"}


def texts(version: Version, min_size: int = 0) -> st.SearchStrategy[str]:
    alphabet = st.sampled_from([each for each in "abé:\\\r\n ;" if each not in REFUSED[version]])
    found = st.text(alphabet, min_size=min_size, max_size=6)
    # In 1.0 and 1.1 a CR could not be told from a line's end, and in 1.0 no colon from another.
    return found if version is not V10 else found.map(lambda text: text.replace(":", ""))


def names(version: Version) -> st.SearchStrategy[str]:
    return texts(version, 1).filter(bool)


@st.composite
def frames(draw: st.DrawFn, version: Version) -> Frame:
    headers = draw(st.lists(st.tuples(names(version), texts(version)), max_size=4))
    return Frame("SEND", tuple(headers), draw(st.binary(max_size=40)))


@pytest.mark.parametrize("version", list(Version))
@given(data=st.data())
def test_frames_round_trip(version: Version, data: st.DataObject) -> None:
    sent = data.draw(st.lists(frames(version), max_size=3))
    found = read_frames(b"".join(write_frame(each, version) for each in sent), version)
    lengths = [(("content-length", str(len(each.body))),) if each.body else () for each in sent]
    expected = [
        Frame(each.command, each.headers + length, each.body)
        for each, length in zip(sent, lengths, strict=True)
    ]
    assert found == expected


@pytest.mark.parametrize("version", [V11, V12])
@given(text=st.text(max_size=10))
def test_escapes_round_trip(version: Version, text: str) -> None:
    written = escape(text, version)
    assert not set("\n\r\0:") & set(written)
    held = "".join(" " if each in REFUSED[version] else each for each in text)
    assert unescape(written, version) == held


@given(text=st.text("\\ncrt", max_size=6))
def test_what_is_unescaped_is_an_escape_or_refused(text: str) -> None:
    try:
        found = unescape(text, V12)
    except StompError:
        return
    assert escape(found, V12) == text


pieces = st.sampled_from(
    (
        b"SEND\ndestination:/q\nreceipt:1\n\nbody\0",
        b"SEND\ndestination:/q\nreceipt:22\n\n\0",
        b"SEND\ndestination:/q\nreceipt:3\\c\n\nbody\0",
        b"SEND\ndestination:/q\ncontent-length:4\n\na\0\nb\0",
        b"SEND\ndestination:/q\ncontent-length:0\n\n\0",
        b"SEND\ndestination:/q\ncontent-length:51\n\n\0",
        b"SUBSCRIBE\nid:1\ndestination:/q\nack:client\n\n\0",
        b"UNSUBSCRIBE\nid:1\n\n\0",
        b"BEGIN\ntransaction:t\n\n\0",
        b"SEND\ndestination:/q\ntransaction:t\n\n\0",
        b"ABORT\ntransaction:t\nreceipt:2\n\n\0",
        b"ACK\nid:1\nmessage-id:1\nsubscription:1\n\n\0",
        b"ACK\nid:22\nmessage-id:1\nsubscription:1\n\n\0",
        b"ACK\nid:1\nmessage-id:22\nsubscription:1\n\n\0",
        b"\n",
        b"\r\n",
        b"DISCONNECT\nreceipt:3\n\n\0",
        b"SEND\n",
        b"destination:/q\n",
        b"\n\0",
        b"CONNECT\n\n\0",
    )
)


@pytest.mark.parametrize("version", list(Version))
@given(sent=st.lists(pieces | st.binary(max_size=10), max_size=6), data=st.data())
def test_cuts_change_nothing(version: Version, sent: list[bytes], data: st.DataObject) -> None:
    raw = b"".join(sent)
    whole, cut = opened(version), opened(version)
    answer = whole.receive(raw)
    found = b""
    at = 0
    while at < len(raw):
        size = data.draw(st.integers(1, len(raw) - at))
        found += cut.receive(raw[at : at + size])
        kept_max = LIMITS.head_bytes_max + LIMITS.body_bytes_max + 1
        assert cut.connection.kept_bytes <= kept_max or cut.connection.is_paused
        at += size
    assert found == answer
    assert [str(event) for event in cut.events] == [str(event) for event in whole.events]


@given(raw=st.binary(max_size=300))
def test_strangers_are_refused_or_waited_for(raw: bytes) -> None:
    broker = Broker()
    broker.receive(raw)
    assert broker.error is not None or broker.connection.kept_bytes <= LIMITS.connect_bytes_max


# -- stomp.py


class Transport:
    """Takes what stomp.py's protocols send."""

    def __init__(self) -> None:
        self.raw = b""

    def transmit(self, frame: Any) -> None:
        self.raw += b"".join(stomp.utils.convert_frame(frame))

    def set_listener(self, name: str, listener: object) -> None:
        """It listens to what comes, which is nothing here."""


#: stomp.py escapes values, and names not.
plain_names = st.text("abé;", min_size=1, max_size=6)
PROTOCOLS = {V10: Protocol10, V11: Protocol11, V12: Protocol12}


@pytest.mark.parametrize("version", list(Version))
@given(data=st.data())
def test_what_stomp_py_sends_is_read(version: Version, data: st.DataObject) -> None:
    found = data.draw(st.dictionaries(plain_names, texts(version), max_size=3))
    body = data.draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
    transport = Transport()
    client = PROTOCOLS[version](transport)
    client.send("/queue/a", body, "text/plain", dict(found), receipt="7")
    broker = opened(version, Limits())
    broker.receive(transport.raw)
    (event,) = broker.events
    assert isinstance(event, e.Sent), event
    headers = dict(event.headers)
    headers.pop("content-length", None)
    assert headers.pop("receipt") == "7"
    assert headers == {**found, "destination": "/queue/a", "content-type": "text/plain"}
    assert (event.destination, event.body.decode(), event.receipt) == ("/queue/a", body, "7")


@pytest.mark.parametrize("version", list(Version))
def test_the_other_frames_of_stomp_py(version: Version) -> None:
    transport = Transport()
    client: Any = PROTOCOLS[version](transport)
    client.subscribe("/queue/a", "1", "client")
    name = client.begin("t")
    if version is V10:
        client.ack("5", transaction=name)
    elif version is V11:
        client.ack("5", "1", transaction=name)
        client.nack("6", "1")
    else:
        client.ack("5", transaction=name)
        client.nack("6")
    client.commit("t")
    client.begin("u")
    client.abort("u")
    client.unsubscribe(id="1")
    client.send_frame("DISCONNECT", {"receipt": "9"})
    broker = opened(version, Limits())
    broker.receive(transport.raw)
    assert broker.error is None, broker.error
    kinds = [type(event) for event in broker.events]
    nacked = [] if version is V10 else [e.Acknowledged]
    assert kinds == [
        e.Subscribed,
        e.TransactionBegun,
        e.Acknowledged,
        *nacked,
        e.TransactionEnded,
        e.TransactionBegun,
        e.TransactionEnded,
        e.Unsubscribed,
        e.Disconnected,
    ]
    assert broker.sent[-1] == write_receipt("9", version)


@given(
    headers=st.dictionaries(names(V12), texts(V12), max_size=3),
    body=st.binary(max_size=30),
    subscription=texts(V12, 1),
    ack=texts(V12),
    message_id=texts(V12, 1),
    split=st.integers(0, 3),
)
def test_stomp_py_reads_what_we_deliver(
    headers: dict[str, str], body: bytes, subscription: str, ack: str, message_id: str, split: int
) -> None:
    headers.pop("message-id", None)
    items = tuple(headers.items())
    head = MessageHead(V12, items[:split], items[split:])
    ids = escaped(subscription, V12), escaped(ack, V12), escaped(message_id, V12)
    raw = head.write(ids[0], ids[1], ids[2], body)
    assert raw.endswith(b"\0")
    frame = stomp.utils.parse_frame(raw[:-1])
    acks = {"ack": ack} if ack else {}
    expected = {"subscription": subscription, **acks, **headers, "message-id": message_id}
    expected["content-length"] = str(len(body))
    assert (frame.cmd, frame.headers, frame.body) == ("MESSAGE", expected, body)
    (ours,) = read_frames(raw, V12)
    assert (ours.command, dict(ours.headers), ours.body) == ("MESSAGE", expected, body)
