"""The newest samples of a broker's numbers, in bounded rings, so that plots need nothing else.

Counters are kept as they are: whoever shows them derives rates, and sees by a fall that the broker
was restarted. One ring has a sample a second, the other one in ten seconds.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from kafkaesque.admin.census import Census, take_census
from kafkaesque.admin.process_facts import read_load
from kafkaesque.broker.doors import Doors
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.env.clock import Timer
from kafkaesque.model.errors import DiskFailed
from kafkaesque.model.histogram import Histogram

STEP_MS: Final = 1_000
SAMPLES_MAX: Final = 900
COARSE_STEP_MS: Final = 10_000
COARSE_SAMPLES_MAX: Final = 2_160
#: So many samples are taken between two looks at all partitions and at the disk.
SAMPLES_PER_CENSUS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesKind:
    """One series."""

    name: str
    #: Whether it only grows, until the broker is restarted.
    is_counter: bool
    unit: str
    doc: str


def _counter(name: str, unit: str, doc: str) -> SeriesKind:
    return SeriesKind(name=name, is_counter=True, unit=unit, doc=doc)


def _gauge(name: str, unit: str, doc: str) -> SeriesKind:
    return SeriesKind(name=name, is_counter=False, unit=unit, doc=doc)


KINDS: Final = (
    _counter("messages_in", "records", "Records from producers that were appended here."),
    _counter("bytes_in", "bytes", "Bytes of batches from producers that were appended here."),
    _counter("bytes_out", "bytes", "Bytes of batches that consumers fetched from here."),
    _counter("requests", "requests", "Requests at all listeners."),
    _counter("request_errors", "partitions", "Partitions that Produce or Fetch refused."),
    _counter("syncs", "syncs", "Syncs of the write-ahead log."),
    _counter("sync_seconds", "seconds", "Time that these syncs took."),
    _counter("commits", "commits", "Commits that were measured."),
    _counter("commit_seconds", "seconds", "Time from append to commit in these."),
    _counter("cpu_seconds", "seconds", "Processor time, user and system."),
    _counter("loop_timers", "timers", "Timers whose delay was measured."),
    _counter("loop_lag_seconds", "seconds", "By how much these timers were late."),
    _gauge("connections", "connections", "Open connections at all listeners."),
    _gauge("resident_bytes", "bytes", "Resident memory of the process."),
    _gauge("disk_free_bytes", "bytes", "Free space of the data directory's volume."),
    _gauge("log_bytes", "bytes", "Bytes in the segments of all partitions here."),
    _gauge("partitions_led", "partitions", "Partitions that this broker leads."),
    _gauge("under_replicated", "partitions", "Partitions led here that lack in-sync replicas."),
    _gauge("leaderless", "partitions", "Partitions without a leader that this broker knows."),
    _gauge(
        "lag_messages", "records", "Lag of the groups coordinated here that are furthest behind."
    ),
)
NAMES: Final = tuple(kind.name for kind in KINDS)
COUNTERS: Final = frozenset(kind.name for kind in KINDS if kind.is_counter)


#: A column of numbers, one for each sample.
Column = TypeVar("Column", "array[int]", "array[float]")


class Ring:
    """The last samples of all series; columns of numbers, not a number for each object."""

    def __init__(self, step_ms: int, samples_max: int) -> None:
        self.step_ms: Final = step_ms
        self._max = samples_max
        self._next = 0
        self._times = array("q")
        self._columns = {name: array("d") for name in NAMES}

    def add(self, at_ms: int, values: Mapping[str, float]) -> None:
        """Keep a sample, in place of the oldest one if the ring is full."""
        is_full = len(self._times) == self._max
        if is_full:
            self._times[self._next] = at_ms
            for name, column in self._columns.items():
                column[self._next] = values[name]
            self._next = (self._next + 1) % self._max
            return
        self._times.append(at_ms)
        for name, column in self._columns.items():
            column.append(values[name])

    def read(self, names: Sequence[str], after_ms: int) -> tuple[list[int], list[list[float]]]:
        """Return times after one, and each series at these times."""
        times = self._after(self._times, 0)
        begin = bisect_right(times, after_ms)
        return list(times[begin:]), [
            list(self._after(self._columns[name], begin)) for name in names
        ]

    def _after(self, column: Column, begin: int) -> Column:
        """Return a column in the order of time, without its first values."""
        older = column[self._next + begin :]
        return older + column[max(0, begin - (len(column) - self._next)) : self._next]


class Sampler:
    """Reads a broker's numbers once a second."""

    def __init__(self, doors: Doors, chassis: Chassis, loop_lag: Histogram) -> None:
        self._doors = doors
        self._chassis = chassis
        self._loop_lag = loop_lag
        self._timer: Timer | None = None
        self._count = 0
        self._census = Census()
        self._disk_free_bytes = 0
        self.fine: Final = Ring(STEP_MS, SAMPLES_MAX)
        self.coarse: Final = Ring(COARSE_STEP_MS, COARSE_SAMPLES_MAX)

    def start(self) -> None:
        """Begin."""
        self._on_timer()

    def stop(self) -> None:
        """End."""
        if self._timer is not None:
            self._timer.cancel()

    def ring(self, step_ms: int) -> Ring:
        """Return the ring whose samples are at least so far from one another, if there is one."""
        return self.fine if step_ms < COARSE_STEP_MS else self.coarse

    def _on_timer(self) -> None:
        self._timer = self._doors.clock.call_later(STEP_MS, self._on_timer)
        if self._count % SAMPLES_PER_CENSUS == 0:
            self._look(self._take)
        else:
            self._take()
        self._count += 1

    def _look(self, then: Callable[[], None]) -> None:
        def on_done(census: Census) -> None:
            self._census = census
            then()

        try:
            self._disk_free_bytes = self._doors.condition.disk.free_bytes()
        except DiskFailed:
            self._disk_free_bytes = 0
        take_census(self._doors, on_done)

    def _take(self) -> None:
        at_ms, values = self._doors.clock.wall_ms(), self._read()
        self.fine.add(at_ms, values)
        if self._count % (COARSE_STEP_MS // STEP_MS) == 0:
            self.coarse.add(at_ms, values)

    def _read(self) -> dict[str, float]:
        activity, meters = self._doors.activity, self._chassis.meters.values()
        statistics, census = self._doors.condition.store.statistics, self._census
        errors = (activity.produce_errors, activity.fetch_errors)
        load = read_load()
        return {
            "messages_in": activity.messages_in,
            "bytes_in": activity.bytes_in,
            "bytes_out": activity.bytes_out,
            "requests": sum(meter.requests for meter in meters),
            "request_errors": sum(sum(counts.values()) for counts in errors),
            "syncs": statistics.sync_latency.count,
            "sync_seconds": statistics.sync_latency.sum,
            "commits": activity.commit_latency.count,
            "commit_seconds": activity.commit_latency.sum,
            "cpu_seconds": load.cpu_seconds,
            "loop_timers": self._loop_lag.count,
            "loop_lag_seconds": self._loop_lag.sum,
            "connections": sum(meter.open for meter in meters),
            "resident_bytes": load.resident_bytes or 0,
            "disk_free_bytes": self._disk_free_bytes,
            "log_bytes": census.log_bytes,
            "partitions_led": census.led,
            "under_replicated": census.under_replicated,
            "leaderless": census.leaderless,
            "lag_messages": sum(lag for lag, _ in census.lags),
        }
