"""A Kafka client on a simulated machine: connections, metadata, requests with a time limit."""

from collections import deque
from collections.abc import Callable, Container, Sequence
from typing import Any, Final

from kafkaesque.env import Env
from kafkaesque.env.network import Address, Framing, ListenOptions
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.frames import read_response, write_request
from kafkaesque.protocols.kafka.messages.metadata_request import (
    MetadataRequest,
    MetadataRequestTopic,
)
from kafkaesque.sim.clients.bursts import rest_ms
from kafkaesque.sim.ordered_link import OrderedLink

REQUEST_TIMEOUT_MS: Final = 3_000
RETRY_MS: Final = 100
#: So long a fetch waits for records, and where clients rest.
FETCH_WAIT_MS: Final = 300
FETCH_WAIT_MS_RESTING: Final = 2_000
#: So many times as long clients wait in a rest before they try again.
RESTING_TIMES: Final = 4

METADATA_VERSION: Final = 12

#: Gets the response, or None if there is none: then it is not known whether the request was done.
OnResponse = Callable[[Any], None]


class BrokerLink(OrderedLink[Any]):
    """A connection to one broker."""

    def __init__(self, env: Env, address: Address, tls: str = "") -> None:
        super().__init__(env, address, ListenOptions(framing=Framing.LENGTH_PREFIXED, tls=tls))
        self._correlation = 0
        #: Which request each answer is to that is waited for, and its version.
        self._requests: deque[tuple[int, int]] = deque()

    def send(self, api_key: int, version: int, message: Any, on_response: OnResponse) -> None:
        """Send a request."""
        if self.is_closed:
            self._env.clock.call_soon(lambda: on_response(None))
            return
        self._correlation += 1
        self._requests.append((api_key, version))
        frame = write_request(api_key, version, self._correlation, "sim", message)
        self._send(frame, REQUEST_TIMEOUT_MS, on_response)

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        """See `ConnectionHandler`."""
        if self.is_closed:
            return
        api_key, version = self._requests.popleft()
        _, message = read_response(memoryview(bytes(data)), api_key, version)
        self._answer(message)


class KafkaClient:
    """What producers and consumers of one topic share."""

    def __init__(
        self,
        env: Env,
        bootstrap: Sequence[Address],
        topic: str,
        ignored_ids: Container[bytes] = (),
    ) -> None:
        """Topics with an id in `ignored_ids` are namesakes that were deleted."""
        self.env = env
        self.topic = topic
        #: Known as soon as any leader is.
        self.topic_id = bytes(16)
        self.bootstrap = bootstrap
        self._ignored_ids = ignored_ids
        self._links: dict[Address, BrokerLink] = {}
        self._brokers: dict[int, Address] = {}
        #: partition -> leader epoch and leader; an older epoch never replaces a newer one, or a
        #: deposed leader that has not heard of it could win clients back (KIP-320).
        self._leaders: dict[int, tuple[int, int]] = {}
        self._is_refreshing = False

    def link(self, address: Address) -> BrokerLink:
        """Return an open connection to a broker."""
        link = self._links.get(address)
        if link is None or link.is_closed:
            link = self._links[address] = BrokerLink(self.env, address)
        return link

    def any_link(self) -> BrokerLink:
        """Return a connection to some broker."""
        return self.link(self.bootstrap[self.env.dice.below(len(self.bootstrap))])

    def leader_link(self, partition: int) -> BrokerLink | None:
        """Return a connection to a partition's leader, as far as is known."""
        address = self._brokers.get(self._leaders.get(partition, (-1, -1))[1])
        return None if address is None else self.link(address)

    def leader_epoch(self, partition: int) -> int:
        """Return the newest leader epoch that is known, -1 if none is."""
        return self._leaders.get(partition, (-1, -1))[0]

    def refresh(self) -> None:
        """Ask for the leaders again."""
        if self._is_refreshing:
            return
        self._is_refreshing = True
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=self.topic)], allow_auto_topic_creation=False
        )
        self.any_link().send(ApiKey.METADATA, METADATA_VERSION, request, self._on_metadata)

    def _on_metadata(self, response: Any) -> None:
        self._is_refreshing = False
        if response is None:
            return
        for broker in response.brokers:
            self._brokers[broker.node_id] = Address(broker.host, broker.port)
        for topic in response.topics:
            if topic.topic_id in self._ignored_ids:
                continue
            if topic.partitions:
                self.topic_id = bytes(topic.topic_id)
            for partition in topic.partitions:
                index, epoch = partition.partition_index, partition.leader_epoch
                if epoch >= self.leader_epoch(index):
                    self._leaders[index] = (epoch, partition.leader_id)

    @property
    def fetch_wait_ms(self) -> int:
        """How long a fetch waits for records."""
        return FETCH_WAIT_MS_RESTING if rest_ms(self.env) else FETCH_WAIT_MS

    def rest(self, act: Callable[[], None], ms: int) -> None:
        """Begin the next piece of work after a pause; where clients rest, when they go on."""
        self.env.clock.call_later(rest_ms(self.env) + ms // 2 + self.env.dice.below(ms), act)

    def later(self, act: Callable[[], None], ms: int = RETRY_MS) -> None:
        """Try again after a moment that differs from try to try, and is longer in a rest."""
        ms *= RESTING_TIMES if rest_ms(self.env) else 1
        self.env.clock.call_later(ms // 2 + self.env.dice.below(ms), act)
