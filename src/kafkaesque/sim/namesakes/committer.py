"""A group without members that commits offsets for whichever topic has the name, and reads them.

One commits by name and one by id, as older and newer clients do; of others producers commit within
transactions, and this only reads. Each asks by name or by id, as its dice say.
"""

from typing import Any, Final

from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkaesque.protocols.kafka.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kafkaesque.sim.clients.coordinator_link import BUSY, LOST, CoordinatorLink, KeyType
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.namesakes.offset_history import OffsetHistory, Question
from kafkaesque.sim.namesakes.topic import NAME, PARTITIONS, PassingTopic

#: By name, and by id.
OFFSET_COMMIT_VERSIONS: Final = (8, 10)
OFFSET_FETCH_VERSIONS: Final = (9, 10)
PAUSE_MS: Final = 100
#: One step in so many reads.
READ_ONE_IN: Final = 3
#: So often at most a group commits for one topic; then it only reads, or nobody would notice what
#: is lost for long.
COMMITS_MAX: Final = 6

#: What a group without members is never told of its offsets.
_NEVER: Final = (
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.INVALID_GROUP_ID,
)
#: Nothing has become of a commit.
_REFUSED: Final = (
    *BUSY,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
)


class NamesakeCommitter:
    """One group."""

    def __init__(
        self,
        client: KafkaClient,
        topic: PassingTopic,
        history: OffsetHistory,
        *,
        commits_by_id: bool | None,
    ) -> None:
        """With None for `commits_by_id` somebody else commits."""
        self._client: Final = client
        self._topic: Final = topic
        self._history: Final = history
        self._commits_by_id: Final = commits_by_id
        self._coordinator: Final = CoordinatorLink(client, history.group_id, KeyType.GROUP)
        #: The number of the topic that was committed for last, and how many more commits follow.
        self._number = 0
        self._left = 0
        self._is_concluding = False
        #: Whether the last word is said: what was committed last is there.
        self.is_concluded = False
        client.later(self._step, PAUSE_MS)

    def conclude(self) -> None:
        """Nothing goes wrong or is on its way any more, and the last topic is there: read it."""
        self._is_concluding = True

    def __str__(self) -> str:
        return f"group {self._history.group_id}: read to the end: {self.is_concluded}"

    def _step(self) -> None:
        topic = self._topic.current
        if self.is_concluded:
            return
        if topic is None:
            self._client.rest(self._step, PAUSE_MS)
            return
        below = self._client.env.dice.below
        if topic.number != self._number:
            self._number = topic.number
            self._left = 1 + below(COMMITS_MAX)
        by_id = self._commits_by_id
        # Who waits for the end commits nothing any more: what is read is what has outlived it all.
        is_over = self._topic.last is not None or not self._left
        is_reading = is_over or by_id is None or below(READ_ONE_IN) == 0
        if is_reading or by_id is None:
            is_final = self._is_concluding
            question = self._history.ask(topic, is_by_id=below(2) == 0, is_final=is_final)
            self._read(question)
        else:
            self._commit(is_by_id=by_id)

    def _again(self, code: int | None) -> None:
        if code in _NEVER:
            self._history.note_refused(code)
        if code is None or code in LOST:
            self._coordinator.forget()
        self._client.later(self._step, PAUSE_MS)

    # -- committing

    def _commit(self, *, is_by_id: bool) -> None:
        topic = self._topic.current
        if topic is None:
            return
        number = self._history.send(topic)
        partitions = [
            OffsetCommitRequestPartition(partition_index=each, committed_offset=number)
            for each in range(PARTITIONS)
        ]
        asked = OffsetCommitRequestTopic(topic_id=topic.topic_id, name=NAME, partitions=partitions)
        request = OffsetCommitRequest(group_id=self._history.group_id, topics=[asked])

        def receive(response: Any) -> None:
            code: int | None = None
            if response is not None:
                code = max(each.error_code for each in response.topics[0].partitions)
            if code == ErrorCode.NONE:
                self._history.note_stored(number, topic)
                self._history.note_counts(number, topic)
                self._left -= self._left > 0
                self._client.rest(self._step, PAUSE_MS)
                return
            if code not in _REFUSED:
                self._history.note_stray(number)
            self._again(code)

        version = OFFSET_COMMIT_VERSIONS[is_by_id]
        self._coordinator.ask(ApiKey.OFFSET_COMMIT, version, request, receive)

    # -- reading

    def _read(self, question: Question) -> None:
        asked = OffsetFetchRequestTopics(
            topic_id=question.topic.topic_id, name=NAME, partition_indexes=list(range(PARTITIONS))
        )
        group = OffsetFetchRequestGroup(group_id=self._history.group_id, topics=[asked])
        request = OffsetFetchRequest(groups=[group], require_stable=True)

        def receive(response: Any) -> None:
            if response is None or response.groups[0].error_code:
                self._again(None if response is None else response.groups[0].error_code)
                return
            partitions = response.groups[0].topics[0].partitions
            code = max(each.error_code for each in partitions)
            if code:
                self._again(code)
                return
            for each in partitions:
                self._history.judge(question, each.partition_index, each.committed_offset)
            self.is_concluded = question.is_final
            self._client.rest(self._step, PAUSE_MS)

        version = OFFSET_FETCH_VERSIONS[question.is_by_id]
        self._coordinator.ask(ApiKey.OFFSET_FETCH, version, request, receive)
