"""A Kafka gateway over a broker that only has groups: real frames in, real frames out."""

from collections.abc import Callable
from typing import Any, cast

from kafkaesque.access.audit import EVENT_KINDS
from kafkaesque.broker.activity import Activity
from kafkaesque.broker.audit import Audit
from kafkaesque.broker.coordinators.groups import Answer
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.live_options import LiveOptions
from kafkaesque.broker.metadata.records import PartitionPlacement, TopicCreated, TopicDeleted
from kafkaesque.broker.options.tables import BROKER_OPTIONS
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.chassis.link import PortOptions, Shared
from kafkaesque.env.disk import Buffer, FileRange
from kafkaesque.env.network import Framing
from kafkaesque.gateway.kafka.connection import KafkaConnection
from kafkaesque.gateway.kafka.gateway import KafkaGateway
from kafkaesque.groups.config import GroupConfig
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import Event, ListGroups, Request
from kafkaesque.groups.results import AppendInTransaction, ListedGroup, ListResult
from kafkaesque.groups.table import GroupTable
from kafkaesque.model.ids import NodeId
from kafkaesque.protocols.kafka.frames import read_response, write_request
from kafkaesque.tables.log_table import Append, Instant, RequestToken, Respond

CLIENT_HOST = "192.0.2.7"


class Clock:
    """Stands still unless it is told to go on."""

    def __init__(self) -> None:
        self.ms = 1_000

    def now_ms(self) -> int:
        return self.ms

    def now_ns(self) -> int:
        return self.ms * 1_000_000

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + self.ms

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> None:
        raise NotImplementedError


class Dice:
    """Gives every identifier once."""

    def __init__(self) -> None:
        self._count = 0

    def unique_bytes(self, count: int) -> bytes:
        self._count += 1
        return self._count.to_bytes(count, "big")


class NoShareGroups:
    """Stands in for the coordinators of share groups, of which there are none."""

    def listed(self) -> list[ListedGroup]:
        return []

    def delete(self, group_id: str, on_done: Callable[[GroupError], None]) -> None:
        on_done(GroupError.GROUP_ID_NOT_FOUND)


