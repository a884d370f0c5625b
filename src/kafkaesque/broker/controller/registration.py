"""A broker's registration with the controller: made at the start, and anew if somebody changes it.

It says where clients find the broker, so one that is another process's has to be made anew by the
broker that lives; the controller takes it only from a process that it does not hear another one of.
"""

from typing import TYPE_CHECKING, Final

from kafkaesque.broker.metadata.features import KNOWN
from kafkaesque.broker.metadata.records import BrokerRegistered
from kafkaesque.broker.requests.commands import Done, RegisterBroker
from kafkaesque.model.errors import DuplicateBroker, FeatureUpdateFailed
from kafkaesque.model.log_line import LogLine

if TYPE_CHECKING:
    from kafkaesque.broker.broker import Broker

REGISTER_RETRY_MS: Final = 200


class Registration:
    """Registers one broker, again and again until that is committed."""

    def __init__(self, broker: "Broker") -> None:
        self._broker: Final = broker
        self._is_under_way = False
        #: Whether it was said that this broker's release is too old for the cluster.
        self._is_refusal_told = False

    def is_own(self) -> bool:
        """Tell whether it is this process that is registered, as far as it knows."""
        record = self._broker.state.brokers.get(self._broker.node)
        return record is not None and record.incarnation == self._broker.incarnation

    def start(self) -> None:
        """Register, unless that is under way."""
        if not self._is_under_way:
            self._is_under_way = True
            self._submit()

    def on_overwritten(self, record: BrokerRegistered) -> None:
        """Another process has registered as this broker, which was registered."""
        broker = self._broker
        sentence = (
            f"another process, at {record.peer_host}:{record.peer_port}, has registered as broker "
            f"{broker.node}: clients were sent to {record.host}:{record.kafka_port}. This one, at "
            f"{broker.config.peer_address}, registers again"
        )
        broker.report_error(
            LogLine("broker.contested", sentence, address=f"{record.peer_host}:{record.peer_port}")
        )
        self.start()

    def _submit(self) -> None:
        broker = self._broker
        if broker.is_stopping or broker.failure is not None:
            self._is_under_way = False
            return
        config = broker.config
        text, admin = config.text_address, config.admin_address
        command = RegisterBroker(
            node=broker.node,
            host=config.kafka_address.host,
            kafka_port=config.kafka_address.port,
            text_port=0 if text is None else text.port,
            peer_host=config.peer_address.host,
            peer_port=config.peer_address.port,
            rack=config.rack,
            incarnation=broker.incarnation,
            directory_id=broker.store.directory_id,
            features=dict(KNOWN),
            admin_port=0 if admin is None else admin.port,
        )
        broker.controller_client.submit(command, 10 * REGISTER_RETRY_MS, self._on_outcome)

    def _on_outcome(self, outcome: object) -> None:
        broker = self._broker
        if isinstance(outcome, FeatureUpdateFailed) and not self._is_refusal_told:
            self._is_refusal_told = True
            broker.report_error(f"broker {broker.node} is not taken in: {outcome}")
        if isinstance(outcome, DuplicateBroker):
            broker.identity.doubt()
        if isinstance(outcome, Done):
            self._is_under_way = False
        else:
            broker.env.clock.call_later(REGISTER_RETRY_MS, self._submit)
