"""An idempotent producer that begins anew when an unclean election has given up its records."""

from collections.abc import Callable
from typing import Any, Final

from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.clients.producer import NEVER, Batch, SimProducer
from kafkaesque.sim.unclean.history import UncleanHistory

#: What it is answered whose records were given up: those that follow do not follow any more.
REFUSALS: Final = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)


#: A leader takes a gap in its numbers for requests that were refused elsewhere, and says for up to
#: a minute that they are to be sent again; so long it is believed while there is more to send.
PATIENCE_MS: Final = 4_000


class UncleanProducer(SimProducer):
    """Writes one partition of several.

    Refused for good, or for too long, it gives up what was not acknowledged, as an application does
    that is told of it, and goes on under another id with records that are new.
    """

    def __init__(
        self,
        client: KafkaClient,
        name: str,
        partition: int,
        partitions: int,
        history: UncleanHistory,
        in_flight: int,
    ) -> None:
        self._history: Final = history
        self._own: Final = partition
        self._root: Final = name
        self._lives = 0
        #: The era of what was acknowledged last, or an earlier one.
        self._era = 0
        self._is_refused = False
        #: When what is on its way was sent first.
        self._since_ms = 0
        super().__init__(client, name, partitions, history, in_flight=in_flight)

    def _on_id(self, response: Any) -> None:
        if response is not None and not response.error_code:
            self._lives += 1
            self._name = f"{self._root}.{self._lives}"
            self._sequences[self._own] = 0
            self._is_refused = False
        super()._on_id(response)

    def _next(self, partition: int) -> None:
        if partition == self._own:
            self._since_ms = self._client.env.clock.now_ms()
            super()._next(partition)

    def _receiver(self, partition: int, batch: Batch, count: int) -> Callable[[Any], None]:
        link = self._client.leader_link(partition)
        era = 0 if link is None else self._history.era_at(link.address.host, partition)

        def receive(response: Any) -> None:
            outcome = None
            if response is not None:
                outcome = response.responses[0].partition_responses[0]
            if outcome is not None and outcome.error_code == 0:
                self._batches[partition].remove(batch)
                self._era = max(self._era, era)
                self._history.note_acknowledged(partition, outcome.base_offset, batch.values, era)
            elif outcome is not None and outcome.error_code in NEVER:
                self._on_refused(partition, outcome)
            self._due[partition] -= 1
            if self._due[partition] == 0:
                self._go_on(partition, count)

        return receive

    def _on_refused(self, partition: int, outcome: Any) -> None:
        code = ErrorCode(outcome.error_code)
        if code in REFUSALS and self._history.latest(partition) > self._era:
            self._is_refused = True
            return
        self._history.note_anomaly(
            f"producer {self._name}, partition {partition}: refused with {code.name}, and no "
            f"unclean election was since era {self._era}: {outcome.error_message}"
        )

    def _go_on(self, partition: int, count: int) -> None:
        waited_ms = self._client.env.clock.now_ms() - self._since_ms
        is_tired = self._batches[partition] and waited_ms >= PATIENCE_MS and not self.is_stopped
        if self._is_refused or is_tired:
            self._batches[partition].clear()
            self._begin()
        else:
            super()._go_on(partition, count)
