"""The options by which topics are streams of NATS, and queues consumers of them."""

from typing import Final

from kafkaesque.model.options import Option, OptionType

STREAM: Final = "nats.stream"
CONSUMER: Final = "nats.consumer"

TOPIC_NATS_OPTIONS: Final = (
    Option(
        name=STREAM,
        type=OptionType.STRING,
        default="",
        doc="Over NATS: how the stream was created, as JSON. Not for people to set.",
    ),
)
QUEUE_NATS_OPTIONS: Final = (
    Option(
        name=CONSUMER,
        type=OptionType.STRING,
        default="",
        doc="Over NATS: how the consumer was created, as JSON. Not for people to set.",
    ),
)
