"""Kept answers: bounded in number and bytes, and gone when the cluster changes."""

from __future__ import annotations

import pytest

from kafkaesque.gateway.kafka import metadata_cache
from kafkaesque.gateway.kafka.metadata_cache import MetadataCache
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.frames import CachedResponse
from kafkaesque.protocols.kafka.messages.metadata_response import MetadataResponse

STATE = object()


def answer(size: int = 0) -> CachedResponse:
    """Returns an answer with about this many bytes."""
    return CachedResponse(ApiKey.METADATA, 5, MetadataResponse(cluster_id="x" * size))


def question(number: int) -> memoryview:
    """Returns a request's body."""
    return memoryview(number.to_bytes(4, "big"))


def test_version_and_question_name_an_answer() -> None:
    cache = MetadataCache()
    cache.refresh(STATE, (1,))
    kept = answer()
    cache.put(5, question(1), kept)
    assert cache.get(5, question(1)) is kept
    assert cache.get(6, question(1)) is None
    assert cache.get(5, question(2)) is None


def test_any_change_empties_the_cache() -> None:
    cache = MetadataCache()
    for state, as_of in ((STATE, (1,)), (STATE, (2,)), (object(), (2,))):
        cache.refresh(state, as_of)
        assert len(cache) == 0
        cache.put(5, question(1), answer())
        cache.refresh(state, as_of)
        assert len(cache) == 1


def test_the_oldest_answers_give_way() -> None:
    cache = MetadataCache()
    for number in range(metadata_cache.ENTRIES_MAX + 1):
        cache.put(5, question(number), answer())
    assert len(cache) == metadata_cache.ENTRIES_MAX
    assert cache.get(5, question(0)) is None
    assert cache.get(5, question(1)) is not None


def test_bytes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = answer(1000)
    monkeypatch.setattr(metadata_cache, "BYTES_MAX", 10 * len(kept))
    cache = MetadataCache()
    for number in range(10):
        # Twice: what is replaced does not count.
        cache.put(5, question(number), answer(1000))
        cache.put(5, question(number), kept)
    assert len(cache) == 10
    cache.put(5, question(10), answer(1001))
    assert len(cache) == 9
    assert cache.get(5, question(1)) is None
    assert cache.get(5, question(2)) is kept


def test_an_answer_that_is_larger_than_the_cache_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata_cache, "BYTES_MAX", 500)
    cache = MetadataCache()
    cache.put(5, question(1), answer(100))
    cache.put(5, question(2), answer(1000))
    assert len(cache) == 1


def test_a_long_question_is_not_kept() -> None:
    cache = MetadataCache()
    long = memoryview(bytes(metadata_cache.QUESTION_BYTES_MAX + 1))
    cache.put(5, long, answer())
    assert len(cache) == 0
    assert cache.get(5, long) is None
