"""Makes what streams consist of, for both clients."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kafkaesque.client.config import ClientConfig
from kafkaesque.client.serializers import Serializer
from kafkaesque.client.streams.attempts import AttemptPolicy
from kafkaesque.client.streams.consumer import Consumer, Start
from kafkaesque.client.streams.processor import Delivery, Processor, check_delivery
from kafkaesque.client.streams.producer import Producer
from kafkaesque.client.streams.records import Event, StreamRecord
from kafkaesque.client.streams.transformer import Transformer


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What is read, and how it is decoded."""

    topics: tuple[str, ...]
    group: str
    key: Serializer[Any]
    value: Serializer[Any]
    start: Start = "earliest"

    def consumer(self, config: ClientConfig) -> Consumer:
        """Return a consumer of it.

        Raises:
            InvalidArgument: it makes no sense.
        """
        return Consumer(
            config,
            self.topics,
            group=self.group,
            key=self.key,
            value=self.value,
            start=self.start,
            settings={},
        )

    def producer(self, config: ClientConfig, transactional_id: str | None) -> Producer:
        """Return a producer that writes as the source is read."""
        return Producer(
            config,
            key=self.key,
            value=self.value,
            transactional_id=transactional_id,
            settings={},
        )


def make_processor(
    config: ClientConfig,
    source: Source,
    function: Callable[[StreamRecord], object],
    policy: AttemptPolicy,
    delivery: Delivery,
) -> Processor:
    """Return a processor; see `Client.processor`."""
    check_delivery(delivery)
    return Processor(
        source.consumer(config),
        function,
        producer=None if policy.dead_letters is None else source.producer(config, None),
        policy=policy,
        delivery=delivery,
    )


def make_transformer(
    config: ClientConfig,
    source: Source,
    function: Callable[[StreamRecord], Iterable[Event]],
    policy: AttemptPolicy,
    transactional_id: str,
) -> Transformer:
    """Return a transformer; see `Client.transformer`."""
    return Transformer(
        source.consumer(config),
        function,
        producer=source.producer(config, transactional_id),
        policy=policy,
    )
