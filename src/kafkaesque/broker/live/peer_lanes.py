"""Brings messages to the brokers whose live subscribers want them, in order and each once.

Theory of operation. Each broker has a lane. What comes in one turn goes in one request, and a few
requests are under way at once; links keep their order. The messages of a lane are numbered. If a
link breaks, nobody knows which of them have arrived: all that are not answered are sent again, and
the receiver passes over those whose numbers it has had. So a message is lost only with a process at
one of the ends, or when a broker cannot be reached for long.

A lane belongs to one process of the other broker: its subscribers are gone with it. A lane that is
begun anew has another stream number.
"""

from collections import deque
from typing import Final, NamedTuple

from kafkaesque.broker.peers.link import PeerNetwork, PeerUnreachable
from kafkaesque.broker.requests.caller import RemoteCaller
from kafkaesque.broker.requests.commands import Done
from kafkaesque.broker.requests.live_requests import DeliverLive, Delivery
from kafkaesque.env.clock import Clock
from kafkaesque.model.errors import RequestRefused, RequestTimedOut
from kafkaesque.model.ids import NodeId

#: Messages of one request, and their bytes; a larger one goes alone.
BATCH_MAX: Final = 512
BATCH_BYTES_MAX: Final = 1024 * 1024
#: Requests under way to one broker.
WINDOW: Final = 8
TIMEOUT_MS: Final = 10_000
#: After a request that came to nothing though the link stands.
RETRY_MS: Final = 100
#: What waits for one broker; further messages are dropped.
LANE_BYTES_MAX: Final = 32 * 1024 * 1024
LANE_MESSAGES_MAX: Final = 100_000
#: From so much on publishers should be read no further.
BUSY_BYTES: Final = 8 * 1024 * 1024


class _Item(NamedTuple):
    delivery: Delivery
    size: int


class _Lane:
    """What is on its way to one process of a broker."""

    __slots__ = ("first", "node", "process", "round", "size", "stream", "under_way", "waiting")

    def __init__(self, node: NodeId, process: int | None, stream: int) -> None:
        self.node: Final = node
        self.process: Final = process
        self.stream: Final = stream
        #: The number of the first message that waits.
        self.first = 0
        self.waiting: deque[_Item] = deque()
        #: What was sent and is not answered, in order.
        self.under_way: deque[list[_Item]] = deque()
        #: How often it was begun to send again: answers of earlier rounds count for nothing.
        self.round = 0
        self.size = 0

    @property
    def count(self) -> int:
        return len(self.waiting) + sum(len(each) for each in self.under_way)

    def take(self) -> list[_Item]:
        """Take the next messages to be sent."""
        sent: list[_Item] = []
        size = 0
        while self.waiting and len(sent) < BATCH_MAX:
            size += self.waiting[0].size
            if sent and size > BATCH_BYTES_MAX:
                break
            sent.append(self.waiting.popleft())
        self.first += len(sent)
        self.under_way.append(sent)
        return sent

    def go_back(self) -> None:
        """Have all that is not answered sent again."""
        self.round += 1
        while self.under_way:
            sent = self.under_way.pop()
            self.first -= len(sent)
            self.waiting.extendleft(reversed(sent))


class PeerLanes:
    """See the module."""

    __slots__ = ("_caller", "_clock", "_due", "_heard", "_lanes", "_peers", "_streams", "dropped")

    def __init__(self, *, clock: Clock, peers: PeerNetwork, caller: RemoteCaller) -> None:
        self._clock: Final = clock
        self._peers: Final = peers
        self._caller: Final = caller
        self._lanes: dict[NodeId, _Lane] = {}
        #: Lanes that have got something in this turn.
        self._due: dict[NodeId, None] = {}
        self._streams = 0
        #: By broker: its process, the stream, and the number that is expected next.
        self._heard: dict[NodeId, tuple[int | None, int, int]] = {}
        #: Messages that did not come to a broker that may have wanted them.
        self.dropped = 0

    @property
    def is_busy(self) -> bool:
        """Whether so much waits that publishers should be read no further."""
        return any(each.size >= BUSY_BYTES for each in self._lanes.values())

    # -- sending

    def add(self, node: NodeId, delivery: Delivery) -> None:
        """Bring a message to a broker, behind those before it."""
        lane = self._lane(node)
        size = memoryview(delivery.message).nbytes
        is_full = lane.size + size > LANE_BYTES_MAX or len(lane.waiting) >= LANE_MESSAGES_MAX
        if is_full and lane.waiting:
            self.dropped += 1
            return
        lane.waiting.append(_Item(delivery, size))
        lane.size += size
        if not self._due:
            # More of the same turn may follow.
            self._clock.call_soon(self._flush)
        self._due[node] = None

    def _lane(self, node: NodeId) -> _Lane:
        lane, process = self._lanes.get(node), self._peers.incarnation(node)
        if lane is None or (process is not None and process != lane.process):
            self._streams += 1
            lane = self._lanes[node] = _Lane(node, process, self._streams)
        return lane

    def _flush(self) -> None:
        due, self._due = self._due, {}
        for node in due:
            self._go_on(node)

    def _go_on(self, node: NodeId) -> None:
        lane = self._lanes.get(node)
        if lane is None or not self._peers.is_linked(node):
            return
        if self._peers.incarnation(node) not in (None, lane.process):
            # Its subscribers are gone with the process before.
            del self._lanes[node]
            return
        while lane.waiting and len(lane.under_way) < WINDOW:
            first = lane.first
            self._send(lane, first, lane.take())

    def _send(self, lane: _Lane, first: int, sent: list[_Item]) -> None:
        round_ = lane.round
        request = DeliverLive(
            stream=lane.stream, first=first, deliveries=[each.delivery for each in sent]
        )
        self._caller.ask(
            lane.node,
            request,
            Done,
            TIMEOUT_MS,
            lambda outcome: self._on_sent(lane, round_, sent, outcome),
        )

    def _on_sent(
        self,
        lane: _Lane,
        round_: int,
        sent: list[_Item],
        outcome: Done | RequestRefused | PeerUnreachable,
    ) -> None:
        if self._lanes.get(lane.node) is not lane or lane.round != round_:
            return
        if isinstance(outcome, PeerUnreachable | RequestTimedOut):
            lane.go_back()
            self._clock.call_later(RETRY_MS, lambda: self._go_on(lane.node))
            return
        # A refusal is an earlier release's, which has no live subscribers.
        lane.under_way.remove(sent)
        lane.size -= sum(each.size for each in sent)
        if not lane.waiting and not lane.under_way:
            return
        self._go_on(lane.node)

    def on_link_up(self, node: NodeId) -> None:
        """A broker can be reached: what was not answered is sent."""
        self._go_on(node)

    def give_up(self, node: NodeId) -> None:
        """A broker does not run, or cannot be reached for long: nothing waits for it any more."""
        lane = self._lanes.pop(node, None)
        if lane is not None:
            self.dropped += lane.count

    def nodes(self) -> list[NodeId]:
        """Return the brokers that have a lane."""
        return list(self._lanes)

    # -- receiving

    def news_in(self, node: NodeId, request: DeliverLive) -> list[Delivery]:
        """Return what of a request has not come before."""
        process = self._peers.incarnation(node)
        known_process, stream, expected = self._heard.get(node, (None, -1, 0))
        if process != known_process or request.stream > stream:
            expected = request.first
        elif request.stream < stream:
            return []
        behind = request.first + len(request.deliveries)
        self._heard[node] = (process, request.stream, max(expected, behind))
        return request.deliveries[max(0, expected - request.first) :]
