"""What speaks each protocol, loaded when a broker has a listener for it.

A gateway's modules take memory whether somebody uses them or not: those of the admin port with the
console take about as much as the rest of a small broker's gateways together. So each is imported
here, in a function, by whoever needs it first.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.listeners import (
    ADMIN,
    AMQP,
    KAFKA,
    MQTT,
    NATS,
    REGISTRY,
    SQS,
    STOMP,
    TEXT,
    WEBSOCKET,
    names_of,
)
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.chassis.gateway import Gateway
from kafkaesque.model.errors import InvariantBroken


def _make_kafka(doors: Doors, chassis: Chassis) -> Gateway:
    from kafkaesque.gateway.kafka.gateway import KafkaGateway

    return KafkaGateway(doors, chassis)


def _make_text(doors: Doors, chassis: Chassis) -> Gateway:
    from kafkaesque.gateway.text.gateway import TextGateway

    return TextGateway(doors, chassis)


def _make_sqs(doors: Doors, chassis: Chassis) -> Gateway:
    from kafkaesque.gateway.sqs.gateway import SqsGateway

    return SqsGateway(doors, chassis)


def _make_registry(doors: Doors, chassis: Chassis) -> Gateway:
    from kafkaesque.gateway.registry.gateway import RegistryGateway

    return RegistryGateway(doors, chassis)


def _make_amqp(doors: Doors, chassis: Chassis) -> Gateway:
    from kafkaesque.gateway.amqp.gateway import AmqpGateway

    return AmqpGateway(doors, chassis)


def _make_mqtt(doors: Doors, chassis: Chassis) -> Gateway:
    from kafkaesque.gateway.mqtt.gateway import MqttGateway

    return MqttGateway(doors, chassis)


def _make_nats(doors: Doors, chassis: Chassis) -> Gateway:
    from kafkaesque.gateway.nats.gateway import NatsGateway

    return NatsGateway(doors, chassis)


def _make_stomp(doors: Doors, chassis: Chassis) -> Gateway:
    from kafkaesque.gateway.stomp.gateway import StompGateway

    return StompGateway(doors, chassis)


def _make_admin(doors: Doors, chassis: Chassis) -> Gateway:
    from kafkaesque.admin.gateway import AdminGateway
    from kafkaesque.console.pages import ConsolePages

    return AdminGateway(doors, chassis, pages=ConsolePages())


_MAKERS: Final[Mapping[str, Callable[[Doors, Chassis], Gateway]]] = {
    KAFKA: _make_kafka,
    TEXT: _make_text,
    SQS: _make_sqs,
    REGISTRY: _make_registry,
    AMQP: _make_amqp,
    MQTT: _make_mqtt,
    NATS: _make_nats,
    STOMP: _make_stomp,
    ADMIN: _make_admin,
}


#: What is spoken over WebSocket, by the path of the handshake.
PATHS: Final[Mapping[str, str]] = {"/mqtt": MQTT, "/nats": NATS, "/stomp": STOMP}


def make_gateway(doors: Doors, chassis: Chassis, protocol: str) -> Gateway:
    """Return what speaks a protocol; it listens nowhere yet."""
    return _MAKERS[protocol](doors, chassis)


def make_gateways(doors: Doors, chassis: Chassis, protocols: Iterable[str]) -> dict[str, Gateway]:
    """Return what speaks the protocols, one gateway each; they listen nowhere yet.

    With WebSockets there is whatever is spoken within them, whether it has a port of its own or
    not.
    """
    wanted = dict.fromkeys(protocols)
    over_web_socket = PATHS if WEBSOCKET in wanted else {}
    wanted.update(dict.fromkeys(over_web_socket.values()))
    found = {each: make_gateway(doors, chassis, each) for each in wanted if each != WEBSOCKET}
    if WEBSOCKET in wanted:
        found[WEBSOCKET] = _make_web_socket(doors, chassis, found)
    return found


def _make_web_socket(doors: Doors, chassis: Chassis, found: Mapping[str, Gateway]) -> Gateway:
    from kafkaesque.chassis.stream_gateway import StreamGateway
    from kafkaesque.chassis.web_socket_gateway import WebSocketGateway

    speakers: dict[str, StreamGateway] = {}
    for path, protocol in PATHS.items():
        speaker = found[protocol]
        if not isinstance(speaker, StreamGateway):
            raise InvariantBroken(f"{protocol} is not spoken over WebSocket")
        speakers[path] = speaker
    file = doors.configuration.file
    return WebSocketGateway(chassis, speakers, lambda: names_of(file.listeners, WEBSOCKET))


def load_log_ins() -> None:
    """Load what serves clients that log in, so that the first one does not wait for it."""
    import kafkaesque.access.sasl_servers  # noqa: F401
