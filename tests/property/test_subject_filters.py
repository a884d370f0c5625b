"""What tells records' keys apart quickly never misses one that a consumer of NATS wants."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.gateway.nats.jetstream.records import subject_of
from kafkaesque.model.records import Record
from kafkaesque.routing.names import NATS
from kafkaesque.routing.subject_filters import SubjectFilters

WORDS = st.sampled_from(["a", "b", "A", "%41", "%2E", "é", "a*", "$", "x" * 40])
FILTERS = st.builds(
    lambda words, tail: ".".join([*words, *tail]),
    st.lists(st.one_of(WORDS, st.just("*")), min_size=1, max_size=4),
    st.sampled_from([[], [">"]]),
)
KEYS = st.one_of(
    st.none(),
    st.binary(max_size=6),
    st.lists(WORDS, min_size=1, max_size=5).map(lambda words: ".".join(words).encode()),
    st.sampled_from([b"a.>", b"*", b"a..b", b"a b", b".", "ü".encode(), b"\xff"]),
)


@given(filters=st.lists(FILTERS, min_size=1, max_size=4), key=KEYS, stream=WORDS)
def test_it_says_yes_to_all_that_is_wanted(
    filters: list[str], key: bytes | None, stream: str
) -> None:
    subject = subject_of(Record(0, 0, key, b""), stream)
    is_wanted = any(NATS.read_filter(each).matches(NATS.read_name(subject)) for each in filters)
    if is_wanted:
        assert SubjectFilters(filters, stream).may_want(key)


@given(filters=st.lists(FILTERS, min_size=1, max_size=4), words=st.lists(st.sampled_from("abAx")))
def test_it_says_no_to_plain_keys_that_nobody_wants(filters: list[str], words: list[str]) -> None:
    subject = ".".join(words)
    found = SubjectFilters(filters, "another")
    if subject and not any("%" in each for each in filters):
        wanted = any(NATS.read_filter(each).matches(NATS.read_name(subject)) for each in filters)
        assert found.may_want(subject.encode()) == wanted
