"""When a queue's snapshots are written: a start replays what is behind the newest one."""

from kafkaesque.model.batch import read_batch_header
from kafkaesque.model.ids import Offset
from kafkaesque.tables import replicated
from kafkaesque.tables.logged import Logged, LoggedKind, read_logged
from tests.unit.queues.queue_host import PLAIN, Entry, Message, QueueHost


def logged_in(entry: Entry) -> Logged | None:
    return read_logged(read_batch_header(entry.data), entry.data)


def is_snapshot(entry: Entry) -> bool:
    logged = logged_in(entry)
    return logged is not None and logged.kind is LoggedKind.SNAPSHOT


def put_and_settle(host: QueueHost, count: int) -> None:
    for _ in range(count):
        host.put(PLAIN)
        host.settle(*host.take())


def distances(host: QueueHost) -> list[int]:
    """Return how many batches are between a snapshot and the next, or the log's end."""
    at = [place for place, entry in enumerate(host.log) if is_snapshot(entry)]
    return [end - start for start, end in zip(at, [*at[1:], len(host.log)], strict=True)]


def snapshot_share(host: QueueHost) -> float:
    """Return which part of the log's bytes snapshots take."""
    sizes = [(len(entry.data), is_snapshot(entry)) for entry in host.log]
    return sum(size for size, is_one in sizes if is_one) / sum(size for size, _ in sizes)


def test_a_small_queue_has_a_snapshot_soon_and_writes_few_bytes_of_them() -> None:
    host = QueueHost()
    put_and_settle(host, 1_000)
    assert max(distances(host)) <= 200
    assert snapshot_share(host) < 0.02


def test_a_queue_whose_snapshots_are_long_writes_them_the_more_rarely() -> None:
    host = QueueHost()
    # What waits until different moments takes bytes in each snapshot.
    for number in range(1_000):
        host.put(Message(not_before_ms=host.wall_ms + 1_000_000 + 7_919 * (number % 97)))
    length = len(host.table.snapshot()[1])
    assert length > 2_000
    begun = len(host.log)
    put_and_settle(host, 3_000)
    found = [entry for entry in host.log[begun:] if is_snapshot(entry)]
    assert found
    written = sum(len(entry.data) for entry in host.log[begun:])
    assert sum(len(entry.data) for entry in found) < 0.06 * written


def test_what_is_put_alone_counts_too() -> None:
    host = QueueHost()
    for _ in range(1_000):
        host.put(PLAIN)
    host.settle(*host.take())  # The leader looks when it decides something.
    put_and_settle(host, 1)
    assert distances(host)[-1] < 10


def test_a_replica_far_behind_lets_the_log_be_cleaned_up_to_where_it_has_come() -> None:
    """However many snapshots have come since, one is known that it has, and not always the same."""
    host = QueueHost()
    behind, known = 6_000, []
    while host.end < 40_000:
        put_and_settle(host, 200)
        live = host.table.live_before(Offset(host.end - behind))
        known.append(0 if live is None else live.end_offset)
    assert known[-1] > host.end - 4 * behind
    assert len(set(known)) > 3
    assert len(host.table._lives) <= replicated.LIVES_MAX
