"""A broker's registration with the controller: made at the start, and anew if somebody changes it.

It says where clients find the broker, so one that is another process's has to be made anew by the
broker that lives; the controller takes it only from a process that it does not hear another one of.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from kafkaesque.broker.config import BrokerConfig
from kafkaesque.broker.controller.client import ControllerClient
from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.life import Life
from kafkaesque.broker.listeners import ADMIN, TEXT
from kafkaesque.broker.metadata.features import KNOWN
from kafkaesque.broker.metadata.records import BrokerRegistered
from kafkaesque.broker.reports import Reports
from kafkaesque.broker.requests.commands import Done, RegisterBroker
from kafkaesque.env.clock import Clock
from kafkaesque.model.errors import DuplicateBroker, FeatureUpdateFailed
from kafkaesque.model.ids import NodeId
from kafkaesque.model.log_line import LogLine
from kafkaesque.storage.log_store import LogStore

REGISTER_RETRY_MS: Final = 200


class Registration:
    """Registers one broker, again and again until that is committed."""

    def __init__(
        self,
        *,
        node: NodeId,
        incarnation: int,
        metadata: MetadataView,
        reports: Reports,
        config: BrokerConfig,
        controller: ControllerClient,
        life: Life,
        store: LogStore,
        clock: Clock,
    ) -> None:
        self._metadata = metadata
        self._node = node
        self._incarnation = incarnation
        self._reports = reports
        self._config = config
        self._controller = controller
        self._life = life
        self._store = store
        self._clock = clock
        self._is_under_way = False
        #: Whether it was said that this broker's release is too old for the cluster.
        self._is_refusal_told = False
        #: Told that the controller hears of another process with this broker's id.
        self.on_duplicate: Callable[[], None] = lambda: None

    def is_own(self) -> bool:
        """Tell whether it is this process that is registered, as far as it knows."""
        record = self._metadata.state.brokers.get(self._node)
        return record is not None and record.incarnation == self._incarnation

    def maybe_renew(self) -> None:
        """Register again if the cluster may hear now of listeners that it did not know before."""
        record = self._metadata.state.brokers.get(self._node)
        if record is not None and not record.endpoints and self.is_own():
            self.start()

    def start(self) -> None:
        """Register, unless that is under way."""
        if not self._is_under_way:
            self._is_under_way = True
            self._submit()

    def on_overwritten(self, record: BrokerRegistered) -> None:
        """Another process has registered as this broker, which was registered."""
        sentence = (
            f"another process, at {record.peer_host}:{record.peer_port}, has registered as broker "
            f"{self._node}: clients were sent to {record.host}:{record.kafka_port}. This one, at "
            f"{self._config.peer_address}, registers again"
        )
        self._reports.error(
            LogLine("broker.contested", sentence, address=f"{record.peer_host}:{record.peer_port}")
        )
        self.start()

    def _submit(self) -> None:
        if self._life.is_stopping or self._life.failure is not None:
            self._is_under_way = False
            return
        config = self._config
        kafka = config.kafka_address
        ports = {each.protocol: each.advertised.port for each in reversed(config.listeners)}
        is_new = not self._metadata.state.features
        command = RegisterBroker(
            node=self._node,
            host=kafka.host,
            kafka_port=kafka.port,
            text_port=ports.get(TEXT, 0),
            peer_host=config.peer_address.host,
            peer_port=config.peer_address.port,
            rack=config.rack,
            incarnation=self._incarnation,
            directory_id=self._store.directory_id,
            features=dict(KNOWN),
            admin_port=ports.get(ADMIN, 0),
            endpoints={each.name: (each.protocol, *each.advertised) for each in config.listeners},
            # An older cluster would not take them: they need not travel.
            first_users=(is_new and config.first_users) or msgspec.UNSET,
            first_rules=(is_new and config.first_rules) or msgspec.UNSET,
        )
        self._controller.submit(command, 10 * REGISTER_RETRY_MS, self._on_outcome)

    def _on_outcome(self, outcome: object) -> None:
        if isinstance(outcome, FeatureUpdateFailed) and not self._is_refusal_told:
            self._is_refusal_told = True
            self._reports.error(f"broker {self._node} cannot be registered: {outcome}")
        if isinstance(outcome, DuplicateBroker):
            self.on_duplicate()
        if isinstance(outcome, Done):
            self._is_under_way = False
        else:
            self._clock.call_later(REGISTER_RETRY_MS, self._submit)
