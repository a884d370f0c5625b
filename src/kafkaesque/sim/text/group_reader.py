"""Somebody who reads by `next`: while every answer comes, it skips and repeats nothing.

Where an answer does not come, or does not say what became of the commit, nobody knows where the
group is, and `next` promises no more. Another group begins then, at the start, as its own reader.
"""

from collections.abc import Mapping
from typing import Any, Final

from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kafkaesque.protocols.text.answers import OFFSETS_IN_DOUBT
from kafkaesque.sim.clients.coordinator_link import CoordinatorLink, KeyType
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.pipeline.committed_offsets import OFFSET_FETCH_VERSION
from kafkaesque.sim.text.answers import NEXT, Consumed, read_consumed
from kafkaesque.sim.text.client import TextClient
from kafkaesque.sim.text.link import Answer
from kafkaesque.sim.text.observations import TextObservations
from kafkaesque.sim.text.reader import Subscriber, follow_on, is_refusal, note_shown

PAUSE_MS: Final = 250


class GroupReader(Subscriber):
    """Reads all partitions as one group after the other."""

    def __init__(
        self,
        client: TextClient,
        kafka: KafkaClient,
        name: str,
        observations: TextObservations,
        *,
        is_wary: bool,
    ) -> None:
        """With `is_wary` a machine may give out anything, and a group is given up after that."""
        super().__init__(client)
        self.is_stopped = False
        #: How many groups there were.
        self.groups = 0
        #: What the group has committed, as it was told.
        self.positions: dict[int, int] = {}
        #: Whether Kafka's clients are told the same.
        self.is_agreed = False
        self._kafka: Final = kafka
        self._name: Final = name
        self._observations: Final = observations
        self._is_wary: Final = is_wary
        self._is_concluding = False
        self._group = ""
        client.env.clock.call_soon(self._begin)

    def conclude(self) -> None:
        """Nothing is published any more: ask Kafka's way what is committed, at the next end."""
        self._is_concluding = True

    # -- a group

    def _begin(self) -> None:
        self.groups += 1
        self._group = f"{self._name}-{self.groups}"
        self.positions = dict.fromkeys(range(self._observations.partitions), 0)
        self._subscribe(self._group)

    def _consume(self) -> None:
        if not self.is_stopped:
            line = f"CONS {self._client.topic} {self._subscription_id} {NEXT}"
            self._client.ask(line, self._on_consumed)

    def _on_consumed(self, answer: Answer | None) -> None:
        if answer is None:
            self._client.later(self._begin)
            return
        if is_refusal(answer):
            self._client.later(self._consume)
            return
        consumed = read_consumed(answer, self._client.topic, self._subscription_id)
        if consumed is None:
            self._note_bad(answer)
            self._client.later(self._begin)
        elif self._is_wary and not follow_on(self.positions, consumed):
            self._client.later(self._begin)
        else:
            self._take(consumed)

    def _take(self, consumed: Consumed) -> None:
        positions = note_shown(self._observations, self._group, self.positions, consumed)
        if OFFSETS_IN_DOUBT in consumed.note:
            self._client.later(self._begin)
        elif consumed.start != NEXT:
            # The group has not moved, and shows the same again.
            self._client.later(self._consume)
        else:
            self.positions = positions
            self._go_on(is_end=not consumed.messages and not consumed.note)

    def _go_on(self, *, is_end: bool) -> None:
        if not is_end:
            self._client.env.clock.call_soon(self._consume)
        elif self._is_concluding and not self.is_agreed:
            self._ask_kafka()
        else:
            self._client.rest(self._consume, PAUSE_MS)

    # -- by the other protocol

    def _ask_kafka(self) -> None:
        topic = OffsetFetchRequestTopics(
            name=self._client.topic, partition_indexes=sorted(self.positions)
        )
        group = OffsetFetchRequestGroup(group_id=self._group, topics=[topic])
        request = OffsetFetchRequest(groups=[group], require_stable=True)
        coordinator = CoordinatorLink(self._kafka, self._group, KeyType.GROUP)
        coordinator.ask(ApiKey.OFFSET_FETCH, OFFSET_FETCH_VERSION, request, self._on_fetched)

    def _on_fetched(self, response: Any) -> None:
        found = None if response is None else response.groups[0]
        if found is None or found.error_code:
            self._client.later(self._consume)
            return
        partitions = found.topics[0].partitions
        if not any(each.error_code for each in partitions):
            self._compare({each.partition_index: each.committed_offset for each in partitions})
        self._client.rest(self._consume, PAUSE_MS)

    def _compare(self, committed: Mapping[int, int]) -> None:
        self.is_agreed = True
        if dict(committed) != self.positions:
            self._observations.note_anomaly(
                f"lost commit: group {self._group} was shown all up to {self.positions}, and has "
                f"committed {dict(committed)}"
            )

    def _note_bad(self, answer: Answer) -> None:
        self._observations.note_anomaly(f"bad answer: {answer.last!r} to {self._group}")
