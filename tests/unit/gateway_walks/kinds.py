"""The protocols, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.unit.gateway_walks.administration import AdminSpeaker, RabbitSpeaker, RegistrySpeaker
from tests.unit.gateway_walks.amqp import AmqpSpeaker
from tests.unit.gateway_walks.kafka import KafkaSpeaker
from tests.unit.gateway_walks.mqtt import MqttSpeaker
from tests.unit.gateway_walks.nats import NatsSpeaker
from tests.unit.gateway_walks.speaker import Speaker
from tests.unit.gateway_walks.sqs import SqsSpeaker
from tests.unit.gateway_walks.stomp import StompSpeaker
from tests.unit.gateway_walks.text import TextSpeaker
from tests.unit.gateway_walks.web_socket import WebSocketSpeaker

KINDS: Final[Mapping[str, type[Speaker]]] = {
    "amqp": AmqpSpeaker,
    "mqtt": MqttSpeaker,
    "stomp": StompSpeaker,
    "nats": NatsSpeaker,
    "sqs": SqsSpeaker,
    "kafka": KafkaSpeaker,
    "text": TextSpeaker,
    "web-sockets": WebSocketSpeaker,
    "admin": AdminSpeaker,
    "rabbitmq": RabbitSpeaker,
    "registry": RegistrySpeaker,
}
