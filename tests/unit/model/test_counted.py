"""Numbers with their nouns and verbs."""

import pytest

from kafkaesque.model.counted import are, counted, have


@pytest.mark.parametrize(
    ("count", "noun", "verbs"),
    [(0, "0 queues", "are have"), (1, "1 queue", "is has"), (2, "2 queues", "are have")],
)
def test_one_is_one_and_all_else_are_several(count: int, noun: str, verbs: str) -> None:
    assert (counted(count, "queue"), f"{are(count)} {have(count)}") == (noun, verbs)
