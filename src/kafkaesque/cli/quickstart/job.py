"""The job: start, publish and consume at once, kill and restart a leader, count, stop.

One thread does it all in order; what has to go on at the same time (librdkafka, the consuming
processes, the brokers) does so by itself, and `_on_turn` looks at it between two bursts.
"""

import queue
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING

from kafkaesque.cli.alive_brokers import describe_cluster
from kafkaesque.cli.broker_ports import free_ports
from kafkaesque.cli.commands.cluster import ClusterStatus, status_of
from kafkaesque.cli.exit_codes import TIMED_OUT
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.local_broker import BrokerEnded, BrokerReady
from kafkaesque.cli.local_cluster import LocalCluster
from kafkaesque.cli.quickstart.closed_doors import is_closed_to_others, is_closed_to_strangers
from kafkaesque.cli.quickstart.delays_pipeline import (
    TOPICS,
    DelayFindings,
    DelaysPipeline,
    check_delays,
    expected_delays,
    publish_tables,
)
from kafkaesque.cli.quickstart.flights import Flights, read_flights
from kafkaesque.cli.quickstart.log_check import (
    DeliveryFindings,
    LogFindings,
    check_deliveries,
    check_log,
    read_ends,
)
from kafkaesque.cli.quickstart.publisher import Publisher
from kafkaesque.cli.quickstart.reading_group import GROUP, MEMBERS, ReadingGroup
from kafkaesque.cli.quickstart.show import Show
from kafkaesque.cli.secure_files import APP, APP_PREFIX, leave_clusters
from kafkaesque.cli.troubles import why

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, TopicMetadata


BROKERS = 3
PARTITIONS = 6
TOPIC = "flights"
#: The leader is killed once this share is acknowledged.
KILL_AT = 0.4
RESTART_AFTER_S = 5.0
TIME_MAX_S = 110.0
#: Beside that, for Spark, which has a JVM to start.
SPARK_TIME_MAX_S = 240.0
STEP_S = 0.05
LOOK_S = 0.25


class Stage(Enum):
    """Where the leader that is killed is in its life."""

    LEADING = auto()
    KILLED = auto()
    REPLACED = auto()
    RESTARTED = auto()
    SERVING = auto()
    IN_SYNC = auto()


@dataclass(slots=True, kw_only=True)
class Result:
    """What is reported at the end; times in seconds, None for what did not happen."""

    flights: int = 0
    acknowledged: int = 0
    log: LogFindings = field(default_factory=LogFindings)
    deliveries: DeliveryFindings = field(default_factory=DeliveryFindings)
    #: None without Spark.
    delays: DelayFindings | None = None
    spark_s: float = 0.0
    victim: int = 0
    partitions: list[int] = field(default_factory=list)
    gaps_s: dict[int, float] = field(default_factory=dict)
    back_s: float | None = None
    publishing_s: float = 0.0
    total_s: float = 0.0
    #: Where the first broker serves again, if the data is kept and the cluster started once more.
    address: str = ""
    #: Where a secured cluster's ready files for clients are; empty: it is open.
    clients: str = ""
    #: Whether a secured cluster turned away whom it had to.
    is_closed: bool = True

    @property
    def is_right(self) -> bool:
        """Whether nothing that was looked at is as it should not be."""
        delays_are_right = self.delays is None or self.delays.is_right
        return (
            self.log.is_clean and not self.deliveries.missed and delays_are_right and self.is_closed
        )


