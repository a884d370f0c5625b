"""What a waiting message takes in memory, and how long the first takes; `bench.queues` has more.

Bounds are those that are promised; what is measured is a half of them or less.
"""

import subprocess
import sys

import pytest

from bench.queues import KINDS, first_ms

COUNT = 20_000
#: Buckets of times months ahead are shared by too few here; by a million they are.
HERE = [kind for kind in KINDS if kind != "delayed, to 90 days"]
#: Little more than the bit that each has, and what the table itself takes.
PLAIN_BYTES_MAX = 1
BYTES_MAX = 24
FIRST_MS_MAX = 5


@pytest.mark.parametrize("kind", HERE)
def test_a_message_that_waits_takes_no_more_memory_than_promised(kind: str) -> None:
    most = PLAIN_BYTES_MAX if kind == "plain" else BYTES_MAX
    # In a process of its own: threads that other tests have left take memory here, too.
    measure = f"from bench.queues import bytes_each; print(bytes_each({kind!r}, {COUNT}))"
    printed = subprocess.check_output([sys.executable, "-c", measure], text=True, timeout=120)
    assert float(printed) <= most


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_message_is_there_at_once(kind: str) -> None:
    assert min(first_ms(kind, COUNT) for _ in range(2)) <= FIRST_MS_MAX
