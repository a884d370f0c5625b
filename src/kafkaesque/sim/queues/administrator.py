"""Somebody who changes queues' options, and purges queues, while they are used."""

from typing import Any, Final

from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.messages.alter_queue_request import AlterQueueRequest, SetOption
from kafkaesque.protocols.kafka.messages.maintain_queue_request import MaintainQueueRequest
from kafkaesque.sim.queues.client import TIMEOUT_MS, VHOST, QueueClient
from kafkaesque.sim.queues.history import Purged, QueueSpec

PAUSE_MS: Final = 1_500
PURGE: Final = 0


class QueueAdministrator:
    """Changes something now and then, until it is stopped."""

    def __init__(self, client: QueueClient, specs: list[QueueSpec]) -> None:
        self.is_stopped = False
        self._client: Final = client
        self._changed: Final = [spec for spec in specs if spec.changes or spec.is_purged]
        self._is_busy = False
        if self._changed:
            client.rest(self._act, PAUSE_MS)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is asked."""
        return not self._is_busy

    def _act(self) -> None:
        if self.is_stopped:
            return
        self._is_busy = True
        dice = self._client.env.dice
        spec = self._changed[dice.below(len(self._changed))]
        if spec.is_purged and (not spec.changes or dice.below(2) == 0):
            self._purge(spec)
            return
        names = list(spec.changes)
        name = names[dice.below(len(names))]
        values = spec.changes[name]
        options = [SetOption(name, values[dice.below(len(values))])]
        request = AlterQueueRequest(VHOST, spec.name, options, TIMEOUT_MS)
        self._client.ask(ApiKey.ALTER_QUEUE, request, lambda _: self._then())

    def _purge(self, spec: QueueSpec) -> None:
        purged = Purged(queue=spec.name, sent_ms=self._client.true_ms())
        self._client.history.purges.append(purged)

        def on_answer(answer: Any) -> None:
            if answer is not None and answer.error_code == 0:
                purged.answered_ms = self._client.true_ms()
            self._then()

        request = MaintainQueueRequest(VHOST, spec.name, PURGE, "", TIMEOUT_MS)
        self._client.ask(ApiKey.MAINTAIN_QUEUE, request, on_answer)

    def _then(self) -> None:
        self._is_busy = False
        self._client.rest(self._act, PAUSE_MS)
