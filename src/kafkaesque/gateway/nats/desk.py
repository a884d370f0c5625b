"""What the connections of one broker share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkaesque import __version__
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.listeners import NATS
from kafkaesque.chassis.deliveries import Outbox
from kafkaesque.env.report_limit import ReportLimit
from kafkaesque.gateway.nats.jetstream.api import JetStream
from kafkaesque.gateway.nats.messages import Variants, sent_message
from kafkaesque.protocols.nats.writing import Info
from kafkaesque.routing.errors import BadName
from kafkaesque.routing.names import NATS as NATS_NAMES

#: Headers and payload of a message together.
PAYLOAD_BYTES_MAX: Final = 1024 * 1024
#: The release of nats-server whose requests and answers clients find here: they look at its number
#: to know what they may ask for.
SPOKEN: Final = "2.10.0"


class Desk:
    """See the module."""

    __slots__ = ("_report", "doors", "is_leaving", "jetstream", "outbox", "server_id", "variants")

    def __init__(self, doors: Doors, report: Callable[[str], None]) -> None:
        self.doors: Final = doors
        self.variants: Final = Variants()
        self.outbox: Final = Outbox(doors.clock)
        self.jetstream: Final = JetStream(doors, self.send)
        #: Whether the broker is about to stop, and clients should go elsewhere.
        self.is_leaving = False
        self.server_id: Final = doors.dice.unique_bytes(16).hex().upper()
        self._report: Final = ReportLimit(report, doors.clock.call_later)

    def say(self, line: str) -> None:
        """Tell operators, within bounds."""
        self._report.say(line)

    def send(
        self, to: str, *, subject: str = "", reply: str = "", headers: bytes = b"", payload: bytes
    ) -> bool:
        """Send a message of the broker's own to those who are subscribed to a subject.

        They are shown `subject`, if that is another one. Returns whether there is anybody.
        """
        try:
            key = NATS_NAMES.key_of(to)
        except BadName:
            return False
        message = sent_message(key, subject=subject, reply=reply, headers=headers, payload=payload)
        return self.doors.live.publish(message)

    def info(
        self,
        listener: str,
        *,
        client_id: int,
        host: str,
        is_encrypted: bool,
        needs_login: bool,
        nonce: str,
    ) -> Info:
        """Return what a client of a listener is told of this broker."""
        cluster = self.doors.cluster
        own = cluster.state.brokers.get(cluster.node)
        address = None if own is None else own.endpoint(NATS, listener)
        return Info(
            server_id=self.server_id,
            server_name=f"kafkaesque-{cluster.node}",
            version=f"{SPOKEN}-kafkaesque.{__version__}",
            proto=1,
            host="" if address is None else address.host,
            port=0 if address is None else address.port,
            headers=True,
            jetstream=True,
            max_payload=PAYLOAD_BYTES_MAX,
            client_id=client_id,
            client_ip=host,
            auth_required=needs_login,
            # It is spoken already: clients that want it look for this.
            tls_required=is_encrypted,
            nonce=nonce,
            connect_urls=self._urls(listener),
            ldm=self.is_leaving,
        )

    def _urls(self, listener: str) -> tuple[str, ...]:
        """Return where else the cluster can be reached; of a broker that leaves, not here."""
        cluster = self.doors.cluster
        found = []
        for broker in sorted(cluster.alive_brokers(), key=lambda each: each.node):
            address = broker.endpoint(NATS, listener)
            if address is not None and not (self.is_leaving and broker.node == cluster.node):
                found.append(str(address))
        return tuple(found)
