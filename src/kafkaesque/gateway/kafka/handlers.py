"""Which function answers which API."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kafkaesque.gateway.kafka import fetch, produce
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.protocols.kafka.api import ApiKey

if TYPE_CHECKING:
    from kafkaesque.gateway.kafka.gateway import KafkaGateway

Handler = Callable[["KafkaGateway", Call], None]


HANDLERS: Mapping[int, Handler] = {
    ApiKey.PRODUCE: lambda gateway, call: produce.on_produce(gateway.broker, call),
    ApiKey.FETCH: lambda gateway, call: fetch.on_fetch(gateway.broker, gateway.sessions, call),
}
