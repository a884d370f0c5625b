"""A frame's head is the same whether it is read at once or line by line."""

from __future__ import annotations

import pytest

from kafkaesque.protocols.stomp.errors import StompError
from kafkaesque.protocols.stomp.frames import FrameReader
from kafkaesque.protocols.stomp.versions import Version

HEADS = (
    b"SEND\ndestination:/q\n\n",
    b"\n\n\nSEND\ndestination:/q\na:\n\n",
    b"\r\n\nSEND\r\na:b\r\n\r\n",
    b"SEND\na : b \n\n",
    b"SEND\na:b:c\na:d\n\n",
    b"SEND\na\\cb:c\\nd\n\n",
    b"SEND\na:\\x\n\n",
    b"SEND\na:b\rc\n\n",
    b"SEND\na:\xc3\xa4\n\n",
    b"SEND\na:\xff\n\n",
    b"SEND\n:b\n\n",
    b"SEND\nab\n\n",
    b"SEND\na:b\0c\n\n",
    b"SEND\ncontent-length:1\n\n",
    b"SEND\ncontent-length:x\n\n",
    b"SEND\ncontent-length:999\n\n",
    b"CONNECT\na : b\\c\n\n",
    b"DISCONNECT\n\n",
    b"SENDSENDS\na:b\n\n",
    b"SEND\n" + b"a:b\n" * 5 + b"\n",
    b"SEND\na:" + b"b" * 57 + b"\n\n",
    b"SEND\na:" + b"b" * 58 + b"\n\n",
    b"SEND\na:" + b"b" * 100 + b"\n\n",
)


def _read(version: Version, pieces: list[bytes]) -> tuple[list[object], str, str | None]:
    """Return the frames that are read, and what is wrong behind them."""
    reader = FrameReader(command_bytes_max=8, headers_max=4, head_bytes_max=60, body_bytes_max=10)
    reader.version = version
    found: list[object] = []
    try:
        for each in pieces:
            reader.feed(each)
            while (frame := reader.next_frame()) is not None:
                found.append(frame)
    except StompError as error:
        return found, str(error), reader.receipt_id
    return found, "", None


@pytest.mark.parametrize("version", list(Version))
@pytest.mark.parametrize("head", HEADS)
def test_a_head_is_read_at_once_as_it_is_line_by_line(head: bytes, version: Version) -> None:
    raw = b"SEND\nreceipt:1\n\n\0" + head + b"x\0" + b"ACK\nid:1\n\n\0"
    singly = [raw[at : at + 1] for at in range(len(raw))]
    assert _read(version, [raw]) == _read(version, singly)
