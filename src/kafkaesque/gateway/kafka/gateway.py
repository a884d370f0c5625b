"""The Kafka port: accepts clients and brings each request to its handler."""

from dataclasses import replace
from functools import partial
from typing import Final

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.listeners import Listener
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.chassis.gateway import Gateway
from kafkaesque.chassis.link import PortOptions
from kafkaesque.chassis.logins import TOO_OLD
from kafkaesque.env.network import Address, Framing
from kafkaesque.gateway.kafka.authorization import make_guards
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.connection import KafkaConnection
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.handlers import HANDLERS, Handler
from kafkaesque.protocols.kafka.api import ApiKey

#: What a log-in is made of.
LOG_IN: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
CONNECTIONS_MAX = 20_000
#: Bytes of answers that a client may leave unread, beside what the kernel takes of them.
UNSENT_BYTES_MAX = 1024 * 1024


class KafkaGateway(Gateway):
    """One broker's Kafka ports."""

    def __init__(self, doors: Doors, chassis: Chassis) -> None:
        super().__init__(chassis)
        self.context: Final = Context(doors, chassis.quotas, HANDLERS)
        self._handlers: dict[int, Handler] = dict(HANDLERS)
        self._guards: Final = make_guards(HANDLERS)

    def start(self, listener: Listener) -> Address:
        """Listen, at one more port if there is one; return the bound address.

        Raises:
            OSError: the address cannot be bound.
        """
        option = self.context.doors.configuration.get
        options = replace(
            PortOptions.of(listener, Framing.LENGTH_PREFIXED),
            frame_bytes_max=int(option("socket.request.max.bytes")),
            connections_max=CONNECTIONS_MAX,
            unsent_bytes_max=UNSENT_BYTES_MAX,
            idle_ms_max=lambda: int(option("connections.max.idle.ms")),
        )
        make = partial(KafkaConnection, self.context, self.handle)
        return self.listen(listener.address, options, make)

    def handle(self, call: Call) -> None:
        """Begin a request.

        Raises:
            MalformedRequest: its body cannot be read.
        """
        if call.connection.is_guarded and not self._may_begin(call):
            return
        self._handlers[call.header.api_key](self.context, call)

    def _may_begin(self, call: Call) -> bool:
        """Tell whether a client that may have to log in has, and may ask for this."""
        connection, key = call.connection, call.header.api_key
        if key in LOG_IN or (key == ApiKey.API_VERSIONS and connection.sasl is None):
            return True
        if connection.needs_login or connection.sasl is not None:
            connection.refuse(f"API {key} came before the log-in was done")
            return False
        rights = connection.rights
        if rights is None:
            connection.note_no_login()
            return True
        if self.context.doors.access.is_stale:
            # It is on its way out; whoever was paused has not been told yet.
            connection.refuse(TOO_OLD)
            return False
        return self._guards[key](rights, self.context, call)
