"""What a connection of AMQP has open, as it tells the admin port."""

import msgspec


class ConsumerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One consumer of a channel."""

    tag: str
    queue: str
    needs_ack: bool
    is_exclusive: bool
    #: Messages that it may have unacknowledged; 0: as many as its channel may.
    prefetch: int
    priority: int


class ChannelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One channel."""

    number: int
    is_confirming: bool
    is_transactional: bool
    #: Of its next consumers each, and of all of it together; 0: no limit.
    prefetch: int
    prefetch_together: int
    #: Messages that the client has not acknowledged, and publishes that are not confirmed.
    unacknowledged: int
    unconfirmed: int
    #: Of its transaction: what is to be published, and settled.
    publishes_uncommitted: int
    acks_uncommitted: int
    #: All of them; those that are described may be fewer.
    consumer_count: int
    consumers: list[ConsumerFacts]


class ConnectionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One connection: where its queues are, and its channels."""

    vhost: str
    #: All of them; those that are described may be fewer.
    channel_count: int
    channels: list[ChannelFacts]
