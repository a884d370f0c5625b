"""A gateway that only tests have: lines in, lines out.

    PUB topic text   answered with `OK offset` when it is committed, or `ERROR why`
    SUB topic        answered with `OK`; each record comes as `MSG offset text`, now and later

Both work at every broker, wherever partition 0 of the topic is led. Limits, idle sweep, drain
and metrics are the chassis's: nothing of them is here but numbers.
"""

from collections import deque
from functools import partial

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.listeners import Listener
from kafkaesque.broker.requests.commands import EARLIEST, FetchResult, ProduceResult
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.chassis.gateway import Gateway
from kafkaesque.chassis.link import ClientConnection, PortOptions, Shared
from kafkaesque.env.network import Address, Framing
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.records import Record, decode_batch

PROTOCOL = "lines"
LINE_BYTES_MAX, WAITING_LINES_MAX, SUBSCRIPTIONS_MAX = 4096, 16, 8
PUSHED_BYTES_MAX = 128 * 1024
TIMEOUT_MS = 10_000


class LineGateway(Gateway):
    """One broker's ports for lines."""

    def __init__(self, doors: Doors, chassis: Chassis) -> None:
        super().__init__(chassis)
        self.doors = doors

    def start(self, listener: Listener) -> Address:
        options = PortOptions(
            protocol=PROTOCOL,
            listener=listener.name,
            tls=listener.tls,
            framing=Framing.STREAM,
            connections_max=10,
            unsent_bytes_max=PUSHED_BYTES_MAX,
            idle_ms_max=lambda: 60_000,
            refuses_http=True,
        )
        return self.listen(listener.address, options, partial(LineConnection, self.doors))


class LineConnection(ClientConnection):
    """One client: its lines are carried out one after the other."""

    def __init__(self, doors: Doors, shared: Shared) -> None:
        super().__init__(shared)
        self.doors = doors
        self._rest = b""
        self._lines: deque[str] = deque()
        self._is_publishing = False
        self._subscriptions: list[Subscription] = []

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        if self.speaks_http(data):
            return
        *lines, self._rest = (self._rest + bytes(data)).split(b"\n")
        if len(self._rest) > LINE_BYTES_MAX:
            self.refuse("a line is too long")
            return
        self._lines.extend(line.decode(errors="replace").rstrip("\r") for line in lines)
        self.note_activity()
        self.go_on()

    def go_on(self) -> None:
        while self._lines and not self._is_publishing and self.may_begin:
            self.shared.meter.requests += 1
            word, _, rest = self._lines.popleft().partition(" ")
            if word == "PUB":
                self._publish(*rest.partition(" ")[::2])
            elif word == "SUB" and len(self._subscriptions) < SUBSCRIPTIONS_MAX:
                self._subscribe(rest)
            else:
                self.say("ERROR that cannot be done")
        for subscription in self._subscriptions:
            subscription.maybe_grant()
        self.maybe_pause()
        self.maybe_resume()

    def is_full(self) -> bool:
        return len(self._lines) >= WAITING_LINES_MAX

    def has_room(self) -> bool:
        return len(self._lines) < WAITING_LINES_MAX // 2

    def is_busy(self) -> bool:
        return self._is_publishing

    def on_gone(self) -> None:
        self._lines.clear()
        for subscription in self._subscriptions:
            subscription.feed.close()

    def say(self, line: str) -> None:
        if self.connection is not None:
            self.connection.write((line.encode() + b"\n",))

    def _publish(self, topic: str, text: str) -> None:
        def on_done(end: ProduceResult | RequestRefused) -> None:
            self._is_publishing = False
            self.say(f"OK {end.base_offset}" if isinstance(end, ProduceResult) else f"ERROR {end}")
            self.go_on()

        batch = encode_batch([Record(0, self.shared.clock.wall_ms(), None, text.encode())])
        self._is_publishing = True
        self.doors.publishing.publish(
            TopicPartition(topic, 0),
            bytes(batch),
            acks=-1,
            timeout_ms=TIMEOUT_MS,
            on_done=on_done,
            is_wanted=lambda: self.is_open,
        )

    def _subscribe(self, topic: str) -> None:
        self.is_listener_only = True
        self.say("OK")
        self._subscriptions.append(Subscription(self, TopicPartition(topic, 0)))


class Subscription:
    """Pushes what is committed, as fast as the client reads."""

    def __init__(self, link: LineConnection, where: TopicPartition) -> None:
        self._link = link
        self._owed_bytes = PUSHED_BYTES_MAX
        self.feed = link.doors.reading.feed(where, self)
        self.feed.seek(EARLIEST)

    def maybe_grant(self) -> None:
        """Give back the credit that was used up, once the client has read enough."""
        if self._owed_bytes > 0 and self._link.may_begin:
            granted, self._owed_bytes = self._owed_bytes, 0
            self.feed.grant(granted)

    def on_batches(self, result: FetchResult) -> None:
        for batch in scan_batches(memoryview(result.records)).batches:
            for record in decode_batch(result.records, 1 << 20, at=batch.at):
                self._link.say(f"MSG {record.offset} {(record.value or b'').decode()}")
        self._owed_bytes += len(result.records)
        self._link.go_on()

    def on_refused(self, refusal: RequestRefused) -> None:
        self._link.say(f"ERROR {refusal}")
