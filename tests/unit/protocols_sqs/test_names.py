"""Names, URLs, ARNs, ids and receipts."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.protocols.sqs.errors import SqsError
from kafkaesque.protocols.sqs.names import (
    Place,
    is_queue_name,
    message_id,
    read_arn,
    read_handle,
    read_receipt,
    read_url,
    sequence_number,
    write_arn,
    write_handle,
    write_receipt,
    write_url,
)

LOGS = st.binary(min_size=16, max_size=16)
OFFSETS = st.integers(0, 2**63 - 1)
PLACES = st.builds(Place, OFFSETS, st.integers(0, 2**31))


@given(log=LOGS, place=PLACES)
def test_a_receipt_names_its_message(log: bytes, place: Place) -> None:
    assert read_receipt(log, write_receipt(log, place)) == place


@given(log=LOGS, other=LOGS, place=PLACES, at=st.integers(0, 255), bit=st.integers(0, 7))
def test_a_receipt_that_was_altered_or_is_of_another_queue_is_invalid(
    log: bytes, other: bytes, place: Place, at: int, bit: int
) -> None:
    import base64

    receipt = write_receipt(log, place)
    data = bytearray(base64.b64decode(receipt))
    data[at % len(data)] ^= 1 << bit
    with pytest.raises(SqsError, match="invalid"):
        read_receipt(log, base64.b64encode(data).decode())
    if other != log:
        with pytest.raises(SqsError, match="invalid"):
            read_receipt(other, receipt)


@given(log=LOGS, receipt=st.text(max_size=60))
def test_what_is_made_up_is_no_receipt(log: bytes, receipt: str) -> None:
    with pytest.raises(SqsError):
        read_receipt(log, receipt)


@given(log=LOGS, offset=OFFSETS, other=OFFSETS)
def test_ids_are_uuids_of_places_and_numbers_rise(log: bytes, offset: int, other: int) -> None:
    text = message_id(log, offset)
    assert str(uuid.UUID(text)) == text
    assert uuid.UUID(text).version == 8
    assert (message_id(log, other) == text) == (other == offset)
    assert (sequence_number(offset) < sequence_number(other)) == (offset < other)


@pytest.mark.parametrize("name", ["a", "A-b_9", "x" * 80, "orders.fifo", "x" * 75 + ".fifo"])
def test_names_of_queues(name: str) -> None:
    assert is_queue_name(name)
    assert read_url(write_url("https://example.org:9324", name)) == name
    assert read_arn(write_arn(name)) == name
    assert read_arn(write_arn(name).replace("us-east-1", "eu-west-3")) == name


@pytest.mark.parametrize(
    "name", ["", "x" * 81, "a b", "a/b", ".fifo", "x.fifo.b", "ü", "a.b", "a\n"]
)
def test_names_that_no_queue_has(name: str) -> None:
    assert not is_queue_name(name)
    assert read_arn(write_arn(name)) is None


@pytest.mark.parametrize(
    "url",
    ["", "orders", "http://x/orders", "http://x/1/2/3", "http://[x/", "http://x/1/orders", "::"],
)
def test_urls_of_no_queue(url: str) -> None:
    with pytest.raises(SqsError) as caught:
        read_url(url)
    assert caught.value.code == "InvalidAddress"


@given(words=st.lists(st.text(max_size=5), min_size=2, max_size=2))
def test_handles_give_back_their_words(words: list[str]) -> None:
    assert read_handle(write_handle(words), 2) == words
    assert read_handle(write_handle(words), 3) is None


@given(handle=st.text(max_size=20))
def test_what_is_made_up_is_no_handle(handle: str) -> None:
    assert read_handle(handle, 2) is None
