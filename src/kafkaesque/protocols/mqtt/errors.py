"""What a peer can do wrong."""

from kafkaesque.model.errors import KafkaesqueError
from kafkaesque.protocols.mqtt.reasons import ReasonCode


class MqttError(KafkaesqueError):
    """A peer's mistake that ends the connection, and the reason code that says so."""

    def __init__(self, reason: ReasonCode, what: str) -> None:
        super().__init__(what)
        self.reason = reason


def malformed(what: str) -> MqttError:
    """Return the error for bytes that are no packet (5.0, section 1.2)."""
    return MqttError(ReasonCode.MALFORMED_PACKET, what)


def protocol_error(what: str) -> MqttError:
    """Return the error for a packet that must not be here, or not with these values."""
    return MqttError(ReasonCode.PROTOCOL_ERROR, what)
