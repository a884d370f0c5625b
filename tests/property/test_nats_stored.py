"""Headers of NATS in a record, there and back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.gateway.nats.stored import raw_headers, record_headers
from kafkaesque.protocols.nats.headers import Headers, write_headers

names = st.sampled_from(("Content-Type", "content-type", "Nats-Msg-Id", "n", "kafkaesque.x", "é"))
values = st.text(st.characters(blacklist_characters="\r\n", codec="utf-8"), max_size=5)
pairs = st.lists(st.tuples(names, values), max_size=4).map(tuple)
written = pairs.map(lambda found: write_headers(Headers(found)))


@given(raw=written | st.binary(max_size=40) | st.binary().map(lambda end: b"NATS/1.0\r\n" + end))
def test_there_and_back_is_the_same(raw: bytes) -> None:
    assert raw_headers(record_headers(raw)) == raw


@given(raw=written)
def test_nobody_says_what_is_the_brokers_own(raw: bytes) -> None:
    assert not any(name.startswith("kafkaesque.") for name, _ in record_headers(raw))