class Job:
    """Everything that the quickstart does, and everything that it starts."""

    def __init__(
        self,
        directory: Path,
        data: Path,
        count_max: int | None,
        rate: float,
        *,
        has_spark: bool,
        is_secure: bool = False,
    ) -> None:
        """All names begin with the prefix of the user app, where the cluster `is_secure`."""
        self._directory = directory
        self._count_max = count_max
        self._rate = rate
        self._cluster = LocalCluster(data, free_ports(BROKERS), is_secure=is_secure)
        self._prefix = APP_PREFIX if is_secure else ""
        self._group: ReadingGroup | None = None
        self._pipeline = DelaysPipeline(directory) if has_spark else None
        self._time_max_s = TIME_MAX_S
        self._result = Result()
        self._began = time.monotonic()
        self._stage = Stage.LEADING
        self._stage_at = 0.0
        self._killed_at = 0.0
        self._looked_at = 0.0

    def run(self) -> Result:
        """Do it; raises CommandFailed where it cannot be done."""
        print("Starting three brokers, each a process of its own ...", flush=True)
        self._cluster.prepare()
        security = self._cluster.security
        if security is None:
            leave_clusters()
        else:
            security.use_here()
            self._result.clients = str(security.clients)
            print(f"Clients log in as {APP}, over TLS: {security.clients}", flush=True)
        self._cluster.start()
        flights = read_flights(self._count_max)
        self._result.flights = len(flights)
        with Show(len(flights)) as show:
            self._show = show
            self._wait_for_brokers()
            from kafkaesque.cli.kafka import Connection

            self._connection: Connection = Connection(self._cluster.bootstrap_servers)
            self._admin: AdminClient = self._connection.admin()
            self._create_topic()
            self._group = ReadingGroup(
                self._cluster.bootstrap_servers,
                self._topic_name,
                self._directory,
                self._prefix + GROUP,
            )
            show.event(
                f"group '{self._prefix}{GROUP}' of {MEMBERS} processes consumes while we publish"
            )
            self._publish(flights)
            self._wait_for_group()
            self._wait_for_recovery()
            self._check(flights)
            if security is not None:
                self._check_doors()
            if self._pipeline is not None:
                self._run_pipeline(self._pipeline, flights)
        self._result.address = self._cluster.broker(1).address
        self._result.total_s = time.monotonic() - self._began
        late = self._cluster.stop()
        if late:
            raise CommandFailed(f"brokers {late} did not stop in time and were killed")
        return self._result

    def close(self) -> None:
        """Leave nothing running."""
        if self._pipeline is not None:
            self._pipeline.kill()
        if self._group is not None:
            self._group.kill()
        self._cluster.close()

    def _wait_for_brokers(self) -> None:
        ready: set[int] = set()
        while len(ready) < BROKERS:
            ready |= {event.broker for event in self._events() if isinstance(event, BrokerReady)}
            self._pause("the brokers to start")
        count, rate = self._result.flights, self._rate
        self._show.event(f"three brokers serve: {self._cluster.bootstrap_servers}")
        self._show.event(f"{count:,} flights to publish, about {rate:,.0f} a second")

    def _create_topic(self) -> None:
        self._until(lambda: len(self._status().brokers) == BROKERS, "the brokers to meet")
        self._create_topics({self._topic_name: (PARTITIONS, {"min.insync.replicas": "2"})})
        self._show.event(
            f"topic '{self._topic_name}': {PARTITIONS} partitions, each on all three brokers"
        )

    def _create_topics(self, topics: Mapping[str, tuple[int, Mapping[str, str]]]) -> None:
        """Create topics of so many partitions and such options, with a copy on each broker."""
        from confluent_kafka.admin import NewTopic

        from kafkaesque.cli.kafka import result_of

        new = [
            NewTopic(name, partitions, BROKERS, config=dict(options))
            for name, (partitions, options) in topics.items()
        ]
        for name, created in self._admin.create_topics(new).items():
            result_of(created, f"topic {name}")
        self._until(lambda: self._status().is_ready(BROKERS), "leaders")

    def _publish(self, flights: Flights) -> None:
        self._publisher = Publisher(self._connection, self._topic_name, flights)
        began = time.monotonic()
        try:
            self._publisher.publish(self._rate, self._on_turn)
        finally:
            self._result.acknowledged = self._publisher.acknowledged
            self._result.gaps_s = self._publisher.gaps_s
        self._result.publishing_s = time.monotonic() - began
        self._show.event(f"all {self._publisher.acknowledged:,} are on two disks at least")

    def _on_turn(self) -> None:
        """What goes on beside publishing: the show, and the leader's fate."""
        self._events()
        self._check_time("publishing")
        group = self._reading_group()
        self._show.progress(self._publisher.acknowledged, group.count)
        elapsed_s = time.monotonic() - self._stage_at
        if self._stage is Stage.LEADING:
            if self._publisher.acknowledged >= KILL_AT * self._result.flights:
                self._kill_leader()
        elif self._stage is Stage.KILLED:
            if self._publisher.has_all_since(self._killed_at + STEP_S):
                worst = max(self._publisher.gaps_s.values(), default=0.0)
                self._show.event(f"other brokers lead them: no writes for {worst * 1000:.0f} ms")
                self._enter(Stage.REPLACED)
        elif self._stage is Stage.REPLACED:
            if elapsed_s > RESTART_AFTER_S:
                self._restart()
        elif self._stage is Stage.SERVING:
            self._maybe_in_sync()

    def _kill_leader(self) -> None:
        leaders = {n: each.leader for n, each in self._topic().partitions.items()}
        victim = self._result.victim = leaders[0]
        led = self._result.partitions = sorted(
            n for n, leader in leaders.items() if leader == victim
        )
        self._publisher.watch(led)
        broker = self._cluster.broker(victim)
        broker.signal(signal.SIGKILL)
        self._killed_at = time.monotonic()
        names = ", ".join(map(str, led))
        self._show.event(f"kill -9 {broker.pid}: broker {victim}, leader of partitions {names}")
        self._enter(Stage.KILLED)

    def _restart(self) -> None:
        self._cluster.broker(self._result.victim).start(self._cluster.events)
        self._show.event(f"broker {self._result.victim} is started again, on the same data")
        self._enter(Stage.RESTARTED)
        self._restarted_at = time.monotonic()

    def _maybe_in_sync(self) -> None:
        """Look now and then whether the killed broker has caught up everywhere."""
        if time.monotonic() - self._looked_at < LOOK_S:
            return
        self._looked_at = time.monotonic()
        partitions = self._topic().partitions.values()
        if all(self._result.victim in each.isrs for each in partitions):
            self._result.back_s = time.monotonic() - self._restarted_at
            self._show.event(
                f"broker {self._result.victim} is back in sync, {self._result.back_s:.1f} s"
                " after its start"
            )
            self._enter(Stage.IN_SYNC)

    def _wait_for_group(self) -> None:
        ends = read_ends(self._connection, self._topic_name, PARTITIONS)
        group = self._reading_group()
        self._until(lambda: group.is_at(ends), "the group to read to the end")
        group.leave()
        self._show.event(f"the group has read everything and left: {group.count:,} deliveries")

    def _wait_for_recovery(self) -> None:
        """With few flights publishing may be over before the killed broker is back."""
        if self._stage is Stage.KILLED:
            self._enter(Stage.REPLACED)
        if self._stage is Stage.REPLACED:
            self._restart()
        self._until(lambda: self._stage is not Stage.RESTARTED, "the broker to serve again")

        def is_in_sync() -> bool:
            if self._stage is Stage.SERVING:
                self._maybe_in_sync()
            return self._stage is not Stage.SERVING

        self._until(is_in_sync, "the broker to catch up")

    def _check(self, flights: Flights) -> None:
        ends = read_ends(self._connection, self._topic_name, PARTITIONS)
        checked = 0

        def on_progress(count: int) -> None:
            nonlocal checked
            checked += count
            self._show.progress(self._result.acknowledged, self._reading_group().count, checked)
            self._check_time("checking the log")

        self._result.log = check_log(
            self._connection,
            self._topic_name,
            ends,
            flights,
            self._publisher.is_acknowledged,
            on_progress,
        )
        self._result.deliveries = check_deliveries(self._reading_group().deliveries(), ends)
        self._show.event("the log was read once more, offset by offset, and compared with the data")

    def _check_doors(self) -> None:
        """Look whether those stay outside who do not log in, and others' topics closed."""
        try:
            closed = is_closed_to_strangers(self._cluster.bootstrap_servers)
        except OSError as error:
            raise CommandFailed(f"a broker cannot be reached: {why(error)}") from None
        self._result.is_closed = closed and is_closed_to_others(self._admin)
        self._show.event(
            "clients without a log-in are turned away, and this user from others' topics"
            if self._result.is_closed
            else "a client got in that should not have"
        )

    def _run_pipeline(self, pipeline: DelaysPipeline, flights: Flights) -> None:
        """Have Spark join and add up what was published, and do the same without it."""
        began = time.monotonic()
        self._time_max_s = began - self._began + SPARK_TIME_MAX_S
        self._create_topics({self._prefix + name: how for name, how in TOPICS.items()})
        publish_tables(self._connection, self._topic_name, flights, self._prefix)
        self._show.event("Spark starts: delays per carrier and hour, with the hour's weather")
        pipeline.start(self._cluster.bootstrap_servers, self._prefix)
        expected = expected_delays(flights)

        def has_ended() -> bool:
            for line in pipeline.new_lines():
                self._show.event(f"  {line}")
            return pipeline.has_ended()

        self._until(has_ended, "Spark")
        self._result.delays = check_delays(self._connection, expected, self._prefix)
        self._result.spark_s = time.monotonic() - began
        self._show.event("its results were read from their topic and compared with the data")

    def _events(self) -> list[BrokerReady | BrokerEnded]:
        """Take what the brokers did; an end that was not ordered ends the job."""
        found: list[BrokerReady | BrokerEnded] = []
        while True:
            try:
                event = self._cluster.events.get_nowait()
            except queue.Empty:
                return found
            if isinstance(event, BrokerEnded):
                broker = self._cluster.broker(event.broker)
                if not broker.is_stopping:
                    tail = "\n  ".join(broker.log_tail())
                    raise CommandFailed(f"broker {event.broker} {event.how}:\n  {tail}")
            elif isinstance(event, BrokerReady):
                found.append(event)
                if self._stage is Stage.RESTARTED:
                    self._enter(Stage.SERVING)

    @property
    def _topic_name(self) -> str:
        return self._prefix + TOPIC

    def _reading_group(self) -> ReadingGroup:
        group = self._group
        if group is None:
            raise CommandFailed("the group was not started")
        return group

    def _topic(self) -> "TopicMetadata":
        return self._connection.metadata(self._admin).topics[self._topic_name]

    def _status(self) -> ClusterStatus:
        described = describe_cluster(self._cluster.bootstrap_servers)
        return status_of(self._connection.metadata(self._admin), described)

    def _enter(self, stage: Stage) -> None:
        self._stage = stage
        self._stage_at = time.monotonic()

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        while not condition():
            self._events()
            self._pause(what)

    def _pause(self, what: str) -> None:
        self._check_time(what)
        if self._group is not None:
            self._show.progress(self._result.acknowledged, self._group.count)
        time.sleep(STEP_S)

    def _check_time(self, what: str) -> None:
        if time.monotonic() - self._began > self._time_max_s:
            raise CommandFailed(
                f"not done within {self._time_max_s:.0f} s; it was waiting for: {what}",
                hint="--flights 50000, or --without-spark, on a slow machine",
                exit_code=TIMED_OUT,
            )
