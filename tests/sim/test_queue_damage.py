"""Bodies of messages that the disk of a queue's leader has damaged."""

from typing import Any

import pytest

from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.model.errors import StorageFailed
from tests.sim.queue_scenario import QueueScenario, values

#: Of a batch's bytes: no checksum covers those of its offset.
OFFSET_BYTE, RECORDS_BYTE = 7, 80
LOCK_MS = 1_000


def damage(queue: QueueScenario, broker: str, offset: int, byte: int) -> None:
    """Flip a bit of the batch that begins at an offset; it then begins behind the next one."""
    partition: Any = queue.hosted(broker).partition()
    path = partition.log.segments.segments[-1].path
    inode: Any = queue.world.machines[broker].drive.volume.find(path)
    content, at = inode.content, 0
    while int.from_bytes(content[at : at + 8], "big") != offset:
        at += int.from_bytes(content[at + 8 : at + 12], "big") + 12
    content[at + byte] ^= 1 << 4


@pytest.mark.parametrize("byte", [OFFSET_BYTE, RECORDS_BYTE])
def test_messages_that_a_leader_has_damaged_come_from_the_next_one(byte: int) -> None:
    queue = QueueScenario(24)
    leader = queue.queue_leader()
    offsets = queue.put(b"0", b"1", b"2")
    queue.put(b"3")
    queue.loop.run_for(2_000)
    damage(queue, leader, offsets[0], byte)
    request = q.TakeMessages(
        log_id=queue.queue().topic_id, messages_max=4, bytes_max=1_000, lock_ms=LOCK_MS
    )
    assert isinstance(queue.try_to(request, q.TakenMessages), StorageFailed)
    queue.loop.run_until(lambda: queue.queue_leader() != leader, 10_000)
    # They may have been locked when the leader went.
    assert values(queue.take(4, wait_ms=2 * LOCK_MS)) == [b"0", b"1", b"2", b"3"]
    assert queue.told("the log cannot be read")
    assert not queue.told("gives up")