class Coordinators:
    """Stands in for the driver: one table whose writes are committed at once, or when told."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[RequestToken, Callable[[Answer], None]] = {}
        self._tokens = 0
        self.share = NoShareGroups()
        #: Groups that are refused before there is a table to ask, and why.
        self.refused: dict[str, GroupError] = {}
        self.events: list[Event] = []
        self.holds_writes = False
        self._held: list[Append | AppendInTransaction] = []
        self.table = GroupTable(GroupConfig(initial_rebalance_delay_ms=0))
        self.table.activate(self._now())

    def _now(self) -> Instant:
        return Instant(self._clock.now_ms(), self._clock.wall_ms())

    def next_token(self) -> RequestToken:
        self._tokens += 1
        return RequestToken(self._tokens)

    def step(self, group_id: str, event: Request, on_result: Callable[[Answer], None]) -> None:
        self.events.append(event)
        if group_id in self.refused:
            on_result(self.refused[group_id])
            return
        assert event.token not in self._waiting
        self._waiting[event.token] = on_result
        self.table.step(event, self._now())
        self._pump()
        # Deadlines are at least a moment away.
        self.pass_time(1)

    def list_groups(self, states: tuple[str, ...], types: tuple[str, ...], on_done: Any) -> None:
        if "" in self.refused:
            on_done(ListResult(error=self.refused[""]))
            return
        self.step("list", ListGroups(token=self.next_token(), states=states, types=types), on_done)

    def pass_time(self, by_ms: int) -> None:
        self._clock.ms += by_ms
        self.table.tick(self._now())
        self._pump()

    def commit(self) -> None:
        held, self._held = self._held, []
        self.holds_writes = False
        for append in held:
            self.table.on_appended(append.token, self._now())
        self._pump()

    def _pump(self) -> None:
        while work := self.table.take_ready():
            for item in work:
                if isinstance(item, Respond):
                    self._waiting.pop(item.token)(item.result)
                elif self.holds_writes:
                    self._held.append(item)
                else:
                    self.table.on_appended(item.token, self._now())


class Wire:
    """Stands in for a client's connection; keeps what is written to it."""

    peer = f"{CLIENT_HOST}:50123"

    def __init__(self) -> None:
        self.frames: list[memoryview] = []
        self.is_aborted = False

    def write(self, parts: list[Buffer | FileRange]) -> None:
        for part in parts:
            assert not isinstance(part, FileRange)
            self.frames.append(memoryview(part)[4:])

    def peer_certificate(self) -> None:
        return None

    def unsent_bytes(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None:
        self.is_aborted = True


class Cluster:
    """What the controller has told, which is all there is until `catch_up` says otherwise."""

    node = NodeId(1)

    def __init__(self) -> None:
        self.state = ClusterState()
        #: What becomes of the metadata when the controller is asked for them.
        self.catch_up: Callable[[], bool] = lambda: True

    def when_current(self, timeout_ms: int, on_done: Callable[[bool], None]) -> None:
        on_done(self.catch_up())


class _Publishing:
    is_overloaded = False


class _Configuration:
    def __init__(self, state: ClusterState) -> None:
        options = LiveOptions(NodeId(1), BROKER_OPTIONS.defaults())
        options.refresh(state)
        self.get = options.get


class _Doors:
    """A broker that only has groups."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.dice = Dice()
        self.activity = Activity()
        self.cluster = Cluster()
        self.publishing = _Publishing()
        self.configuration = _Configuration(self.cluster.state)
        self.groups = Coordinators(self.clock)
        self.access = _Access(self.clock)


class _Access:
    """Lets everybody in, and keeps what is told."""

    def __init__(self, clock: Clock) -> None:
        self.audit = Audit(cast(Any, clock), EVENT_KINDS)


class Port:
    """One client at the Kafka port."""

    def __init__(self) -> None:
        doors = _Doors()
        self.cluster = doors.cluster
        self.clock = doors.clock
        self.coordinators = doors.groups
        self.audit = doors.access.audit
        self.state = doors.cluster.state
        self.reports: list[str] = []
        chassis = Chassis(
            clock=cast(Any, doors.clock),
            network=cast(Any, None),
            options=doors.configuration,
            load=doors.publishing,
            client_quotas=dict,
            report=self.reports.append,
        )
        self._gateway = KafkaGateway(cast(Doors, doors), chassis)
        self.wire = Wire()
        options = PortOptions(protocol="kafka", listener="kafka", framing=Framing.LENGTH_PREFIXED)
        gateway = self._gateway
        shared = Shared(chassis, options)
        self._connection = KafkaConnection(gateway.context, gateway.handle, shared)
        self._connection.on_open(cast(Any, self.wire))
        self._correlation = 0
        self._sent: list[tuple[int, int, int]] = []

    def create_topic(
        self, name: str, partition_count: int = 3, topic_id: int = 7, at_ms: int = 0
    ) -> None:
        first = self.state.next_group
        placements = tuple(
            PartitionPlacement(group=first + number, replicas=(1,))
            for number in range(partition_count)
        )
        self.state.apply(
            TopicCreated(name=name, topic_id=id_of(topic_id), partitions=placements, at_ms=at_ms)
        )

    def delete_topic(self, topic_id: int = 7) -> None:
        self.state.apply(TopicDeleted(topic_id=id_of(topic_id)))

    def send(self, api_key: int, version: int, message: Any, client_id: str | None = "kit") -> None:
        self._correlation += 1
        self._sent.append((api_key, version, self._correlation))
        frame = write_request(api_key, version, self._correlation, client_id, message)
        data = bytearray(frame[4:])
        self._connection.on_bytes(data)
        # Whatever is kept of a request must be a copy: its frame is gone when it is done.
        data[:] = bytes(len(data))

    def take(self) -> Any:
        """Return the next answer, or None while there is none."""
        if not self.wire.frames:
            return None
        api_key, version, sent = self._sent.pop(0)
        correlation, message = read_response(self.wire.frames.pop(0), api_key, version)
        assert correlation == sent
        return message

    def ask(self, api_key: int, version: int, message: Any, client_id: str | None = "kit") -> Any:
        self.send(api_key, version, message, client_id)
        return self.take()


def id_of(number: int) -> bytes:
    return number.to_bytes(16, "big")
